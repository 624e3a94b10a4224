"""Parts of the cost of a run. Each can be tried out on synthetic images, before anything is trained or fitted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from farout.core import PER_BLOCK, Activations, PostHoc, Shift
from farout.data.arrays import ArraySet
from farout.data.shifted import Shifted
from farout.detectors.panel.panel import Panel
from farout.detectors.panel.table import Table, columns_of
from farout.identity import digest
from farout.networks import Network
from farout.networks.passes import forward
from farout.rng import generator, numpy_generator
from farout.study.cells.fit import MEMBER
from farout.study.cells.train import TrainedNetwork
from farout.study.sources.images import ImageSource
from farout.study.sources.networks import NetworkSource, StoredNetwork
from farout.study.spec import NetworkSpec
from farout.variations.variation import Variation

Shape = tuple[int, int, int]
PASS, TRAINING, OWN = 0.003, 3.0, 0.0005
"""Rough rates, for parts that are not tried out: seconds of one core for an image of 32 × 32 pixels to pass a network,
how many times as long a step of training takes, and seconds of one detector for an image."""
SIDE = 32
BATCH = 16
"""Largest number of images of a trial; per image, more are hardly faster."""


class Trial(NamedTuple):
    """Function that is timed, the number of units (mostly images) of one call, and the bytes that it shows."""

    call: Callable[[], object]
    units: int
    held: float = 0.0
    """Bytes: of a pass, per image of what detectors read; of a step of training and of a fit, of what is stored."""


@dataclass(frozen=True)
class Architecture:
    """Networks of one architecture on images of one shape, which take the same time whatever their weights."""

    name: str
    shape: Shape
    example: NetworkSource = field(compare=False, repr=False)


@dataclass(frozen=True)
class Part:
    """Part of the cost of a run: parts of the same kind and name take the same time."""

    kind: str
    """One of pass, gradient, training, shift, fit, score, decode and other."""
    name: str
    rough: float
    """Seconds per unit where it is not tried out."""
    trial: Callable[[torch.device, int], Trial] | None = field(default=None, compare=False)
    """Function that sets up a trial on a device, for a detector that is fitted on this number of images."""
    grows: bool = field(default=False, compare=False)
    """True if it may depend on the number of images that a detector is fitted on."""
    of: Architecture | None = field(default=None, compare=False)
    """Network of a detector: trials of the same one are best run one after the other."""


def architecture(network: NetworkSource, shape: Shape) -> Architecture:
    """Return the architecture of a network of the study."""
    spec: NetworkSpec | None
    size: list[Any]
    if isinstance(network, TrainedNetwork):
        spec, size = network.cell.spec, [network.cell.classes, *network.cell.train.about.shape]
    elif isinstance(network, StoredNetwork):
        spec, size = network.spec, [network.classes, network.side, network.channels, list(network.kept)]
    else:
        spec, size = None, [digest(network.identity())]
    return Architecture(str([spec and spec.name, spec and spec.params, spec and spec.side, *size]), shape, network)


def batch_size(shape: Shape) -> int:
    """Return the number of images of a trial: fewer of large ones."""
    return max(2, min(BATCH, 4 * BATCH * SIDE**2 // (shape[1] * shape[2])))


@lru_cache(maxsize=1)
def load(of: Architecture, device: torch.device) -> Network:
    """Return a network of the architecture; the last one is kept."""
    return of.example.preview().to(device)


def forget() -> None:
    """Forget the networks and activations of the last trials."""
    load.cache_clear()
    _sample.cache_clear()


def noise(count: int, shape: Shape) -> Tensor:
    """Return images of noise."""
    return torch.from_numpy(numpy_generator(0, "estimate").random((count, *shape), np.float32))


def pass_part(of: Architecture, needs: frozenset[str]) -> Part:
    """Return the forward pass of a network with the statistics that detectors read."""

    def trial(device: torch.device, fitted: int) -> Trial:
        network, images = load(of, device), noise(batch_size(of.shape), of.shape).to(device)
        both = {"logits", "features"}  # passes that differ in them only are one part
        columns = columns_of(forward(network, images[:2], needs), needs | both)
        held = sum(rows.nbytes for rows in columns.values()) / 2
        return Trial(lambda: forward(network, images, needs), len(images), held)

    return Part("pass", f"{of} {sorted(needs & {*PER_BLOCK})}", PASS * pixels(of.shape), trial)


def gradient_part(of: Architecture) -> Part:
    """Return a forward and a backward pass of a network to its images, as in an attack."""

    def trial(device: torch.device, fitted: int) -> Trial:
        network, images = load(of, device), noise(batch_size(of.shape), of.shape).to(device)

        def call() -> None:
            changed = images.clone().requires_grad_()
            torch.autograd.grad(network(changed, needs=()).logits.logsumexp(1).sum(), changed)

        return Trial(call, len(images))

    return Part("gradient", str(of), 2 * PASS * pixels(of.shape), trial)


@lru_cache(maxsize=1)
def _sample(of: Architecture, device: torch.device, needs: frozenset[str], count: int) -> Activations:
    """Return activations of so many images: those of a few, repeated and multiplied by noise."""
    network, few = load(of, device), batch_size(of.shape)
    columns = columns_of(forward(network, noise(few, of.shape), needs), needs)
    table, drawn = Table(count, network.head), numpy_generator(0, "activations")
    for name, rows in columns.items():
        factors = drawn.uniform(0.5, 1.5, (count, *rows.shape[1:])).astype(np.float32)
        table.put(0, {name: rows[torch.arange(count) % few] * torch.from_numpy(factors)})
    return table.activations()


def _unfitted(of: Architecture, detector: PostHoc, device: torch.device) -> Panel:
    return Panel(load(of, device), {MEMBER: copy.deepcopy(detector)}, titles={MEMBER: detector.name})


def _fit(panel: Panel, of: Architecture, device: torch.device, count: int) -> None:
    detector = panel.detectors[MEMBER]
    if detector.fits_on is not None:
        table = _sample(of, device, panel.needs(detector.fits_on) | {"logits", "features"}, count)
        panel.fit_from(table, np.arange(count) % max(1, panel.network.classes), detector.fits_on)


def fit_part(of: Architecture, detector: PostHoc) -> Part:
    """Return the fit of a detector, from the activations of the images; its unit is one fit."""

    def trial(device: torch.device, fitted: int) -> Trial:
        panel = _unfitted(of, detector, device)
        _fit(panel, of, device, fitted)
        held = sum(tensor.nbytes for tensor in panel.detectors[MEMBER].state.values())
        return Trial(lambda: _fit(panel, of, device, fitted), 1, held)

    return Part("fit", f"{detector.label} {detector.identity()} on {of}", OWN, trial, grows=True, of=of)


def score_part(of: Architecture, detector: PostHoc) -> Part:
    """Return one detector's own share of scoring an image: with its passes if it perturbs images, else without."""

    def trial(device: torch.device, fitted: int) -> Trial:
        panel, images = _unfitted(of, detector, device), noise(batch_size(of.shape), of.shape).to(device)
        _fit(panel, of, device, fitted)
        shared = forward(panel.network, images, panel.needs(None)) if panel.shares else None
        return Trial(lambda: panel.score_batch(images, shared), len(images))

    rough = 2 * PASS * pixels(of.shape) if detector.perturbs else OWN
    return Part("score", f"{detector.label} {detector.identity()} on {of}", rough, trial, grows=True, of=of)


def decode_part(variation: Variation, shape: Shape) -> Part:
    """Return the decoding of a latent of a search."""

    def trial(device: torch.device, fitted: int) -> Trial:
        count = batch_size(shape)
        z = variation.space.uniform(count, generator(0, "estimate")).to(device)
        images = ArraySet(noise(count, shape).numpy(), name="noise")
        base = variation.base(images, range(count)).to(device) if variation.conditional else None

        def call() -> None:
            with torch.no_grad():
                variation.decode(z, base)

        return Trial(call, count)

    return Part("decode", f"{variation.label} {shape}", PASS * pixels(shape), trial)


def shift_part(shift: Shift, shape: Shape) -> Part:
    """Return a shift of images, as they are read; all its severities take about the same time."""

    def trial(device: torch.device, fitted: int) -> Trial:
        images = ArraySet(noise(batch_size(shape), shape).numpy(), name="noise")
        shifted = Shifted(images, shift, seed=0)
        shifted.batch(range(2))  # compiles its kernels, once on a machine, which may take half a minute
        return Trial(lambda: shifted.batch(range(len(images))), len(images))

    return Part("shift", f"{shift.name} {shape}", PASS * pixels(shape), trial)


def other_part(what: str, passes: float, images: ImageSource | None) -> Part:
    """Return work that is not tried out: an image takes as long as so many rough passes."""
    return Part("other", what, passes * PASS * pixels((1, SIDE, SIDE) if images is None else images.about.shape))


def pixels(shape: Shape) -> float:
    """Return how many times as many pixels as those of a 32 × 32 image there are."""
    return shape[1] * shape[2] / SIDE**2
