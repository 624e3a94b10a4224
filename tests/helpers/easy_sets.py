"""Small sets that a network learns to classify in a few steps."""

from __future__ import annotations

import numpy as np

from farout import ImageSet


def halves(total: int, seed: int = 0) -> ImageSet:
    """Gray images of 28 px of two classes: dark, and bright at the left half."""
    images = np.random.default_rng(seed).integers(0, 40, (total, 28, 28, 1)).astype(np.uint8)
    labels = np.arange(total) % 2
    images[labels == 1, :, :14] += 200
    return ImageSet.from_arrays(images, labels)


def bright(total: int, seed: int = 1) -> ImageSet:
    """Outliers to `halves`: gray images that are bright all over."""
    return ImageSet.from_arrays(np.random.default_rng(seed).integers(200, 240, (total, 28, 28, 1)).astype(np.uint8))


def striped(total: int, seed: int = 2) -> ImageSet:
    """Outliers to `halves`: gray images that are bright at every second row of the left half."""
    images = np.random.default_rng(seed).integers(0, 40, (total, 28, 28, 1)).astype(np.uint8)
    images[:, ::2, :14] += 200
    return ImageSet.from_arrays(images)
