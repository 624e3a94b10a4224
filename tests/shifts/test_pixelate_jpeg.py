"""Pixelate and jpeg are Pillow's, to the byte."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import farout
from farout.shifts.kernels.boxes import box_bounds, nearest_indices
from farout.shifts.tables import TABLES, constants

Array = NDArray[Any]
SHAPES = [
    (3, 32, 32),
    (1, 28, 28),
    (3, 64, 64),
    (3, 33, 29),
    (1, 8, 8),
    (3, 1, 1),
    (3, 2, 5),
    (3, 50, 67),
    (3, 224, 224),
]
SHARES = sorted({share for rows in TABLES["pixelate"].values() for (share,) in rows})


def pictures(count: int, *shape: int) -> torch.Tensor:
    """Noise over a ramp, in 8 bits."""
    rng = np.random.default_rng(3)
    ramp = np.linspace(0, 200, shape[2]) + rng.uniform(-60, 60, (count, *shape))
    return torch.from_numpy(ramp.clip(0, 255).round()).float().div(255)


def picture(image: torch.Tensor) -> Image.Image:
    """An image [C, H, W] as Pillow's, in color or gray."""
    levels = image.mul(255).round().to(torch.uint8)
    return Image.fromarray(levels[0].numpy() if len(levels) == 1 else levels.permute(1, 2, 0).numpy())


def assert_is(shifted: torch.Tensor, expected: Image.Image) -> None:
    levels = np.asarray(expected).reshape(*shifted.shape[1:], -1).transpose(2, 0, 1)
    np.testing.assert_array_equal(shifted.numpy(), levels.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("shape", SHAPES)
def test_pixelate_is_pillows_box_filter(shape: tuple[int, ...], severity: int) -> None:
    images = pictures(3, *shape)
    (share,) = constants("pixelate", severity, min(shape[1:]))
    height, width = shape[1:]
    for image, shifted in zip(images, farout.shift("pixelate", severity=severity)(images), strict=True):
        small = picture(image).resize((max(1, int(width * share)), max(1, int(height * share))), Image.Resampling.BOX)
        assert_is(shifted, small.resize((width, height), Image.Resampling.BOX))


@pytest.mark.parametrize("share", SHARES)
def test_boxes_of_all_sides_are_pillows(share: float) -> None:
    """Where a pixel's middle lies on the edge of two boxes too, which depends on Pillow's roundings."""
    rng = np.random.default_rng(0)
    for side in [*range(1, 260), 299, 384, 512]:
        smaller = max(1, int(side * share))
        levels = rng.integers(0, 256, (4, side))
        expected = Image.fromarray(levels.astype(np.uint8)).resize((smaller, 4), Image.Resampling.BOX)
        sums = np.stack([levels[:, first:last].sum(1) * weight for first, last, weight in box_bounds(side, smaller)], 1)
        np.testing.assert_array_equal((sums + 2**21) >> 22, np.asarray(expected))
        large = np.asarray(expected.resize((side, 4), Image.Resampling.BOX))
        np.testing.assert_array_equal(np.asarray(expected)[:, nearest_indices(side, smaller)], large)


def test_pixelate_by_hand() -> None:
    """64 px, severity 5: squares of 2 × 2. Pillow rounds the mean of a row's pair before that of the two rows."""
    images = torch.zeros(1, 1, 64, 64)
    images[0, 0, 2:4, 4:6] = torch.tensor([[0, 1], [1, 1]]).div(255)
    levels = farout.shift("pixelate", severity=5)(images)[0, 0].mul(255).round()
    expected = torch.zeros(64, 64)
    expected[2:4, 4:6] = 1  # halves round up: (0, 1) → 1, (1, 1) → 1, so 1 and not 3/4
    assert torch.equal(levels, expected)


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("shape", SHAPES)
def test_jpeg_is_pillows(shape: tuple[int, ...], severity: int) -> None:
    images = pictures(3, *shape)
    (quality,) = constants("jpeg", severity, min(shape[1:]))
    for image, shifted in zip(images, farout.shift("jpeg", severity=severity)(images), strict=True):
        file = io.BytesIO()
        picture(image).save(file, "JPEG", quality=int(quality))
        with Image.open(file) as stored:
            assert (stored.format, stored.mode) == ("JPEG", "L" if shape[0] == 1 else "RGB")
            assert_is(shifted, stored)


def test_jpeg_halves_the_resolution_of_color() -> None:
    """Columns of red and cyan of the same brightness, one pixel wide: their color is averaged away, nearly."""
    red, cyan = torch.tensor([200, 60, 60.0]), torch.tensor([44, 127, 127.0])
    images = torch.stack([red, cyan] * 16, 1)[None, :, None].expand(1, 3, 32, 32).div(255)
    shifted = farout.shift("jpeg", severity=1)(images)
    contrast = [float((picture[0, 0] - picture[0, 2]).std()) for picture in (images, shifted)]
    assert contrast[1] < contrast[0] / 10


@pytest.mark.parametrize("name", ["pixelate", "jpeg"])
def test_flat_images_in_gray_stay_as_they_are(name: str) -> None:
    images = torch.arange(256).div(255)[:, None, None, None].expand(-1, 1, 16, 16)
    for severity in range(1, 6):
        changed = farout.shift(name, severity=severity)(images).sub(images).abs().max()
        assert float(changed) * 255 < (0.5 if name == "pixelate" else 2.5)  # jpeg rounds the mean to its steps
