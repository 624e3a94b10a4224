"""AutoAugment's CIFAR-10 policy: every operation as its formula says, pairs drawn as the policy says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import farout
from farout.shifts.autoaugment import POLICY
from farout.shifts.kernels.pillow_operations import BINS, OPERATIONS, SIGNED, magnitude
from farout.shifts.selection import PUBLISHED

Array = NDArray[Any]
SHIFT = farout.shift("autoaugment_cifar")


def picture(height: int = 20, width: int = 26) -> Array:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def done(name: str, by: float, levels: Array) -> Array:
    return np.asarray(OPERATIONS[name](Image.fromarray(levels), by)).astype(int)


def strengths(name: str, levels: Array) -> list[float]:
    bins = [magnitude(name, bin_, *levels.shape[:2]) for bin_ in range(BINS)]
    return [sign * one for one in bins for sign in ((1, -1) if name in SIGNED else (1,))]


def test_the_magnitudes_of_the_paper() -> None:
    """Cubuk et al. 2019, table 6, in ten bins; translations of 150/331 of the side, in whole pixels."""
    assert [magnitude("posterize", bin_, 32, 32) for bin_ in range(BINS)] == [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    assert [magnitude("translate_x", bin_, 64, 32) for bin_ in range(BINS)] == [0, 1, 3, 4, 6, 8, 9, 11, 12, 14]
    assert magnitude("translate_y", 9, 64, 32) == 29
    ends = {"shear_x": (0, 0.3), "rotate": (0, 30), "color": (0, 0.9), "solarize": (255, 0)}
    for name, (first, last) in ends.items():
        values = [magnitude(name, bin_, 32, 32) for bin_ in range(BINS)]
        np.testing.assert_allclose(values, np.linspace(first, last, BINS), rtol=1e-6)


@pytest.mark.parametrize("name", ["shear_x", "shear_y", "translate_x", "translate_y", "rotate"])
def test_pixels_come_from_the_nearest_place_and_black_from_outside(name: str) -> None:
    levels = picture()
    height, width = levels.shape[:2]
    y, x = np.mgrid[:height, :width] + 0.5
    for by in strengths(name, levels):
        turn = math.radians(by)
        right, down = x - width / 2, y - height / 2
        places = {
            "shear_x": (x + by * y, y),
            "shear_y": (x, y + by * x),
            "translate_x": (x - by, y),
            "translate_y": (x, y - by),
            "rotate": (
                width / 2 + math.cos(turn) * right - math.sin(turn) * down,
                height / 2 + math.sin(turn) * right + math.cos(turn) * down,
            ),
        }
        columns, rows = (np.floor(place).astype(int) for place in places[name])
        inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        expected = np.where(inside[..., None], levels[rows.clip(0, height - 1), columns.clip(0, width - 1)], 0)
        clear = np.logical_and.reduce([abs(place - place.round()) > 0.01 for place in places[name]])
        assert clear.mean() >= 0.8
        np.testing.assert_array_equal(done(name, by, levels)[clear], expected[clear])


def test_signed_magnitudes_turn_and_move_opposite_ways() -> None:
    levels = picture(21, 21)
    for name in ("rotate", "translate_x", "translate_y"):
        by = magnitude(name, 9, 21, 21)
        there, back = done(name, by, levels), done(name, -by, levels[::-1, ::-1])
        if name != "rotate":  # a translation of the turned image is the turned opposite translation
            np.testing.assert_array_equal(there, back[::-1, ::-1])
        assert (there != done(name, -by, levels)).mean() > 0.5


@pytest.mark.parametrize("name", ["brightness", "color", "contrast", "sharpness"])
def test_enhancements_go_from_a_poorer_image_through_the_given_one(name: str) -> None:
    levels = picture()
    real = levels.astype(float)
    gray = np.round(real @ [0.299, 0.587, 0.114])
    around = sum(np.roll(real, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1))
    poorer: dict[str, Any] = {
        "brightness": 0.0,
        "color": gray[..., None],
        "contrast": np.floor(gray.mean() + 0.5),
        "sharpness": (around + 4 * real) / 13,
    }
    for by in strengths(name, levels):
        expected = np.clip(poorer[name] + (1 + by) * (real - poorer[name]), 0, 255)
        difference = abs(done(name, by, levels) - expected)
        assert difference[1:-1, 1:-1].max() < 2, "within the rounding of the poorer image and of the result"
    np.testing.assert_array_equal(done(name, 0.0, levels), levels)


def test_levels_are_cut_inverted_and_solarized() -> None:
    levels = picture()
    for bits in (4, 5, 6, 7, 8):
        np.testing.assert_array_equal(done("posterize", bits, levels), levels >> (8 - bits) << (8 - bits))
    for threshold in strengths("solarize", levels):
        np.testing.assert_array_equal(
            done("solarize", threshold, levels), np.where(levels < threshold, levels, 255 - levels.astype(int))
        )
    np.testing.assert_array_equal(done("invert", 0, levels), 255 - levels.astype(int))


def test_histograms_are_stretched_and_made_equal() -> None:
    levels = (picture() // 3 + 40).astype(np.uint8)
    low, high = levels.min((0, 1)).astype(float), levels.max((0, 1))
    stretched = (levels - low) * 255 / (high - low)
    assert abs(done("auto_contrast", 0, levels) - stretched).max() <= 1
    for channel in range(3):
        values = levels[..., channel]
        counts = np.bincount(values.ravel(), minlength=256)
        step = (values.size - counts[values.max()]) // 255
        table = np.minimum((step // 2 + np.cumsum(counts) - counts) // step, 255)
        np.testing.assert_array_equal(done("equalize", 0, levels)[..., channel], table[values])


def drawn(policy: int, chances: tuple[float, float], negative: tuple[bool, bool]) -> dict[str, torch.Tensor]:
    return {
        "policy": torch.tensor([policy]),
        "chance": torch.tensor([chances]),
        "negative": torch.tensor([negative]),
    }


@pytest.mark.parametrize("policy", range(25))
def test_a_pair_of_operations_one_after_the_other(policy: int) -> None:
    levels = picture(32, 32)
    images = torch.from_numpy(levels).permute(2, 0, 1)[None].div(255)
    first, second = POLICY[policy]
    for both in (True, False):
        below = max(second.probability - 1e-6, 0)
        chances = (first.probability - 1e-6, below if both else second.probability + 1e-6)
        expected = levels
        for step, sign in ((first, -1), (second, 1)) if both else ((first, -1),):
            if step.probability > 0:
                size = magnitude(step.name, step.bin, 32, 32)
                expected = done(step.name, sign * size if step.name in SIGNED else size, expected).astype(np.uint8)
        found = SHIFT.apply(images, drawn(policy, chances, (True, False)))
        np.testing.assert_array_equal(found[0].permute(1, 2, 0).mul(255).round().numpy(), expected)


def test_pairs_chances_and_signs_are_drawn_evenly() -> None:
    rng = torch.Generator().manual_seed(0)
    draws = [SHIFT.sample((3, 32, 32), rng) for _ in range(5000)]
    counts = np.bincount([int(one["policy"]) for one in draws], minlength=25)
    assert len(counts) == 25
    assert abs(counts - 200).max() < 5 * math.sqrt(200)
    chances = torch.stack([one["chance"] for one in draws])
    assert abs(float(chances.mean()) - 0.5) < 5 * math.sqrt(1 / 12 / 10_000)
    assert abs(float(torch.corrcoef(chances.T)[0, 1])) < 5 / math.sqrt(5000)
    assert abs(float(torch.stack([one["negative"] for one in draws]).double().mean()) - 0.5) < 5 * 0.5 / 100


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 33, 20)])
def test_an_image_gets_the_same_bytes_in_any_batch(shape: tuple[int, ...]) -> None:
    images = torch.randint(0, 256, (60, *shape), generator=torch.Generator().manual_seed(1)).div(255)
    before = images.clone()
    whole = SHIFT(images, seed=3)
    parts = [SHIFT(images[i : i + 7], seed=3, indices=range(i, min(i + 7, 60))) for i in range(0, 60, 7)]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(whole, whole.mul(255).round().div(255))
    assert torch.equal(images, before)
    assert not torch.equal(SHIFT(images, seed=4), whole)


@pytest.mark.parametrize("shape", [(0, 3, 32, 32), (40, 1, 1, 1), (40, 3, 2, 5)])
def test_empty_batches_and_tiny_images(shape: tuple[int, ...]) -> None:
    assert SHIFT(torch.full(shape, 0.5)).shape == shape


def test_it_is_known_by_name_and_in_no_published_set() -> None:
    assert "autoaugment_cifar" in farout.shifts.names()
    assert not any("autoaugment_cifar" in names for names in PUBLISHED.values())
