"""Noise: the same distribution as one image at a time, at all three sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import farout
from farout.shifts.kernels.poisson import SMALLEST, poisson
from farout.shifts.tables import TABLES
from helpers import slow_corruptions as slow

SLOW = {
    "gaussian_noise": slow.gaussian_noise,
    "shot_noise": slow.shot_noise,
    "impulse_noise": slow.impulse_noise,
    "speckle_noise": slow.speckle_noise,
}
COPIES = {32: 60, 64: 20, 224: 2}


def ramp(side: int) -> np.ndarray:
    """An image with all 8-bit levels, [side, side, 3]."""
    return (np.arange(side * side * 3) * 7 % 256).reshape(side, side, 3) / 255


def many(name: str, severity: int, side: int) -> np.ndarray:
    images = torch.from_numpy(ramp(side)).permute(2, 0, 1).expand(COPIES[side], -1, -1, -1)
    shifted = farout.shift(name, severity=severity)(images, seed=1)
    return shifted.permute(0, 2, 3, 1).double().mul(255).round().numpy()


def z_score(a: np.ndarray, b: np.ndarray) -> float:
    """Of the difference between two means."""
    return float((a.mean() - b.mean()) / np.sqrt(a.var() / a.size + b.var() / b.size))


@pytest.mark.parametrize("side", [32, 64, 224])
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", SLOW)
def test_mean_and_spread_of_the_change(name: str, severity: int, side: int) -> None:
    """Over all levels, and over the dark, middle and bright ones by themselves."""
    rng, image = np.random.default_rng(severity), ramp(side)
    row = TABLES[name][side][severity - 1]
    fast = many(name, severity, side) - image * 255
    one_by_one = [slow.cut(SLOW[name](image, rng, *row)) for _ in range(COPIES[side])]
    expected = np.stack(one_by_one) - image * 255
    for low, high in ((0, 1), (0, 0.2), (0.4, 0.6), (0.8, 1)):
        part = (image >= low) & (image <= high)
        a, b = fast[:, part], expected[:, part]
        assert abs(z_score(a, b)) < 4.5
        assert abs(z_score(a**2, b**2)) < 4.5


@pytest.mark.parametrize("name", SLOW)
def test_noise_differs_between_images_channels_and_pixels(name: str) -> None:
    """Correlations of the change with that of a neighbor, another channel and another image are near 0."""
    images = torch.full((100, 3, 32, 32), 0.5)
    change = farout.shift(name, severity=5)(images).sub(0.5).numpy()
    change = change - change.mean()
    pairs = [(change[:-1], change[1:]), (change[:, 0], change[:, 1])]
    pairs += [(change[..., 1:], change[..., :-1]), (change[..., 1:, :], change[..., :-1, :])]
    for a, b in pairs:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4.5 / a.size**0.5


@pytest.mark.parametrize("photons", [3, 12, 60, 500])
def test_poisson_is_the_quantile_function(photons: int) -> None:
    """That of scipy, for all levels, far tails included."""
    rng = np.random.default_rng(photons)
    tails = np.array([SMALLEST, 1e-6, 1 - 1e-5, 0.5])
    uniform = np.concatenate([np.broadcast_to(tails, (256, 4)), rng.random((256, 400))], 1).astype(np.float32)
    images = torch.arange(256).float().div(255)[:, None].expand(-1, 404)
    counts = poisson(images, torch.from_numpy(uniform), photons).numpy()
    expected = stats.poisson.ppf(uniform.astype(np.float64), photons * np.arange(256)[:, None] / 255)
    expected[0] = 0
    assert (counts != expected).mean() < 2e-4  # u within a float32 step of the CDF
    assert np.abs(counts - expected).max() <= 1


def test_shot_noise_counts_photons() -> None:
    """White at 50 photons: every count k turns into floor(255 k/50), as often as Poisson says."""
    white = torch.ones(300, 1, 32, 32)
    levels, counts = np.unique(
        farout.shift("shot_noise", severity=5)(white).mul(255).round().numpy(), return_counts=True
    )
    chances = stats.poisson(50).pmf(np.arange(50))
    seen = dict(zip(levels.astype(int), counts / counts.sum(), strict=True))
    for photons in range(25, 50):
        p = chances[photons]
        assert seen[255 * photons // 50] == pytest.approx(p, abs=4.5 * (p / counts.sum()) ** 0.5)
    assert seen[255] == pytest.approx(1 - chances.sum(), abs=0.005)


def test_impulse_noise_hits_numbers_not_pixels() -> None:
    """Half salt, half pepper, each channel by itself; all else stays."""
    images = torch.full((200, 3, 32, 32), 100 / 255)
    shifted = farout.shift("impulse_noise", severity=5)(images)
    salt, pepper = shifted == 1, shifted == 0
    assert torch.equal(shifted[~(salt | pepper)], images[~(salt | pepper)])
    for hits in (salt, pepper):
        assert float(hits.double().mean()) == pytest.approx(0.035, abs=4.5 * (0.035 / hits.numel()) ** 0.5)
    both = float((salt[:, 0] & salt[:, 1]).double().mean())
    assert both == pytest.approx(0.035**2, abs=4.5 * 0.035 / salt[:, 0].numel() ** 0.5)


@pytest.mark.parametrize("severity", range(1, 6))
def test_black_stays_black_under_noise_that_scales_with_light(severity: int) -> None:
    black = torch.zeros(5, 3, 32, 32)
    for name in ("shot_noise", "speckle_noise"):
        assert torch.equal(farout.shift(name, severity=severity)(black), black)
