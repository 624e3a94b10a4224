"""Activations of whole image sets, computed batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from farout import rng
from farout.core import Activations, ImageSet, PostHoc, Split
from farout.detectors.panel.memory import Memory
from farout.detectors.panel.reduced import Reduced
from farout.detectors.panel.table import Table, columns_of
from farout.networks.network import Network
from farout.networks.passes import forward, perturbed_pass
from farout.progress import Listener, task
from farout.tensors import as_images


def needs_of(detectors: Iterable[PostHoc], split: Split | None) -> frozenset[str]:
    """Return the activations that detectors fitting on `split` read; for None, those that scoring reads."""
    reading = (d for d in detectors if (not d.perturbs if split is None else d.fits_on == split))
    return frozenset().union(*(detector.needs for detector in reading))


def compute_activations(
    network: Network,
    images: ImageSet,
    needs: frozenset[str],
    progress: Listener | None = None,
    perturbing: PostHoc | None = None,
    check: Callable[[Activations], None] | None = None,
    reduced: Iterable[Reduced] = (),
    memory: Memory | None = None,
) -> Activations:
    """Return the activations of a whole set, from plain forward passes or from one detector's perturbed passes.

    check: called with the activations of the first batch, to raise before the long computation.
    reduced: gathered from the same passes, which also give what these need.
    """
    table, start, reduced = Table(len(images), network.head, memory), 0, list(reduced)
    read = needs.union(*(one.needs for one in reduced))
    for batch in iterate_batches(images, "fit on", progress):
        if read:
            activations = _forward(network, batch, read, perturbing)
            if check is not None and not start:
                check(activations)
            table.put(start, columns_of(activations, needs))
            for one in reduced:
                one.put(start, one.columns(start, activations))
        start += len(batch)
    return table.activations()


def iterate_batches(images: ImageSet, title: str, progress: Listener | None) -> Iterator[Tensor]:
    """Yield batches of images; progress goes to the listener in effect unless the caller passes one."""
    with task(f"{title} {images.name}", len(images), listener=progress) as count:
        for batch in images:
            yield batch
            count(len(batch))


@torch.inference_mode()
def _forward(network: Network, images: Tensor, needs: frozenset[str], perturbing: PostHoc | None) -> Activations:
    if perturbing is None:
        return forward(network, images, needs)
    return perturbed_pass(network, perturbing, as_images(images, network.device))


def draw_subset(images: ImageSet, count: int) -> ImageSet:
    """Return a random subset of at most `count` images, drawn with a fixed seed and kept in order."""
    return images if len(images) <= count else images.subset(rng.subset_indices(len(images), count))
