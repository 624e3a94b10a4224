"""Attacks beside Foolbox's at equal settings: success, size of the change, and time, in one run.

`python -m benchmarks.attacks` trains a small network on SHAPES on the spot; real images and weights are given with
--weights and --images. Success is counted twice: over all images, those included that were wrong from the start (public
convention), and over those that were right. The median of l_2 is over the latter. Both are timed without judging what
they found, in turn, on weights that take no gradients: Foolbox would compute those too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import farout
from benchmarks.timing import timed
from farout import attacks, rng
from farout.attacks import Attack, Victim
from farout.networks.network import Network

BATCH = 50
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Run = Callable[[], Tensor]


class Case(NamedTuple):
    """What is attacked."""

    network: Network
    images: Tensor
    labels: Tensor


class Judged(NamedTuple):
    """What an attack has achieved."""

    of_all: float
    of_right: float
    median: float
    """Of the l_2 norm of the change, over the images that were right."""


def case(given: argparse.Namespace) -> Case:
    """The network, trained where no weights are given, and the images to change."""
    tested = farout.load(given.images or "shapes", "test" if given.images else "test/id", limit=given.count)
    labels = torch.as_tensor(np.asarray(tested.labels))
    classes = given.classes or int(labels.max()) + 1
    network = farout.networks.create(given.network, classes, tested.shape[1], mean=MEAN, std=STD)
    if given.weights:
        farout.networks.load_weights(network, given.weights)
    else:
        train, val = farout.load("shapes", "train", limit=2_000), farout.load("shapes", "val", limit=200)
        farout.networks.train(network, train, val, epochs=4, augment="none")
    network.eval().requires_grad_(False)
    return Case(network, tested.batch(np.arange(len(tested))), labels)


def ours(attack: Attack, on: Case) -> Run:
    """Our attack, batch by batch."""
    victim = Victim(on.network)

    def run() -> Tensor:
        parts = []
        for start in range(0, len(on.images), BATCH):
            images, labels = on.images[start : start + BATCH], on.labels[start : start + BATCH]
            rngs = [rng.generator(0, "benchmark", start + index) for index in range(len(images))]
            parts.append(attack.run(victim, images, labels, rngs))
        return torch.cat(parts)

    return run


def theirs(attack: Any, on: Case, **options: float) -> Run:
    """Foolbox's attack, in the same batches."""
    import foolbox

    preprocessing = {"mean": MEAN, "std": STD, "axis": -3}
    model = foolbox.PyTorchModel(on.network.module, bounds=(0, 1), device="cpu", preprocessing=preprocessing)

    def run() -> Tensor:
        torch.manual_seed(0)
        batches = zip(on.images.split(BATCH), on.labels.split(BATCH), strict=True)
        return torch.cat([attack.run(model, images, labels, **options) for images, labels in batches])

    return run


def pairs(on: Case, epsilon: float) -> dict[str, dict[str, Run]]:
    """Ours and Foolbox's by name; ours alone where the package is missing."""
    runs = {name: {"farout": ours(attacks.create(name, epsilon=epsilon), on)} for name in ("fgsm", "pgd")}
    runs["deepfool"] = {"farout": ours(attacks.create("deepfool"), on)}
    try:
        import foolbox.attacks as peer
    except ImportError as error:
        print(f"\nwithout Foolbox ({error}): pip install foolbox==3.3.4")
        return runs
    runs["fgsm"]["foolbox"] = theirs(peer.LinfFastGradientAttack(random_start=False), on, epsilon=epsilon)
    pgd = peer.LinfProjectedGradientDescentAttack(rel_stepsize=1 / 30, steps=40, random_start=True)
    runs["pgd"]["foolbox"] = theirs(pgd, on, epsilon=epsilon)
    runs["deepfool"]["foolbox"] = theirs(peer.L2DeepFoolAttack(steps=50, candidates=10, overshoot=0.02), on)
    return runs


@torch.inference_mode()
def judged(on: Case, found: Tensor) -> Judged:
    """Success and size."""
    before, after = (
        torch.cat([on.network(batch, needs=()).logits.argmax(1) for batch in images.split(BATCH)]) == on.labels
        for images in (on.images, found)
    )
    norms = (found - on.images).flatten(1).norm(dim=1)[before]
    return Judged(float((~after).float().mean()), float((~after[before]).float().mean()), float(norms.median()))


def compare(name: str, runs: dict[str, Run], on: Case, repeats: int) -> None:
    """Measure one attack, and print a line for each of both."""
    times = timed(runs, repeats)
    for who, run in runs.items():
        of_all, of_right, median = judged(on, run())
        ratio = times[who].seconds / times["foolbox"].seconds if "foolbox" in times else float("nan")
        print(
            f"{name:<12}{who:<10}{of_all:>10.1%}{of_right:>12.1%}{median:>12.4f}{times[who].seconds:>10.2f}"
            f"{times[who].spread:>8.0%}{ratio:>12.2f}",
            flush=True,
        )


def main(arguments: Sequence[str] = ()) -> None:
    """All attacks that both have."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--weights", type=Path, help="weights for the network; trained on SHAPES unless given")
    parser.add_argument("--images", type=Path, help="images to change; SHAPES unless given")
    parser.add_argument("--classes", type=int, help="of the network; as many as the images have unless given")
    parser.add_argument("--count", type=int, default=200, help="how many images")
    parser.add_argument("--epsilon", type=float, default=8 / 255, help="bound for fgsm and pgd")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    given = parser.parse_args(list(arguments))
    torch.set_num_threads(given.threads)
    on = case(given)
    print(f"\n{given.network}, {len(on.images)} images of {on.images.shape[2]} px, median of {given.repeats}")
    print(f"{'':<22}{'of all':>10}{'of right':>12}{'median l_2':>12}{'seconds':>10}{'spread':>8}{'× Foolbox':>12}")
    for name, runs in pairs(on, given.epsilon).items():
        compare(name, runs, on, given.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
