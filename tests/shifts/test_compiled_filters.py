"""What is compiled for CPUs gives the bytes of the same sums in torch, which other devices get."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from farout.shifts.kernels.drops import BOX, EMBOSS, correlate_3x3
from farout.shifts.kernels.gaussian import filter_along, gaussian, gaussian_weights


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.1, 6])
@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (1, 1, 61, 47), (2, 3, 9, 224), (3, 1, 5), (2, 6, 1), (0, 3, 8, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gaussian(shape: tuple[int, ...], sigma: float, dtype: torch.dtype) -> None:
    images, weights = (
        torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(0)),
        gaussian_weights(sigma),
    )
    assert torch.equal(gaussian(images, sigma), filter_along(filter_along(images, weights, -2), weights, -1))


def test_gaussian_of_images_that_lie_otherwise_in_memory() -> None:
    images = torch.rand(2, 3, 20, 30, generator=torch.Generator().manual_seed(0))
    turned = images.transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(gaussian(turned, 1.5), gaussian(images, 1.5))


@pytest.mark.parametrize("kernel", [BOX, EMBOSS])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (2, 2), (3, 2), (7, 9)])
def test_window_mirrors_edges(kernel: tuple[tuple[int, ...], ...], shape: tuple[int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, *shape))
    expected = [ndimage.correlate(image, np.array(kernel), mode="mirror") for image in images]
    np.testing.assert_array_equal(correlate_3x3(torch.from_numpy(images).float(), kernel).numpy(), np.stack(expected))
