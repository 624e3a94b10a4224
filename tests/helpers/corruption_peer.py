"""The package imagecorruptions where it is installed, images for both libraries, and what either makes of them."""

from __future__ import annotations

import contextlib
import importlib
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

import farout
from farout.shifts.tables import TABLES

Levels = NDArray[np.int64]
"""8-bit images [B, 224, 224, 3]."""
SIDE, SEVERITIES = 224, range(1, 6)
CALLED = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
"""What the package calls otherwise."""


def load() -> Any:
    """The package; the tests that ask are skipped where it cannot be imported."""
    try:
        return importlib.import_module("imagecorruptions")
    except ImportError as error:
        reason = f"imagecorruptions cannot be imported ({error}); `make parity` installs it"
        pytest.skip(reason, allow_module_level=True)


def names(random: bool) -> list[str]:
    """The corruptions that draw, or those that do not."""
    return [name for name in TABLES if farout.shift(name, severity=1).random == random]


@lru_cache
def scenes() -> Levels:
    """A drawn shape with some noise; smooth color with flat parts and edges, gray, black, white, and single pixels."""
    rng = np.random.default_rng(0)
    shape = farout.load("shapes", side=SIDE).batch([3])[0].permute(1, 2, 0).numpy() * 255
    shape = shape + rng.normal(0, 4, shape.shape)
    smooth = ndimage.gaussian_filter(rng.normal(size=(SIDE, SIDE, 3)), (9, 9, 0)) * 1500 + 128
    spots = rng.random((SIDE, SIDE)) < 0.1
    smooth[spots] += rng.normal(0, 60, (spots.sum(), 3))
    smooth[:, :70] = np.round(smooth[:, :70] / 64) * 64
    smooth[:40] = smooth[:40, :, :1]
    smooth[:10], smooth[10:20] = 0, 255
    return np.stack([shape, smooth]).clip(0, 255).round().astype(np.int64)


def as_tensor(images: Levels) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).div(255)


def as_levels(images: torch.Tensor) -> Levels:
    return np.asarray(images.permute(0, 2, 3, 1).mul(255).round().long().numpy())


def ours(name: str, severity: int, images: Levels, **settings: Any) -> Levels:
    return as_levels(farout.shift(name, severity=severity, **settings)(as_tensor(images)))


def unrounded(package: Any, name: str, severity: int, images: Levels) -> NDArray[np.float64]:
    """What the package gives before it cuts off to 8 bits.

    Two of its corruptions take a seed; the others draw from numpy's global generator.
    """
    corrupt, results = package.corruption_dict[CALLED.get(name, name)], []
    with contextlib.redirect_stdout(io.StringIO()):
        for index, image in enumerate(images.astype(np.uint8)):
            seed = {"seed": index} if name in ("glass_blur", "impulse_noise") else {}
            results.append(np.array(corrupt(Image.fromarray(image), severity, **seed), np.float64))
    return np.stack(results)


def theirs(package: Any, name: str, severity: int, images: Levels) -> Levels:
    return unrounded(package, name, severity, images).astype(np.int64)


def enlarged_photographs(package: Any) -> dict[str, NDArray[np.uint8]]:
    """The package's frost, [H, W, 3] by name, made larger by a tenth as it does before it cuts.

    The published sets cut the photographs as they are, and of the six use the first five.
    """
    cv2, found = importlib.import_module("cv2"), {}
    for file in sorted((Path(package.__file__).parent / "frost").iterdir()):
        photograph = cv2.imread(str(file))
        height, width = (int(np.ceil(side * 1.1)) for side in photograph.shape[:2])
        found[file.stem] = cv2.resize(photograph, (width, height), interpolation=cv2.INTER_CUBIC)[..., ::-1]
    return found
