"""Elastic deformation against one image at a time with scipy, and its affine map against OpenCV's own results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage

import farout
from farout.shifts.kernels.gaussian import gaussian_matrix, truncation_radius
from farout.shifts.kernels.warping import banded_product, inverse_maps, warp
from farout.shifts.tables import TABLES

Array = NDArray[Any]
SHAPES = [(3, 32, 32), (3, 64, 64), (1, 28, 28), (3, 33, 29), (1, 8, 8), (3, 50, 67)]


def levels(images: torch.Tensor) -> Array:
    return np.asarray(images.mul(255).round().int().numpy())


def scenes(count: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Smooth images with noisy patches, in 8 bits."""
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.normal(size=(count, *shape)), (0, 0, 2, 2)) * 2 + 0.5
    pixels = np.where(rng.random((count, 1, *shape[1:])) < 0.2, rng.random(smooth.shape), smooth).clip(0, 1)
    return torch.from_numpy(np.rint(pixels * 255) / 255).float()


def three_points(height: int, width: int) -> Array:
    middle, third = np.array([width // 2, height // 2]), min(height, width) // 3
    return middle + third * np.array([[1, 1], [1, -1], [-1, -1]])


def affine(image: Array, moves: Array) -> Array:
    """An image [C, H, W] by the affine map that moves three points; read at places 1/32 pixel apart."""
    height, width = image.shape[1:]
    before = three_points(height, width)
    after = (before.astype(np.float32) + moves.astype(np.float32)).astype(float)
    source = np.linalg.solve(np.column_stack([after, np.ones(3)]), before)  # [x, y, 1] @ source
    y, x = np.mgrid[:height, :width]
    fine = np.rint(x[..., None] * source[0] * 1024) + np.rint((y[..., None] * source[1] + source[2]) * 1024)
    u, v = np.moveaxis(np.floor((fine + 16) / 32) / 32, -1, 0)
    return np.stack([ndimage.map_coordinates(channel, [v, u], order=1, mode="mirror") for channel in image])


def warped_by(images: Array, moves: Array) -> Array:
    """One image [1, C, H, W] by the map that is tested."""
    return np.asarray(warp(images, inverse_maps(moves[None].astype(np.float32), *images.shape[2:])))


def displaced(image: Array, dx: Array, dy: Array) -> Array:
    y, x = np.mgrid[: image.shape[1], : image.shape[2]]
    return np.stack([ndimage.map_coordinates(c, [y + dy, x + dx], order=1, mode="reflect") for c in image])


def slow_elastic(image: Array, moves: Array, fields: Array, length: float, sigma: float) -> Array:
    """8-bit levels; `fields` [2, H, W] for x and y."""
    dx, dy = (length * ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3) for field in fields)
    return (displaced(affine(image, moves), dx, dy).clip(0, 1) * 255 + 1e-4).astype(int)


def drawn(uniform: Array, shape: tuple[int, ...], jitter: float) -> tuple[Array, Array]:
    """Moves [3, 2] and fields [2, H, W] from the numbers that `Elastic` draws."""
    _, height, width = shape
    moves, fields = np.split(2 * uniform - 1, [6])
    fields = fields.reshape(width, 2, height).transpose(1, 2, 0) if fields.size else np.zeros((2, height, width))
    return np.float32(jitter) * moves.reshape(3, 2), fields.astype(float)


def assert_same(fast: Array, expected: Array) -> None:
    """At most one level apart, and as a rule not at all."""
    apart = np.abs(fast - expected)
    assert apart.max() <= 1
    assert (apart > 0).sum() <= max(1, 0.005 * apart.size)


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("shape", [*SHAPES, (3, 224, 224), (1, 160, 130)])
def test_given_its_draws_it_is_the_slow_one(shape: tuple[int, ...], severity: int) -> None:
    elastic, images = farout.shifts.Elastic(severity=severity), scenes(2, *shape)
    length, sigma, jitter = elastic.constants(shape)
    draws = [elastic.sample(shape, torch.Generator().manual_seed(severity + i))["uniform"] for i in range(2)]
    fast = levels(elastic.apply(images, {"uniform": torch.stack(draws)}))
    for i in range(2):
        expected = slow_elastic(images[i].double().numpy(), *drawn(draws[i].numpy(), shape, jitter), length, sigma)
        assert_same(fast[i], expected)


@pytest.mark.parametrize("case", ["small", "gray", "wide", "wild"])
def test_the_affine_map_is_that_of_opencv(case: str) -> None:
    """Recorded with OpenCV 4.12: getAffineTransform, warpAffine with INTER_LINEAR and BORDER_REFLECT_101."""
    with np.load(Path(__file__).parent / "opencv_warps.npz") as recorded:
        image, moves, expected = (recorded[f"{case}_{part}"] for part in ("image", "moves", "warped"))
    channels_first = np.ascontiguousarray(image.transpose(2, 0, 1)).astype(np.float32) / np.float32(255)
    warped = warped_by(channels_first[None], moves)[0]
    np.testing.assert_allclose(warped, expected.transpose(2, 0, 1), atol=3e-7)
    np.testing.assert_allclose(affine(channels_first.astype(float), moves), expected.transpose(2, 0, 1), atol=3e-7)


def test_points_that_stay_leave_the_image_alone() -> None:
    image = scenes(1, 3, 20, 31).numpy()
    np.testing.assert_array_equal(warped_by(image, np.zeros((3, 2))), image)


def test_points_that_move_alike_move_the_image() -> None:
    """Three to the right and two up; what comes in is mirrored at the outermost pixel."""
    image = scenes(1, 3, 20, 31).numpy()
    warped = warped_by(image, np.array([[3, -2]] * 3))
    padded = np.pad(image[0], ((0, 0), (0, 2), (3, 0)), mode="reflect")
    np.testing.assert_array_equal(warped[0], padded[:, 2:, :31])


def test_a_singular_map_reads_one_pixel() -> None:
    """All three points moved to one: as a map it has no inverse."""
    image = scenes(1, 1, 32, 32).numpy()
    points = three_points(32, 32)
    warped = warped_by(image, points[1] - points)
    np.testing.assert_array_equal(warped, np.full_like(image, image[0, 0, points[1, 1], points[1, 0]]))


@pytest.mark.parametrize("side", [1, 5, 32, 224])
@pytest.mark.parametrize("sigma", [0.4, 1.92, 19.52, 170.8])
def test_smoothing_is_the_gaussian_filter_of_scipy(side: int, sigma: float) -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (side, 37))
    expected = ndimage.gaussian_filter1d(rows, sigma, axis=0, mode="reflect", truncate=3)
    matrix = gaussian_matrix(side, sigma)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-8)
    np.testing.assert_allclose(matrix @ rows, expected, atol=1e-6)
    np.testing.assert_allclose(
        banded_product(matrix, rows.astype(np.float32), truncation_radius(sigma)), expected, atol=1e-6
    )


@pytest.mark.parametrize("severity", range(1, 6))
def test_changes_are_as_large_as_the_slow_ones(severity: int) -> None:
    """Mean and std of the change by draws of each one's own; 4.5 standard errors of 150 images."""
    images, rng = scenes(150, 3, 32, 32), np.random.default_rng(severity)
    length, sigma, jitter = TABLES["elastic"][32][severity - 1]
    fast = levels(farout.shifts.Elastic(severity=severity)(images))
    moves, fields = rng.uniform(-jitter, jitter, (150, 3, 2)), rng.uniform(-1, 1, (150, 2, 32, 32))
    pairs = zip(images.double().numpy(), moves, fields, strict=True)
    slow = np.stack([slow_elastic(*pair, length, sigma) for pair in pairs])
    for measure in (np.mean, np.std):
        ours, theirs = (measure(changed - levels(images), axis=(1, 2, 3)) for changed in (fast, slow))
        error = np.hypot(ours.std(), theirs.std()) / 150**0.5
        assert abs(ours.mean() - theirs.mean()) < 4.5 * error


def test_draws_are_uniform_and_no_more_than_needed() -> None:
    """Severity 1 of small images has no displacements: three points are all that is drawn."""
    assert len(farout.shifts.Elastic(severity=1).sample((3, 32, 32), torch.Generator())["uniform"]) == 6
    uniform = farout.shifts.Elastic(severity=2).sample((3, 30, 32), torch.Generator().manual_seed(0))["uniform"]
    assert len(uniform) == 6 + 2 * 30 * 32
    assert 0 <= float(uniform.min()) <= float(uniform.max()) < 1
    assert abs(float(uniform.mean()) - 0.5) < 4.5 / (12 * len(uniform)) ** 0.5


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("side", [32, 48, 128])
def test_a_flat_image_stays_as_it_is(severity: int, side: int) -> None:
    images = torch.arange(0, 256, 1 if side == 32 else 15).div(255)[:, None, None, None].expand(-1, 1, side, side)
    assert torch.equal(farout.shifts.Elastic(severity=severity)(images), images)
