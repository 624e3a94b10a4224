"""Small trainings of generators for tests: images, settings, and a progress callback that stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from farout.core import ImageSet

TINY: dict[str, Any] = {"side": 16, "channels": 1, "width": 4, "dim": 6}


def images(count: int = 40, side: int = 16, channels: int = 1) -> ImageSet:
    rng = np.random.default_rng(0)
    pixels = rng.uniform(0, 0.3, (count, channels, side, side)).astype(np.float32)
    pixels[:, :, :, : side // 2] += 0.6
    return ImageSet.from_arrays(pixels, np.arange(count) % 2, name="halves")


def parameters(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())


class Stop(Exception):
    pass


def stopping(after: int) -> Callable[..., None]:
    calls = iter(range(1, 10**6))

    def progress(*_: Any) -> None:
        if next(calls) == after:
            raise Stop

    return progress
