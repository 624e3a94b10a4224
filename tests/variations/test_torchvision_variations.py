"""Affine and color beside torchvision's own, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest
import torch
from torch import Tensor

from farout.shifts.kernels.recolored import recolor_images
from farout.variations import Affine, Color
from farout.variations.bounds import interpolate

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def functional() -> Any:
    from farout.optional import mend_torchvision

    mend_torchvision()
    return importlib.import_module("torchvision.transforms.functional")


def latents(total: int, dim: int) -> Tensor:
    """A third inside the cube, a third clamped to its faces as a search does, a third on a grid, where pixels tie."""
    z = torch.rand(total, dim, generator=torch.Generator().manual_seed(1))
    z[1::3] = z[1::3].mul(1.6).sub(0.3).clamp(0, 1)
    z[2::3] = z[2::3].mul(3).floor().clamp(0, 2).div(2)
    return z


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 20, 37)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_affine(functional: Any, shape: tuple[int, int, int], interpolation: Any) -> None:
    base = torch.rand(300, *shape, generator=torch.Generator().manual_seed(0))
    z, variation = latents(300, 5), Affine(interpolation=interpolation)
    across, down = 10 / 32 * shape[2], 10 / 32 * shape[1]
    bounds = (variation.rotation, (-across, across), (-down, down), variation.scale, variation.shear)
    mode = functional.InterpolationMode(interpolation)
    expected = [
        functional.affine(image, angle, [right, down], scale, shear, interpolation=mode)
        for image, (angle, right, down, scale, shear) in zip(base, interpolate(z, bounds).tolist(), strict=True)
    ]
    # torchvision multiplies matrices for the grid: a BLAS that fuses these sums may decide a tie the other way
    difference = (variation.decode(z, base) - torch.stack(expected)).abs()
    assert difference.max() <= 1e-5 if interpolation == "bilinear" else (difference > 0).float().mean() < 1e-4


@pytest.mark.parametrize("channels", [1, 3])
def test_color(functional: Any, channels: int) -> None:
    base = torch.rand(300, channels, 16, 16, generator=torch.Generator().manual_seed(0))
    base[::5] = base[::5].mul(4).round().div(4)
    base[1::5], base[2], base[3] = base[1::5, :1], 0, 1
    z, variation = latents(300, 4), Color()
    bounds = (variation.brightness, variation.contrast, variation.saturation, variation.hue)
    expected = []
    for image, (brightness, contrast, saturation, hue) in zip(base, interpolate(z, bounds).tolist(), strict=True):
        image = functional.adjust_contrast(functional.adjust_brightness(image, brightness), contrast)
        expected.append(functional.adjust_hue(functional.adjust_saturation(image, saturation), hue))
    for images in (variation.decode(z, base), recolor_images(base, interpolate(z, bounds).float())):
        assert (images - torch.stack(expected)).abs().max() < 5e-6
