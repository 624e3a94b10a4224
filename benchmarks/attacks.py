"""Attacks beside Foolbox's at equal settings: success, size of the change, and time, in one run.

`python -m benchmarks.attacks` trains a small network on SHAPES on the spot; real images and weights are given with
--weights and --images. Success is counted twice: over all images, those included that were wrong from the start (public
convention), and over those that were right. The median of l_2 is over the latter. Both are timed without judging what
they found, in turn, in seconds of the processor, on weights that take no gradients: Foolbox would compute those too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import farout
from farout import attacks, rng
from farout.attacks import Attack, Target
from farout.networks.network import Network

BATCH = 50
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Case(NamedTuple):
    """Target of an attack."""

    network: Network
    images: Tensor
    labels: Tensor

    @property
    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Images and labels, some at a time."""
        return zip(self.images.split(BATCH), self.labels.split(BATCH), strict=True)


Run = Callable[[Case], Tensor]
"""From what is attacked to the changed images."""


class Judged(NamedTuple):
    """Outcome of an attack."""

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


def ours(attack: Attack) -> Run:
    """Our attack, batch by batch."""

    def run(on: Case) -> Tensor:
        rngs = [rng.generator(0, "benchmark", index) for index in range(BATCH)]
        target = Target(on.network)
        return torch.cat([attack.run(target, images, labels, rngs[: len(images)]) for images, labels in on.batches])

    return run


def theirs(attack: Any, **options: float) -> Run:
    """Foolbox's attack, in the same batches."""
    import foolbox

    def run(on: Case) -> Tensor:
        torch.manual_seed(0)
        preprocessing = {"mean": MEAN, "std": STD, "axis": -3}
        model = foolbox.PyTorchModel(on.network.module, bounds=(0, 1), device="cpu", preprocessing=preprocessing)
        return torch.cat([attack.run(model, images, labels, **options) for images, labels in on.batches])

    return run


def pairs(epsilon: float) -> dict[str, dict[str, Run]]:
    """Ours and Foolbox's by name; ours alone where the package is missing."""
    runs = {name: {"farout": ours(attacks.create(name, epsilon=epsilon))} for name in ("fgsm", "pgd")}
    runs["fgsm"]["farout, odds"] = ours(attacks.create("fgsm", epsilon=epsilon, loss="odds"))
    runs["deepfool"] = {"farout": ours(attacks.create("deepfool"))}
    try:
        import foolbox.attacks as peer
    except ImportError as error:
        print(f"\nwithout Foolbox ({error}): pip install foolbox==3.3.4")
        return runs
    runs["fgsm"]["foolbox"] = theirs(peer.LinfFastGradientAttack(random_start=False), epsilon=epsilon)
    pgd = peer.LinfProjectedGradientDescentAttack(rel_stepsize=1 / 30, steps=40, random_start=True)
    runs["pgd"]["foolbox"] = theirs(pgd, epsilon=epsilon)
    runs["deepfool"]["foolbox"] = theirs(peer.L2DeepFoolAttack(steps=50, candidates=10, overshoot=0.02))
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
    """Measure one attack, and print a line for each of both. Two images go first, to warm up."""
    found: dict[str, Tensor] = {}
    seconds: dict[str, list[float]] = {who: [] for who in runs}
    for run in runs.values():
        run(on._replace(images=on.images[:2], labels=on.labels[:2]))
    for _ in range(repeats):
        for who, run in runs.items():
            start = time.process_time()
            found[who] = run(on)
            seconds[who].append(time.process_time() - start)
    for who, values in seconds.items():
        of_all, of_right, median = judged(on, found[who])
        ratios = np.array(values) / seconds.get("foolbox", np.nan)
        print(
            f"{name:<12}{who:<14}{of_all:>10.1%}{of_right:>12.1%}{median:>12.4f}{np.median(values):>10.2f}"
            f"{np.median(ratios):>12.2f}",
            flush=True,
        )


def main(arguments: Sequence[str] = ()) -> None:
    """All attacks that both have."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--attacks", nargs="+", choices=["fgsm", "pgd", "deepfool"], help="all unless given")
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
    print(f"{'':<26}{'of all':>10}{'of right':>12}{'median l_2':>12}{'CPU s':>10}{'× Foolbox':>12}")
    chosen = pairs(given.epsilon)
    for name in given.attacks or chosen:
        compare(name, chosen[name], on, given.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
