"""Images brought to another shape: resized as Pillow does, gray by the luma weights, in 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from farout import ImageSet, load
from farout.data.matched import Matched, match


def some(shape: tuple[int, ...], name: str = "some") -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return ImageSet.from_arrays(pixels, np.arange(shape[0]) % 2, name=name)


def levels(images: torch.Tensor) -> np.ndarray:
    """8-bit values [B, C, H, W]; an error where an image has others."""
    values = images.double().numpy() * 255
    np.testing.assert_allclose(values, values.round(), atol=1e-4)
    return values.round().astype(int)


def test_a_set_of_the_right_shape_is_itself() -> None:
    images = some((4, 8, 8, 3))
    assert match(images, (3, 8, 8)) is images
    assert match(images, [3, 8, 8]) is images  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(5, 5), (16, 16), (8, 4), (3, 20)])
def test_images_are_resized_as_pillow_does(size: tuple[int, int]) -> None:
    images = some((3, 8, 8, 3))
    found = match(images, (3, *size)).batch([0, 2])
    for ours, index in zip(found, (0, 2), strict=True):
        for channel, pixels in zip(levels(ours[None])[0], images.batch([index])[0], strict=True):
            theirs = Image.fromarray(pixels.numpy()).resize(size[::-1], Image.Resampling.BILINEAR)
            assert np.abs(channel - np.asarray(theirs) * 255).max() < 0.5 + 1e-3


def test_colors_become_gray_by_luma() -> None:
    images = some((5, 6, 6, 3))
    found = levels(match(images, (1, 6, 6)).batch(range(5)))
    red, green, blue = np.moveaxis(levels(images.batch(range(5))), 1, 0)
    assert np.abs(found[:, 0] - (0.299 * red + 0.587 * green + 0.114 * blue)).max() < 0.5 + 1e-3
    pure = np.zeros((4, 1, 1, 3), np.uint8)
    pure[range(3), 0, 0, range(3)], pure[3] = 255, 255
    assert levels(match(ImageSet.from_arrays(pure), (1, 1, 1)).batch(range(4))).flatten().tolist() == [76, 150, 29, 255]


def test_gray_is_repeated() -> None:
    images = some((5, 6, 6))
    found = match(images, (3, 6, 6)).batch(range(5))
    for channel in range(3):
        assert torch.equal(found[:, channel], images.batch(range(5))[:, 0])


def test_shape_and_channels_change_together() -> None:
    images = some((2, 9, 9, 3))
    gray = match(match(images, (3, 4, 4)), (1, 4, 4)).batch([0, 1])
    assert np.abs(levels(match(images, (1, 4, 4)).batch([0, 1])) - levels(gray)).max() <= 1
    assert match(some((2, 9, 9)), (3, 4, 4)).batch([0]).shape == (1, 3, 4, 4)


def test_flat_images_stay_what_they_are() -> None:
    for level in (0, 1, 127, 254, 255):
        images = ImageSet.from_arrays(np.full((1, 7, 7, 3), level, np.uint8))
        for shape in ((3, 20, 20), (3, 3, 3), (1, 7, 7)):
            found = match(images, shape).batch([0])
            assert (levels(found) == level).all()
            assert torch.equal(found, torch.full_like(found, level) / 255), "the very floats that 8-bit sets give"


def test_order_labels_classes_and_name_are_the_parents() -> None:
    images = load("toy", "val", limit=10, side=16)
    found = match(images, (3, 8, 8))
    assert (len(found), found.name, found.classes, found.shape) == (10, images.name, images.classes, (3, 8, 8))
    assert found.labels is not None
    assert found.labels.tolist() == [i % 4 for i in range(10)]
    torch.testing.assert_close(found.batch([7, 2]), torch.cat(list(found))[[7, 2]], rtol=0, atol=0)


def test_the_fingerprint_follows_parent_and_shape() -> None:
    images = some((4, 8, 8, 3))
    prints = [
        images.fingerprint,
        match(images, (3, 4, 4)).fingerprint,
        match(images, (1, 4, 4)).fingerprint,
        match(images, (3, 4, 5)).fingerprint,
        match(some((5, 8, 8, 3)), (3, 4, 4)).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert Matched(some((4, 8, 8, 3), name="other"), (3, 4, 4)).fingerprint == prints[1]
