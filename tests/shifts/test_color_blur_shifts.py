"""Corruptions without randomness, and glass blur given its offsets, against slow ones: within one 8-bit level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

import farout
from farout.shifts.kernels.gaussian import gaussian
from farout.shifts.kernels.shuffling import source_indices
from farout.shifts.tables import TABLES
from helpers import slow_corruptions as slow

SLOW = {
    "contrast": slow.contrast,
    "brightness": slow.brightness,
    "saturate": slow.saturate,
    "gaussian_blur": slow.blur,
}


def scene(side: int, count: int = 1) -> torch.Tensor:
    """Images with smooth parts, noise, gray, black and white."""
    rng = np.random.default_rng(side)
    smooth = ndimage.gaussian_filter(rng.normal(size=(count, 3, side, side)), (0, 0.5, 3, 3)) * 3 + 0.5
    pixels = np.where(rng.random((count, 1, side, side)) < 0.2, rng.random(smooth.shape), smooth).clip(0, 1)
    pixels[:, :, :6] = pixels[:, :1, :6]
    pixels[:, :, :2], pixels[:, :, 2:4] = 0, 1
    return torch.from_numpy(pixels).mul(255).round().div(255).float()


def levels(images: torch.Tensor) -> np.ndarray:
    values = images.double().numpy() * 255
    np.testing.assert_allclose(values, values.round(), atol=1e-4)
    return values.round().astype(int).transpose(0, 2, 3, 1)


def hwc(images: torch.Tensor) -> np.ndarray:
    return levels(images) / 255


def assert_same(fast: np.ndarray, expected: np.ndarray, mostly: float = 0.02) -> None:
    """At most one level apart, and as a rule not at all."""
    apart = np.abs(fast - expected.astype(int))
    assert apart.max() <= 1
    assert (apart > 0).mean() <= mostly


@pytest.mark.parametrize("side", [32, 64, 224])
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", SLOW)
def test_against_one_image_at_a_time(name: str, severity: int, side: int) -> None:
    images = scene(side)
    expected = slow.cut(SLOW[name](hwc(images)[0], *TABLES[name][side][severity - 1]) + 1e-9)
    assert_same(levels(farout.shift(name, severity=severity)(images))[0], expected)


@pytest.mark.parametrize("side", [32, 64, 224])
@pytest.mark.parametrize("severity", range(1, 6))
def test_glass_blur_given_its_offsets(severity: int, side: int) -> None:
    images, glass = scene(side), farout.shifts.GlassBlur(severity=severity)
    sigma, reach, _ = TABLES["glass_blur"][side][severity - 1]
    params = glass.sample(images.shape[1:], torch.Generator().manual_seed(severity))
    fast = glass.apply(images, {"offsets": params["offsets"][None]})
    expected = slow.cut(slow.glass_blur(hwc(images)[0], params["offsets"].numpy(), sigma, int(reach)) + 1e-9)
    assert_same(levels(fast)[0], expected)


@pytest.mark.parametrize(("severity", "side"), [(1, 32), (4, 64), (5, 224)])
def test_glass_offsets_are_uniform(severity: int, side: int) -> None:
    """From −d to d − 1, one for every pixel of the inner square and every round."""
    _, reach, rounds = map(int, TABLES["glass_blur"][side][severity - 1])
    glass = farout.shifts.GlassBlur(severity=severity)
    offsets = glass.sample((3, side, side), torch.Generator().manual_seed(0))["offsets"]
    assert offsets.shape == (rounds, 2, side - 2 * reach, side - 2 * reach)
    values, counts = np.unique(offsets.numpy(), return_counts=True)
    assert values.tolist() == list(range(-reach, reach))
    assert np.abs(counts / counts.mean() - 1).max() < 5 / counts.mean() ** 0.5


def test_a_shuffle_by_hand() -> None:
    """5 × 5 pixels, offsets up to 1: only rows and columns 2 to 4 change, the last pixel first."""
    offsets = torch.zeros(1, 1, 2, 3, 3, dtype=torch.int64)
    offsets[0, 0, 1, 2] = torch.tensor([0, 0, -1])  # (4, 4) takes (4, 3), which no one has changed
    offsets[0, 0, 0, 1, 1] = -1  # (3, 3) takes (2, 3)
    places = source_indices(offsets, 1, 5, 5)[0].numpy()
    expected = np.arange(25).reshape(5, 5)
    expected[4, 4], expected[3, 3] = 23, 13
    np.testing.assert_array_equal(places, expected)


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1, 2.5, 6])
@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (1, 1, 5, 9), (2, 7, 1)])
def test_the_gaussian_filter_is_that_of_scipy(shape: tuple[int, ...], sigma: float) -> None:
    images = torch.from_numpy(np.random.default_rng(0).random(shape))
    sigmas = [0.0] * (len(shape) - 2) + [sigma, sigma]
    expected = ndimage.gaussian_filter(images.numpy(), sigmas, mode="nearest", truncate=4)
    np.testing.assert_allclose(gaussian(images, sigma).numpy(), expected, atol=1e-13)
    np.testing.assert_allclose(gaussian(images.float(), sigma).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["contrast", "gaussian_blur", "glass_blur", "saturate"])
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("side", [32, 48, 128])
def test_a_flat_gray_image_stays_as_it_is(name: str, severity: int, side: int) -> None:
    """Sums of float32 do not darken it by a level."""
    images = torch.arange(0, 256, 1 if side == 32 else 3).div(255)[:, None, None, None].expand(-1, 1, side, side)
    assert torch.equal(farout.shift(name, severity=severity)(images), images)


def test_color_by_hand() -> None:
    """Black, gray and a pure color at 32 px; severity 5 adds 0.3 to V, or makes S into 2.5 S + 0.2."""
    images = torch.tensor([[0, 0, 0], [100, 100, 100], [0, 100, 200]]).float().div(255)[:, :, None, None]
    brighter, saturated = (farout.shift(n, severity=5)(images) for n in ("brightness", "saturate"))
    assert levels(brighter).reshape(3, 3).tolist() == [[76] * 3, [176] * 3, [0, 127, 255]]
    assert levels(saturated).reshape(3, 3).tolist() == [[0, 0, 0], [100, 80, 80], [0, 100, 200]]


def test_one_channel() -> None:
    """V is the gray itself, saturation has nothing to act on, and filters and means know no color."""
    images = scene(32, 4)[:, :1]
    levels_in = levels(images)
    brighter = levels(farout.shift("brightness", severity=4)(images))
    np.testing.assert_array_equal(brighter, np.minimum(levels_in + 51, 255))
    assert torch.equal(farout.shift("saturate", severity=5)(images), images)
    for name in ("contrast", "gaussian_blur", "glass_blur"):
        shift = farout.shift(name, severity=3)
        assert torch.equal(shift(images).expand(-1, 3, -1, -1), shift(images.expand(-1, 3, -1, -1)))
