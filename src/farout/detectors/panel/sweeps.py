"""Whole image sets through a network, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from farout import rng
from farout.core import Activations, ImageSet, PostHoc, Split
from farout.detectors.panel.table import Table, columns_of
from farout.networks.network import Network
from farout.networks.passes import forward, look
from farout.progress import Listener, task
from farout.tensors import as_images


def needs_of(detectors: Iterable[PostHoc], split: Split | None) -> frozenset[str]:
    """What the detectors that fit on `split` read; for None, what scoring reads of the images as they are."""
    reading = (d for d in detectors if (not d.perturbs if split is None else d.fits_on == split))
    return frozenset().union(*(detector.needs for detector in reading))


def table_of(
    network: Network,
    images: ImageSet,
    needs: frozenset[str],
    progress: Listener | None = None,
    looking: PostHoc | None = None,
    check: Callable[[Activations], None] | None = None,
) -> Activations:
    """Activations of a whole set: of the images as they are, or as one detector looks at them.

    check: called with those of the first batch, to raise before the long work.
    """
    table, start = Table(len(images), network.head), 0
    for batch in swept(images, "fit on", progress):
        if needs:
            activations = _read(network, batch, needs, looking)
            if check is not None and not start:
                check(activations)
            table.put(start, columns_of(activations, needs))
        start += len(batch)
    return table.activations()


def swept(images: ImageSet, doing: str, progress: Listener | None) -> Iterator[Tensor]:
    """Yield the images a batch at a time; progress goes to the listener in effect unless one is given."""
    with task(f"{doing} {images.name}", len(images), listener=progress) as count:
        for batch in images:
            yield batch
            count(len(batch))


@torch.inference_mode()
def _read(network: Network, images: Tensor, needs: frozenset[str], looking: PostHoc | None) -> Activations:
    if looking is None:
        return forward(network, images, needs)
    return look(network, looking, as_images(images, network.device))


def as_many(images: ImageSet, count: int) -> ImageSet:
    """At most `count` of the images, drawn with a fixed seed and kept in order."""
    return images if len(images) <= count else images.subset(rng.subset_indices(len(images), count))
