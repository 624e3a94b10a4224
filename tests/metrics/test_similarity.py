"""SSIM against a loop over windows in numpy and closed forms; LPIPS: what is passed to the package, and its errors."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from farout.metrics import lpips, ssim
from farout.metrics.similarity import lpips_module

C1, C2 = 0.01**2, 0.03**2


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def window_loop(a: NDArray[np.float64], b: NDArray[np.float64], side: int) -> float:
    """Wang et al. 2004, eq. 13 to 17, one window after the other, moments about the mean."""
    half = side // 2
    weights = np.array(
        [[math.exp(-(x * x + y * y) / (2 * 1.5**2)) for x in range(-half, half + 1)] for y in range(-half, half + 1)]
    )
    weights /= weights.sum()
    found = []
    for row in range(a.shape[0] - side + 1):
        for column in range(a.shape[1] - side + 1):
            x, y = (maps[row : row + side, column : column + side] for maps in (a, b))
            mean_x, mean_y = (weights * x).sum(), (weights * y).sum()
            var_x, var_y = (weights * (x - mean_x) ** 2).sum(), (weights * (y - mean_y) ** 2).sum()
            covariance = (weights * (x - mean_x) * (y - mean_y)).sum()
            light = (2 * mean_x * mean_y + C1) / (mean_x**2 + mean_y**2 + C1)
            found.append(light * (2 * covariance + C2) / (var_x + var_y + C2))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("height", "width", "side"), [(32, 32, 11), (17, 11, 11), (10, 30, 9), (8, 8, 7), (2, 5, 1), (1, 1, 1)]
)
def test_the_mean_over_all_windows_that_fit(height: int, width: int, side: int) -> None:
    a, noise = draw(3, height, width), draw(3, height, width, seed=1)
    b = 0.7 * a + 0.3 * noise
    expected = [window_loop(*(one.double().numpy() for one in pair), side) for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(ssim(a, b).numpy(), expected, rtol=0, atol=1e-12)


def test_a_map_is_like_itself_and_order_does_not_matter() -> None:
    a, b = draw(4, 20, 20), draw(4, 20, 20, seed=1)
    assert torch.equal(ssim(a, a), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(ssim(a, b), ssim(b, a), rtol=0, atol=1e-14)
    assert (ssim(a, b) < 0.2).all()


def test_constant_maps_differ_by_their_light_alone() -> None:
    a, b = torch.tensor([0.0, 0.2, 1.0, 0.5]).double(), torch.tensor([1.0, 0.7, 1.0, 0.0]).double()
    maps = (one[:, None, None].expand(-1, 15, 13) for one in (a, b))
    torch.testing.assert_close(ssim(*maps), (2 * a * b + C1) / (a**2 + b**2 + C1), rtol=0, atol=1e-12)


def test_inverted_maps_are_unlike() -> None:
    """For y = 1 − x the covariance is minus the variance v, so that structure counts (C2 − 2v) / (C2 + 2v)."""
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(1, 8, 8).view(1, 16, 16).double()
    line = torch.exp(-(torch.arange(-5.0, 6).double() ** 2) / 4.5)
    lean = float(((line / line.sum()) * torch.tensor([1.0, -1]).double().repeat(6)[:11]).sum()) ** 2
    mean, variance = 0.5 + lean / 2, 0.25 - lean**2 / 4
    light = (2 * mean * (1 - mean) + C1) / (mean**2 + (1 - mean) ** 2 + C1)
    expected = torch.tensor([light * (C2 - 2 * variance) / (C2 + 2 * variance)], dtype=torch.float64)
    torch.testing.assert_close(ssim(x, 1 - x), expected, rtol=0, atol=1e-12)


def test_ssim_makes_its_window_where_the_maps_are() -> None:
    a, b = draw(2, 16, 16), draw(2, 16, 16, seed=1)
    expected = ssim(a, b)
    with torch.device("meta"):
        assert torch.equal(ssim(a, b), expected)


def test_errors_of_maps() -> None:
    with pytest.raises(ValueError, match=r"got shapes \[2, 8, 8\] and \[2, 8, 9\]"):
        ssim(draw(2, 8, 8), draw(2, 8, 9))
    with pytest.raises(ValueError, match="expected values in"):
        ssim(draw(2, 8, 8), draw(2, 8, 8) * 255)
    with pytest.raises(TypeError, match=r"got torch\.uint8"):
        ssim(torch.zeros(1, 8, 8, dtype=torch.uint8), torch.zeros(1, 8, 8, dtype=torch.uint8))
    assert ssim(draw(0, 8, 8), draw(0, 8, 8)).shape == (0,)


def test_the_channels_of_images_are_averaged() -> None:
    a, b = draw(2, 3, 16, 16), draw(2, 3, 16, 16, seed=1)
    channels = torch.stack([ssim(a[:, channel], b[:, channel]) for channel in range(3)], 1)
    torch.testing.assert_close(ssim(a, b), channels.mean(1), rtol=0, atol=1e-14)


class Distance(torch.nn.Module):
    """Stand-in of lpips.LPIPS: the mean difference of pixels in [-1, 1], of the second channel."""

    def __init__(self, net: str, verbose: bool) -> None:
        super().__init__()
        if net == "alex":
            raise OSError("no route to host")
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, a: torch.Tensor, b: torch.Tensor, normalize: bool) -> torch.Tensor:
        assert normalize
        assert a.shape[1] == 3
        return 2 * (a - b)[:, 1:2].mean((2, 3), keepdim=True) * self.weight


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "lpips", SimpleNamespace(LPIPS=Distance))  # type: ignore[arg-type]
    lpips_module.cache_clear()
    yield
    lpips_module.cache_clear()


@pytest.mark.usefixtures("package")
def test_lpips_of_the_package() -> None:
    a, b = draw(3, 1, 8, 8), draw(3, 1, 8, 8, seed=1)
    found = lpips(a, b)
    torch.testing.assert_close(found, 2 * (a - b).double().mean((1, 2, 3)), rtol=0, atol=1e-6)
    assert found.dtype == torch.float64
    assert not found.requires_grad


@pytest.mark.usefixtures("package")
def test_weights_that_cannot_be_fetched() -> None:
    with pytest.raises(ConnectionError, match=r"weights of alex .* could not be fetched \(OSError: no route to host\)"):
        lpips(draw(1, 3, 8, 8), draw(1, 3, 8, 8), net="alex")


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lpips", None)
    lpips_module.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r'lpips is not installed: pip install "farout\[lpips\]"'):
        lpips(draw(1, 3, 8, 8), draw(1, 3, 8, 8))


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 2, 8, 8)])
def test_lpips_takes_images(shape: Any) -> None:
    with pytest.raises(ValueError, match="with 1 or 3 channels, got shape"):
        lpips(draw(*shape), draw(*shape))
