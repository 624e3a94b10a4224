"""Monitoring of a generator's training: sample grids after every epoch, and the FID from time to time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from farout.core import ImageSet
from farout.files import atomic_file
from farout.metrics import Moments, frechet_distance
from farout.networks.fidelity import feature_moments
from farout.networks.network import Network
from farout.rng import subset_indices

if TYPE_CHECKING:
    from farout.generators.generator import Generator

GRID = 64
"""Images in a grid."""
MEASURED = 2048
"""Largest number of images that the FID compares, on either side."""
MEASUREMENTS = 20
"""Largest number of epochs after which the FID is measured; the last is always one of them."""


@dataclass
class Monitor:
    """Grids of samples in a folder, and the FID of samples to a reference set on a network's features.

    Neither changes the weights. Samples are always those of seed 0; a translator's are translated reference images.
    """

    reference: ImageSet
    features: Network | None = None
    folder: str | Path | None = None

    @property
    def figure(self) -> str:
        """Name of the measured number."""
        return f"FID on {self.features.name}" if self.features is not None else "FID"

    def measure(self, generator: Generator, epoch: int, epochs: int) -> float | None:
        """Return the FID after an epoch, counted from 0; None if it is not measured then."""
        if self.features is None or epoch not in measured_epochs(epochs):
            return None
        samples = ImageSet.from_arrays(self._samples(generator, len(self._indices)).numpy())
        return frechet_distance(feature_moments(self.features, samples), self._expected)

    def draw(self, generator: Generator, epoch: int) -> None:
        """Write the grid of samples after an epoch, counted from 0."""
        if self.folder is None:
            return
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / f"epoch_{epoch + 1:04d}.png") as temporary:
            Image.fromarray(grid(self._samples(generator, GRID))).save(temporary, "PNG")

    def _samples(self, generator: Generator, count: int) -> Tensor:
        if not generator.translates:
            return generator.sample(count)
        return generator.translate(self.reference.batch(self._indices[:count]))

    @cached_property
    def _indices(self) -> NDArray[np.int64]:
        return subset_indices(len(self.reference), MEASURED)

    @cached_property
    def _expected(self) -> Moments:
        assert self.features is not None
        return feature_moments(self.features, self.reference.subset(self._indices))


def measured_epochs(epochs: int) -> list[int]:
    """Return the epochs of a training, counted from 0, after which the FID is measured."""
    every = math.ceil(epochs / MEASUREMENTS)
    return sorted({*range(every - 1, epochs, every), epochs - 1})


def grid(images: Tensor) -> NDArray[np.uint8]:
    """Return images [N, C, H, W] in [0, 1] side by side as one 8-bit image, in about as many rows as columns."""
    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    _, channels, height, width = images.shape
    tiles = images.new_ones(rows * columns, channels, height, width)
    tiles[: len(images)] = images
    whole = tiles.view(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
    pixels = whole.reshape(rows * height, columns * width, channels).mul(255).round().clamp(0, 255).byte()
    return np.ascontiguousarray(pixels.expand(-1, -1, 3).cpu().numpy())
