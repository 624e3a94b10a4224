"""GOOD's guarantee put to the test: the certified confidence of outliers against every attack that farout has.

`python -m benchmarks.guarantee good.safetensors --inliers cifar10 --outliers svhn` prints the test accuracy, how often
an attack exceeded the bound (never, or the bound is wrong), the median confidence of the outliers (unchanged, after
the strongest attack on each, certified), and the AUROC of inliers against outliers with these confidences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

import farout
from farout.attacks.catalog import ATTACKS
from farout.attacks.gradients import ball
from farout.core import ImageSet
from farout.detectors.trained.acet import uniform_distance
from farout.detectors.trained.ceda import max_log_probability
from farout.detectors.trained.good import GOOD
from farout.detectors.trained.inner_attack import Loss, maximize
from farout.metrics import auroc_interval
from farout.progress import listening, silent
from farout.tensors import chunks

ASCENTS, STEPS, CORNERS, TARGETS = 5, 200, 50, 3
"""Gradient ascents and their steps, random corners of the ball, and classes that the classifier's attacks lead from."""


def main(arguments: Sequence[str] = ()) -> None:
    options = _options(arguments)
    detector = farout.detectors.load(options.weights)
    if not isinstance(detector, GOOD):
        raise SystemExit(f"expected weights of good, got {detector.name}")
    inliers = farout.load(options.inliers, limit=options.count_inliers)
    outliers = farout.load(options.outliers, limit=options.count)
    epsilon = detector.epsilon if options.epsilon is None else options.epsilon
    images = outliers.batch(range(len(outliers)))
    certified = detector.certified_confidence(images, epsilon).detach()
    strongest, clean = confidence(detector, images), confidence(detector, images)
    print(f"radius {epsilon}, {len(images)} images of {outliers.name}, {len(inliers):,} of {inliers.name}")
    exceeded, (low, high) = 0, ball(images, epsilon)
    with listening(silent):
        for title, found in attacked(detector, images, epsilon):
            reached = confidence(detector, found.clamp(low, high))
            strongest, above = torch.maximum(strongest, reached), int((reached > certified + 1e-6).sum())
            exceeded += above
            print(f"{title:<52} median confidence {reached.median():.3f}, bound exceeded {above} times")
    report(detector, inliers, {"clean": clean, "attacked": strongest, "certified": certified}, exceeded)


def confidence(detector: GOOD, images: Tensor) -> Tensor:
    """Return max p of every image, [N] float64."""
    with torch.no_grad():
        parts = [detector.network(images[part], needs=()).logits.double() for part in chunks(len(images), 256)]
    return torch.cat(parts).softmax(1).amax(1)


def attacked(detector: GOOD, images: Tensor, epsilon: float) -> Iterator[tuple[str, Tensor]]:
    """Yield attacks on the outliers with their titles: images that may leave the ball, and are projected on it."""
    network, draws, (low, high) = detector.network, torch.Generator().manual_seed(0), ball(images, epsilon)
    losses: dict[str, Loss] = {"confidence": max_log_probability, "distance from uniform": uniform_distance}
    for title, loss in losses.items():
        for number in range(ASCENTS):
            start = low + (high - low) * torch.rand(images.shape, generator=draws)
            found = maximize(network, loss, start, (low, high), step=epsilon / 10, steps=STEPS)
            yield f"ascent {number + 1} of the {title}", found
    for number in range(CORNERS):
        yield f"random corner {number + 1}", torch.where(torch.rand(images.shape, generator=draws) < 0.5, low, high)
    order = network(images, needs=()).logits.argsort(1, descending=True)
    for name in ATTACKS.names():
        attack = ATTACKS.create(name)
        params = {"epsilon": epsilon} if "epsilon" in attack.params else {}
        if attack.against != "classifier":
            found = farout.attack(name, network, images, order[:, 0], detector=detector, seed=0, **params)
            yield name, found.images
        else:
            for rank in range(TARGETS):  # away from a class, toward confidence in another
                found = farout.attack(name, network, images, order[:, rank], seed=0, **params).images
                yield f"{name} away from class {rank + 1} of the likeliest", found
    pixel = farout.variations.create("pixel", radius=epsilon)
    yield "search in the ball", farout.worst_case(detector, pixel, images, method="zeroth_order", steps=STEPS).images


def report(detector: GOOD, inliers: ImageSet, confidences: dict[str, Tensor], exceeded: int) -> None:
    """Print accuracy, medians and AUROC."""
    logits = torch.cat([detector.network(part, needs=()).logits.detach() for part in inliers])
    assert inliers.labels is not None
    accuracy = (logits.argmax(1).numpy() == np.asarray(inliers.labels)).mean()
    inside = 1 - logits.double().softmax(1).amax(1).numpy()
    print(f"test accuracy {accuracy:.1%}; bound exceeded {exceeded} times")
    for name, values in confidences.items():
        outside = 1 - values.numpy()
        value, low, high = auroc_interval(inside, outside)
        print(f"{name:<10} median confidence {values.median():.3f}, AUROC {value:.3f} [{low:.3f}, {high:.3f}]")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="file of farout train good")
    parser.add_argument("--inliers", default="cifar10")
    parser.add_argument("--outliers", default="svhn")
    parser.add_argument("--count", type=int, default=200, help="number of outliers")
    parser.add_argument("--count-inliers", type=int, default=5_000, help="number of inliers")
    parser.add_argument("--epsilon", type=float, help="radius; by default that of the training")
    return parser.parse_args(arguments or None)


if __name__ == "__main__":
    main()
