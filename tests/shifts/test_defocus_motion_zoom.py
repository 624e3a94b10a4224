"""Defocus, motion and zoom blur against slow ones, by hand, and byte for byte in any batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

import farout
from farout.shifts.kernels.disk import disk
from farout.shifts.kernels.levels import NEARLY
from farout.shifts.kernels.motion import motion_blur
from farout.shifts.kernels.taps import correlate, mirrored_indices, repeated_indices
from farout.shifts.tables import TABLES, nearest_size
from helpers import slow_blurs as slow
from helpers.slow_corruptions import cut

NAMES = ["defocus_blur", "motion_blur", "zoom_blur"]
SHAPES = [(32, 32), (64, 64), (224, 224), (33, 29), (8, 11), (50, 67), (36, 36), (128, 131)]


def scenes(count: int, height: int, width: int) -> torch.Tensor:
    """8-bit images with smooth parts, single pixels of noise, black and white."""
    rng = np.random.default_rng(height)
    pixels = ndimage.gaussian_filter(rng.normal(size=(count, 3, height, width)), (0, 0.5, 3, 3)) * 3 + 0.5
    pixels = np.where(rng.random((count, 1, height, width)) < 0.2, rng.random(pixels.shape), pixels).clip(0, 1)
    pixels[:, :, :2], pixels[:, :, 2:4] = 0, 1
    return torch.from_numpy(pixels).mul(255).round().div(255).float()


def hwc(image: torch.Tensor) -> slow.Image:
    return image.double().mul(255).round().div(255).permute(1, 2, 0).numpy()


def reference(name: str, severity: int, image: slow.Image, angle: float) -> slow.Image:
    size = nearest_size(min(image.shape[:2]))
    if name == "zoom_blur":
        return slow.zoom(image, *slow.STOPS[size][severity - 1])
    row = TABLES[name][size][severity - 1]
    return slow.defocus(image, *row) if name == "defocus_blur" else slow.motion(image, *row, angle)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_against_one_image_at_a_time(name: str, severity: int, shape: tuple[int, int]) -> None:
    """At most one level apart, and as a rule not at all, where values just below a level count as that level."""
    image, shift = scenes(1, *shape), farout.shift(name, severity=severity)
    drawn = shift.sample(image.shape[1:], torch.Generator().manual_seed(severity)) if shift.random else {}
    fast = shift.apply(image, {key: value[None] for key, value in drawn.items()})[0].mul(255).round().long()
    expected = reference(name, severity, hwc(image[0]), float(drawn.get("angle", 0)))
    fast_levels = fast.permute(1, 2, 0).numpy()
    assert np.abs(fast_levels - cut(expected + 1e-9).astype(int)).max() <= 1
    assert (fast_levels != cut(expected + NEARLY / 255)).mean() <= 0.005


@pytest.mark.parametrize("size", TABLES["defocus_blur"])
def test_disks_are_those_drawn_pixel_by_pixel(size: int) -> None:
    for radius, sigma in TABLES["defocus_blur"][size]:
        kernel, expected = disk(radius, sigma), slow.disk(radius, sigma)
        around = (len(expected) - len(kernel)) // 2
        np.testing.assert_allclose(np.pad(kernel, around), expected, atol=1e-7)


def test_small_disks_are_a_gaussian_a_plus_and_a_box() -> None:
    """At 32 px; and where a disk touches the square it is drawn in, as at 224 px, it makes images brighter."""
    tap = math.exp(-0.5 / 0.4**2)
    gaussian = np.array([tap, 1, tap]) / (1 + 2 * tap)
    np.testing.assert_allclose(disk(0.3, 0.4), np.outer(gaussian, gaussian), rtol=1e-12)
    plus = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]) / 5
    np.testing.assert_allclose(disk(1, 0.1), plus, atol=1e-15)
    np.testing.assert_allclose(disk(1.5, 0.1), np.full((3, 3), 1 / 9), rtol=1e-12)
    edge = math.exp(-2) / (1 + 2 * math.exp(-2))  # columns 7 and 8 of this disk have 7 pixels and 1
    assert disk(8, 0.5).sum() == pytest.approx((1 + 2 * edge * 6 / 197) ** 2, rel=2e-4)


@pytest.mark.parametrize(("side", "far"), [(1, 0), (1, 3), (2, 5), (5, 4), (5, 13), (32, 8)])
def test_edges_are_mirrored_and_repeated_as_numpy_pads(side: int, far: int) -> None:
    line = np.arange(side)
    np.testing.assert_array_equal(mirrored_indices(side, far), np.pad(line, far, mode="reflect"))
    np.testing.assert_array_equal(repeated_indices(side, far), np.pad(line, far, mode="edge"))


def test_a_filter_is_that_of_scipy() -> None:
    """For a kernel that is not the same when turned by 90°, and images smaller than the kernel."""
    quarter = np.random.default_rng(0).random((4, 4))
    half = np.concatenate([quarter[:0:-1], quarter])
    kernel = np.concatenate([half[:, :0:-1], half], 1)
    for shape in ((9, 7), (3, 2), (1, 5)):
        images = torch.from_numpy(np.random.default_rng(1).random((2, 3, *shape)))
        expected = ndimage.correlate(images.numpy(), kernel[None, None], mode="mirror")
        np.testing.assert_allclose(correlate(images, kernel).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(("angle", "dy", "dx"), [(0, 0, 1), (90, 1, 0), (-90, -1, 0), (180, 0, -1)])
def test_a_point_in_motion_by_hand(angle: float, dy: int, dx: int) -> None:
    """A pixel shows what lies along the angle, so a point leaves its trace on the other side."""
    images = torch.zeros(1, 1, 15, 15)
    images[0, 0, 7, 7] = 1
    expected, weights = np.zeros((15, 15)), np.exp(-0.5 * (np.arange(7) / 2.0) ** 2)
    for i, weight in enumerate(weights):
        expected[7 - i * dy, 7 - i * dx] = weight / weights.sum()
    blurred = motion_blur(images, 3, 2.0, torch.tensor([float(angle)]))[0, 0].numpy()
    np.testing.assert_allclose(blurred, expected, atol=1e-7)


def test_every_image_moves_at_its_own_angle_and_edges_are_repeated() -> None:
    """Also at angles snow uses, and farther than the image is wide."""
    images, angles = scenes(5, 9, 13), torch.tensor([-133.0, -45.5, 0.3, 44.0, 101.0])
    blurred = motion_blur(images, 14, 12, angles)
    for image, angle, result in zip(images, angles, blurred, strict=True):
        expected = slow.motion(hwc(image), 14, 12, float(angle))
        np.testing.assert_allclose(result.permute(1, 2, 0).numpy(), expected, atol=1e-6)


def test_angles_are_uniform() -> None:
    shift = farout.shift("motion_blur", severity=1)
    rng = torch.Generator().manual_seed(0)
    angles = [float(shift.sample((3, 32, 32), rng)["angle"]) for _ in range(2000)]
    assert -45 <= min(angles) < -44 < 44 < max(angles) <= 45
    assert stats.kstest(angles, stats.uniform(-45, 90).cdf).pvalue > 0.01


@pytest.mark.parametrize("severity", [2, 5])
def test_motion_changes_as_much_as_angles_drawn_apart_would(severity: int) -> None:
    """Mean and standard deviation of the change, averaged over images; within four standard errors."""
    images, row = scenes(300, 32, 32), TABLES["motion_blur"][32][severity - 1]
    fast = farout.shift("motion_blur", severity=severity)(images).sub(images).flatten(1).double().numpy()
    rng = np.random.default_rng(1)
    apart = [cut(slow.motion(hwc(image), *row, rng.uniform(-45, 45)) + 1e-9) / 255 - hwc(image) for image in images]
    expected = np.array(apart).reshape(len(images), -1)
    for statistic in (np.mean, np.std):
        pairs = statistic(fast, axis=1) - statistic(expected, axis=1)
        assert abs(pairs.mean()) < 4 * pairs.std() / len(pairs) ** 0.5


@pytest.mark.parametrize("side", [32, 48, 128])
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", NAMES)
def test_a_flat_image_stays_as_it_is(name: str, severity: int, side: int) -> None:
    """Sums of float32 do not darken it by a level; disks that touch their square make it brighter, by 1 %."""
    levels = torch.arange(0, 256, 1 if side == 32 else 3).float()
    images = levels.div(255)[:, None, None, None].expand(-1, 1, side, side)
    gain = 1.0
    if name == "defocus_blur" and side == 128 and severity >= 4:
        gain = float(slow.disk(*TABLES[name][224][severity - 1]).sum())
    expected = levels.double().mul(gain).add(1e-4).floor().clamp(max=255).long()[:, None, None, None]
    shifted = farout.shift(name, severity=severity)(images).mul(255).round().long()
    assert torch.equal(shifted, expected.expand_as(shifted))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 33, 29), (3, 8, 8), (1, 64, 50), (3, 150, 131)])
@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("name", NAMES)
def test_an_image_gets_the_same_bytes_in_any_batch(name: str, severity: int, shape: tuple[int, ...]) -> None:
    shift, count = farout.shift(name, severity=severity), 5 if shape[1] > 100 else 19
    images = torch.randint(0, 256, (count, *shape), generator=torch.Generator().manual_seed(9)).div(255)
    whole = shift(images, seed=4)
    for i in range(count):
        assert torch.equal(shift(images[i : i + 1], seed=4, indices=[i]), whole[i : i + 1])
    order = list(range(count))[::-1]
    assert torch.equal(shift(images.flip(0), seed=4, indices=order), whole.flip(0))
    assert torch.equal(shift(images.contiguous(memory_format=torch.channels_last), seed=4), whole)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 3, 32, 32), (2, 1, 1, 1), (2, 3, 2, 5), (1, 3, 1, 40)])
def test_tiny_images(name: str, shape: tuple[int, ...]) -> None:
    """A single pixel has nothing to mix with; every value stays between the image's darkest and brightest."""
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).div(255)
    shifted = farout.shift(name, severity=5)(images)
    assert shifted.shape == images.shape
    for before, after in zip(images, shifted, strict=True):
        assert float(before.min()) - 1 / 255 <= float(after.min()) <= float(after.max()) <= float(before.max())
    if shape[2:] == (1, 1):
        assert torch.equal(shifted, images)


@pytest.mark.parametrize("name", NAMES)
def test_a_gray_image_is_blurred_as_each_channel_is(name: str) -> None:
    images, shift = scenes(4, 32, 36)[:, :1], farout.shift(name, severity=3)
    assert torch.equal(shift(images).expand(-1, 3, -1, -1), shift(images.expand(-1, 3, -1, -1)))
