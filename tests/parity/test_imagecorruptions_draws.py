"""Random corruptions beside the package imagecorruptions, which is made to draw what ours are given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import farout
from farout.shifts.kernels.levels import NEARLY
from farout.shifts.tables import TABLES
from helpers.corruption_peer import (
    SEVERITIES,
    SIDE,
    Levels,
    as_levels,
    as_tensor,
    enlarged_photographs,
    load,
    scenes,
    unrounded,
)

package = load()


class Told:
    """In place of numpy.random: normal noise, a share of a range and whole numbers are what they are told."""

    def __init__(self, noise: NDArray[Any] | None = None, share: float = 0.5, whole: tuple[int, ...] = ()) -> None:
        self.noise, self.share, self.whole = noise, share, iter(whole)

    def normal(self, loc: float = 0, scale: float = 1, size: Any = None) -> Any:
        assert self.noise is not None
        assert self.noise.shape == tuple(size)
        return loc + scale * self.noise.astype(np.float64)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.share

    def randint(self, *bounds: int) -> int:
        return next(self.whole)


def noise(severity: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(severity).normal(size=shape).astype(np.float32)


def apart(shift: farout.Shift, told: Told, params: dict[str, Any]) -> Levels:
    """By how many levels ours is above the package's, at every number of the second scene."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package.corruptions, "np", SimpleNamespace(**{**vars(np), "random": told}))
        theirs = np.floor(unrounded(package, shift.name, shift.params["severity"], scenes()[1:]) + NEARLY)
    drawn = {key: torch.as_tensor(value)[None] for key, value in params.items()}
    return as_levels(shift.apply(as_tensor(scenes()[1:]), drawn)) - theirs.astype(np.int64)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise"])
def test_noise(name: str, severity: int) -> None:
    drawn = noise(severity, SIDE, SIDE, 3)
    difference = apart(farout.shift(name, severity=severity), Told(drawn), {"noise": drawn.transpose(2, 0, 1)})
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 1e-3


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("share", [0.01, 0.37, 0.5, 0.9])
def test_motion_blur(severity: int, share: float) -> None:
    blur = farout.shift("motion_blur", severity=severity)
    difference = apart(blur, Told(share=share), {"angle": 90 * share - 45})
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 1e-3


@pytest.mark.parametrize("severity", SEVERITIES)
def test_spatter(severity: int) -> None:
    """A blur in float32 may decide otherwise on a drop's edge, but hardly ever does."""
    drawn = noise(severity, SIDE, SIDE)
    difference = apart(farout.shift("spatter", severity=severity), Told(drawn), {"noise": drawn})
    assert (difference != 0).mean() < 1e-3


@pytest.mark.parametrize("severity", SEVERITIES)
def test_snow(severity: int) -> None:
    """The published sets cut flakes to 8 bits before they blur them; the package does not, and adds them twice."""
    drawn, zoom = noise(severity, SIDE, SIDE), TABLES["snow"][SIDE][severity - 1][2]
    part = int(np.ceil(SIDE / zoom))
    middle = slice((SIDE - part) // 2, (SIDE - part) // 2 + part)
    snow = farout.shift("snow", severity=severity)
    difference = apart(snow, Told(drawn, share=0.3), {"noise": drawn[middle, middle], "angle": 0.3})
    assert difference.min() >= -2
    assert difference.max() <= 1
    assert (difference != 0).mean() < 0.1


@pytest.mark.parametrize("number", range(6))
def test_frost(tmp_path: Path, number: int) -> None:
    """One photograph, and the same crop of it."""
    name, photograph = list(enlarged_photographs(package).items())[number]
    Image.fromarray(photograph).save(tmp_path / f"{name}.png")
    top, left = 50, 20
    shares = [(first + 0.5) / (side - SIDE + 1) for first, side in zip((top, left), photograph.shape[:2], strict=True)]
    frost = farout.shift("frost", severity=1 + number % 5, frost_dir=str(tmp_path))
    difference = apart(frost, Told(whole=(number, top, left)), {"place": [0.5, *shares], "brightness": 1.0})
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 1e-3
