"""A panel of all detectors beside the bare forward passes, and beside pytorch-ood over the detectors both have.

`python -m benchmarks.peers --network resnet20 --images 1000` measures at another size; --help lists the options.
Not among the detectors: odin, which needs a gradient and a second pass by nature, in every library.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.core import ImageSet
from farout.networks.network import Network

SIZES = {"resnet20": 3_000, "resnet18": 400}
"""Images per set. A ResNet-18 takes thirteen times a ResNet-20's time, hence the smaller sets."""
OUTLIER_SETS = 3


class Sets(NamedTuple):
    """The images: nine tenths of the first set are the training split, the last tenth is for validation."""

    train: ImageSet
    val: ImageSet
    tested: dict[str, ImageSet]

    def __iter__(self) -> Iterator[ImageSet]:
        return iter((self.train, self.val, *self.tested.values()))


def drawn(count: int, seed: int) -> Tensor:
    """Color gradients with noise [B, 3, 32, 32]: of noise alone, features would hardly differ."""
    generator = torch.Generator().manual_seed(seed)
    coarse = F.interpolate(torch.rand(count, 3, 4, 4, generator=generator), (32, 32), mode="bilinear")
    return (coarse + 0.1 * torch.randn(count, 3, 32, 32, generator=generator)).clamp(0, 1)


def made(name: str, weights: Path | None) -> Network:
    """A network whose last layer is set so that every class is predicted: pytorch-ood refuses others."""
    network = farout.networks.create(name, classes=10, side=32, std=0.25)
    if weights:
        farout.networks.load_weights(network, weights)
    linear = network.module.linear
    with torch.no_grad():
        features = network(drawn(256, seed=9), needs=()).features
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=torch.Generator().manual_seed(0)))
        linear.weight.div_(features.std(0) + 1e-3).mul_(0.3)
        linear.bias.copy_(-linear.weight @ features.mean(0))
    return network


def sets(network: Network, count: int, tested: int) -> Sets:
    """Image sets; the label of an image to fit on is the class that the network predicts."""

    def one(seed: int, name: str, total: int) -> ImageSet:
        pixels = drawn(total, seed).mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        return ImageSet.from_arrays(pixels, np.zeros(total, np.int64), name=name)

    first, cut = one(0, "train", count), count - count // 10
    with torch.inference_mode():
        first.labels = torch.cat([network(batch, needs=()).logits.argmax(1) for batch in first]).numpy()
    names = ["inliers", *(f"outliers{index}" for index in range(OUTLIER_SETS))]
    train, val = first.subset(np.arange(cut)), first.subset(np.arange(cut, count))
    return Sets(train, val, {name: one(seed, name, tested) for seed, name in enumerate(names, start=1)})


def panel_of(network: Network, names: Iterable[str]) -> farout.Panel:
    """Detectors with their defaults, but mds_layers without perturbation, which would cost passes of its own."""
    options = {"mds_layers": {"epsilon": 0.0}}
    return farout.Panel(network, {name: farout.detectors.create(name, **options.get(name, {})) for name in names})


def ours(panel: farout.Panel, images: Sets) -> None:
    """Fit, score every set, and the AUROC of every detector on every outlier set."""
    panel.fit(images.train, images.val)
    scores = {name: panel.score(tested) for name, tested in images.tested.items()}
    inliers = scores.pop("inliers")
    for outliers in scores.values():
        for name in outliers:
            farout.metrics.auroc(inliers[name], outliers[name])


def bare(network: Network, images: Sets) -> Callable[[], None]:
    """Run a bare forward pass over the same number of normalized images."""
    ready = [network.normalize(batch) for one in images for batch in one]

    def run() -> None:
        with torch.inference_mode():
            for batch in ready:
                network.module(batch)

    return run


class Passes:
    """Counts the images that pass a network's first layer."""

    def __init__(self, module: nn.Module) -> None:
        self.images, self._hidden = 0, False
        module.conv1.register_forward_pre_hook(self._see)

    def _see(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not self._hidden:
            self.images += len(inputs[0])

    @contextmanager
    def instead(self, images: int) -> Iterator[None]:
        """Count so many while this lasts: inside torch.func.vmap a hook sees one image where there are many."""
        self._hidden = True
        yield
        self._hidden = False
        self.images += images


class Measured(NamedTuple):
    """Median seconds, and passes of an image through the network."""

    seconds: float
    passes: int


def measured(runs: Mapping[str, Callable[[], object]], passes: Passes, repeats: int) -> dict[str, Measured]:
    """Runs in turn, several times; what has run is told on standard error."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    counts: dict[str, int] = {}
    for repeat in range(repeats):
        for name, run in runs.items():
            before, start = passes.images, time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
            counts[name] = passes.images - before
            print(f"  {name}, {repeat + 1} of {repeats}: {seconds[name][-1]:.1f} s", file=sys.stderr, flush=True)
    return {name: Measured(float(np.median(values)), counts[name]) for name, values in seconds.items()}


def compare(name: str, count: int, tested: int, weights: Path | None, with_peers: bool, repeats: int) -> None:
    """Measure on one network, and print."""
    network = made(name, weights)
    passes, images, small = Passes(network.module), sets(network, count, tested), sets(network, 300, 300)
    names = [one for one in farout.detectors.names_of(farout.PostHoc) if one != "odin"]
    peer = _pytorch_ood() if with_peers else None
    both = [one for one in names if peer and one in peer.NAMES]
    runs = {"bare passes": bare(network, images), f"farout, all {len(names)}": _ours(network, names, images)}
    if both:
        runs[f"farout, the {len(both)} of both"] = _ours(network, both, images)
    _ours(network, names, small)()
    results = measured(runs, passes, repeats)
    if peer:
        peer.runs(network, small, ["knn", "gradnorm"], passes)[peer.ALONE]()  # these import and compile something
        results |= measured(peer.runs(network, images, both, passes), passes, 1)
    total = sum(map(len, images))
    rows = f"{count:,} images to fit on, {tested:,} inliers and {OUTLIER_SETS} × {tested:,} outliers of 32 px"
    print(f"\n{name}: {rows}; threads: {torch.get_num_threads()}; median of {repeats}, pytorch-ood once")
    _show(results, total)
    if both:
        print(f"Of both: {', '.join(both)}\nOf farout alone: {', '.join(one for one in names if one not in both)}")


def _pytorch_ood() -> Any:
    """The ways of running it, or None where it cannot be imported."""
    from benchmarks import pytorch_ood_peer

    reason = pytorch_ood_peer.missing()
    if reason:
        print(f"\npytorch-ood is left out: {reason}")
    return None if reason else pytorch_ood_peer


def _ours(network: Network, names: Sequence[str], images: Sets) -> Callable[[], None]:
    return lambda: ours(panel_of(network, names), images)


def _show(results: Mapping[str, Measured], total: int) -> None:
    """Times as multiples of the bare passes and of the panel over the same detectors, passes per image."""
    shared = next((key for key in results if key.endswith("of both")), None)
    print(f"{'':<46}{'seconds':>10}{'× bare':>9}{'× farout':>10}{'passes per image':>18}")
    for key, (seconds, passes) in results.items():
        beside = f"{seconds / results[shared].seconds:.1f}" if shared and key.startswith("pytorch-ood") else ""
        ratio = seconds / results["bare passes"].seconds
        print(f"{key:<46}{seconds:>10.1f}{ratio:>9.2f}{beside:>10}{passes / total:>18.2f}")


def main(arguments: Sequence[str] = ()) -> None:
    """Both networks, unless told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--network", action="append", choices=list(SIZES), help="may be given twice; both unless given")
    parser.add_argument("--images", type=int, help=f"images to fit on, at least 300; unless given {SIZES}")
    parser.add_argument("--tested", type=int, help="images per tested set; as many as to fit on unless given")
    parser.add_argument("--weights", type=Path, help="weights for the network; random ones unless given")
    parser.add_argument("--repeats", type=int, default=2, help="how often farout and the bare passes are timed")
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--skip-peers", action="store_true", help="farout and the bare passes only")
    given = parser.parse_args(list(arguments))
    if given.images is not None and given.images < 300:
        parser.error(f"--images must be at least 300 (vim needs more training images than dim=256), got {given.images}")
    torch.set_num_threads(given.threads)
    for name in given.network or SIZES:
        count = given.images or SIZES[name]
        compare(name, count, given.tested or count, given.weights, not given.skip_peers, given.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
