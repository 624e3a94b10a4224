"""Images of two classes, and inputs of losses, for tests of conditional generators."""

from __future__ import annotations

import numpy as np
import torch

from farout.core import ImageSet
from farout.generators import Generator
from farout.training import Batch, Context, Position


def images(count: int = 40, side: int = 16, channels: int = 1) -> ImageSet:
    """Images whose left half is bright, of two classes: with a dark or a gray right half."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 2
    pixels = rng.uniform(0, 0.1, (count, channels, side, side)).astype(np.float32)
    pixels[:, :, :, : side // 2] += 0.8
    pixels[labels == 1, :, :, side // 2 :] += 0.4
    return ImageSet.from_arrays(pixels, labels, name="halves")


def context(model: Generator, seed: int = 0) -> Context:
    return Context(Position("", 0, 0, 1, 1), model.recipe(), {}, torch.device("cpu"), seed)


def batch_of(data: ImageSet, count: int) -> Batch:
    labels = torch.as_tensor(data.labels)[:count]
    return Batch(data.batch(range(count)), labels, torch.arange(count))
