"""Spatter: each step as OpenCV does it, each image as one made by itself, masks and colors as often as there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout.shifts.kernels.drops import equalize, relief
from farout.shifts.kernels.edges import canny, distance
from farout.shifts.tables import TABLES
from helpers import slow_corruptions as slow

DROPS = np.load(Path(__file__).with_name("opencv_drops.npz"))
"""Four images [36, 44] of 8-bit levels, and what OpenCV 5.0 (without IPP) makes of them."""
SETTINGS = [(severity, side) for side in (32, 64, 224) for severity in range(1, 6)]


def distances(edges: np.ndarray) -> np.ndarray:
    """In pixels."""
    out = np.empty(edges.shape, np.float32)
    distance(edges, out)
    return out / 65536


def test_edges_are_those_of_opencv() -> None:
    edges = np.stack([canny(levels.astype(np.int32)) for levels in DROPS["levels"]])
    np.testing.assert_array_equal(edges, np.unpackbits(DROPS["canny"], axis=-1, count=44).astype(bool))
    assert 0.02 < edges.mean() < 0.5


def test_distances_are_those_of_opencv() -> None:
    edges = np.unpackbits(DROPS["canny"], axis=-1, count=44).astype(bool)
    np.testing.assert_array_equal(np.stack([distances(image) for image in edges]), DROPS["distance"])


def test_equalized_levels_are_those_of_opencv() -> None:
    levels = torch.from_numpy(DROPS["levels"].astype(np.int64))
    np.testing.assert_array_equal(equalize(levels).numpy(), DROPS["equalized"])


def test_equalized_levels_in_float32() -> None:
    """1,700 pixels above the lowest level: 0.15 levels each, so that many lie at a half."""
    levels = np.random.default_rng(0).integers(1, 256, (50, 40, 43))
    levels[:, 0, :20] = 0
    expected = np.stack([slow.equalized(image) for image in levels])
    np.testing.assert_array_equal(equalize(torch.from_numpy(levels)).numpy(), expected)


def test_the_relief_is_that_of_opencv() -> None:
    levels = torch.from_numpy(DROPS["levels"].astype(np.int32))
    np.testing.assert_array_equal(relief(levels).numpy(), DROPS["relief"])


def test_steps_of_the_distance_by_hand() -> None:
    edges = np.zeros((40, 40), bool)
    edges[3, 3] = True
    steps = distances(edges)
    assert steps[3, 3:6].tolist() == [0, 1, 2]
    assert steps[[4, 4, 5, 6], [4, 5, 7, 6]] == pytest.approx([1.4, 2.1969, 2 * 2.1969, 4.2], abs=1e-4)
    assert steps[39, 39] == 20
    assert np.unique(distances(np.zeros((9, 9), bool))).tolist() == [20]


def test_equalizing_one_level_changes_nothing() -> None:
    images = torch.tensor([0, 20, 255])[:, None, None].expand(-1, 4, 5)
    assert torch.equal(equalize(images), images)


def by_itself(image: np.ndarray, noise: np.ndarray, severity: int, side: int) -> np.ndarray:
    """[H, W, 3] in [0, 1] with this noise, as 8-bit levels."""
    mean, sigma, blur, threshold, strength, is_mud = TABLES["spatter"][side][severity - 1]
    layer = slow.liquid(noise, mean, sigma, blur)
    return slow.cut((slow.mud if is_mud else slow.water)(image, layer, threshold, strength) + 1e-9).astype(int)


def hwc(images: torch.Tensor) -> np.ndarray:
    return images.permute(0, 2, 3, 1).double().mul(255).round().numpy()


@pytest.mark.parametrize(("severity", "side"), SETTINGS)
def test_given_its_noise(severity: int, side: int) -> None:
    """A float32 blur may decide otherwise on a drop's edge, but hardly ever does."""
    count, spatter = {32: 8, 64: 4, 224: 1}[side], farout.shifts.Spatter(severity=severity)
    images = torch.randint(0, 256, (count, 3, side, side), generator=torch.Generator().manual_seed(1)).div(255)
    rng = torch.Generator().manual_seed(side)
    noise = torch.stack([spatter.sample((3, side, side), rng)["noise"] for _ in range(count)])
    fast = hwc(spatter.apply(images, {"noise": noise}))
    pairs = zip(hwc(images) / 255, noise.double().numpy(), strict=True)
    apart = np.abs(fast - np.stack([by_itself(*pair, severity, side) for pair in pairs]))
    assert (apart > 1).mean() < 1e-3
    assert (apart > 0).mean() < 5e-3


@pytest.mark.parametrize(("severity", "side"), [(s, side) for s, side in SETTINGS if side < 224])
def test_share_and_color_of_the_drops(severity: int, side: int) -> None:
    """On black for water and on white for mud, over many images with noise of their own."""
    count, rng = 3200 // side, np.random.default_rng(severity)
    is_mud = severity > 3
    base = torch.full((count, 3, side, side), float(is_mud))
    fast = hwc(farout.shift("spatter", severity=severity)(base, seed=side))
    noises = rng.normal(size=(count, side, side))
    slowly = np.stack([by_itself(np.full((side, side, 3), float(is_mud)), noise, severity, side) for noise in noises])
    for summary in (share, color):
        a, b = (np.array([summary(image, is_mud) for image in images]) for images in (fast, slowly))
        error = np.sqrt(a.var(0) / count + b.var(0) / count)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 4.5 * error + 1e-3)


def share(image: np.ndarray, is_mud: bool) -> float:
    """Of pixels that a drop changed."""
    return float((image != 255 * is_mud).any(-1).mean())


def color(image: np.ndarray, is_mud: bool) -> np.ndarray:
    """Mean of the change."""
    return np.asarray((image - 255 * is_mud).mean((0, 1)))


def test_a_lens_without_drops_changes_nothing() -> None:
    images, noise = torch.full((2, 3, 16, 16), 0.4).mul(255).round().div(255), torch.full((2, 16, 16), -3.0)
    for severity in range(1, 6):
        assert torch.equal(farout.shifts.Spatter(severity=severity).apply(images, {"noise": noise}), images)


@pytest.mark.parametrize(("severity", "color"), [(3, (175, 238, 238)), (5, (63, 42, 20))])
def test_one_channel_gets_the_gray_of_the_color(severity: int, color: tuple[int, int, int]) -> None:
    black = torch.zeros(20, 3, 32, 32)
    spatter = farout.shift("spatter", severity=severity)
    colored, gray = hwc(spatter(black)), hwc(spatter(black[:, :1]))[..., 0]
    np.testing.assert_allclose(gray, colored @ [0.2989, 0.5870, 0.1140], atol=1.01)
    assert colored.max((0, 1, 2)) == pytest.approx([c * (1 if severity > 3 else 0.5) for c in color], abs=1)
