"""The augmentations: pixels where they belong, colors as one pixel at a time, the same bytes in any batch."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import farout
from farout.identity import digest
from farout.registry import UnknownName

Array = NDArray[Any]
NAMES = ["rot90", "rot270", "flip", "random_crop", "color_jitter"]


def pictures(count: int, *shape: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, *shape), generator=rng).div(255)


def levels(images: torch.Tensor) -> Array:
    values = images.double().numpy() * 255
    np.testing.assert_allclose(values, values.round(), atol=1e-4)
    return np.asarray(values.round().astype(int))


@pytest.mark.parametrize("shape", [(3, 6, 6), (1, 5, 5)])
def test_turned_and_mirrored(shape: tuple[int, ...]) -> None:
    """A quarter counter-clockwise: the right edge becomes the top."""
    images = pictures(4, *shape)
    turned, back, flipped = (farout.shift(name)(images) for name in ("rot90", "rot270", "flip"))
    side = shape[-1]
    for y in range(side):
        for x in range(side):
            assert torch.equal(turned[..., y, x], images[..., x, side - 1 - y])
            assert torch.equal(back[..., y, x], images[..., side - 1 - x, y])
            assert torch.equal(flipped[..., y, x], images[..., y, side - 1 - x])


def test_a_flip_of_a_wide_image() -> None:
    images = pictures(2, 3, 4, 9)
    np.testing.assert_array_equal(farout.shift("flip")(images).numpy(), images.numpy()[..., ::-1])


@pytest.mark.parametrize("name", ["rot90", "rot270"])
def test_only_square_images_can_be_turned(name: str) -> None:
    message = f"{name} keeps the shape of images, so it needs square ones, got 4 × 9 pixels; crop or resize them first"
    with pytest.raises(ValueError, match=message):
        farout.shift(name)(pictures(2, 3, 4, 9))


@pytest.mark.parametrize("padding", ["reflect", "zeros"])
@pytest.mark.parametrize(
    ("shape", "pad", "pads"),
    [((3, 32, 32), 1 / 8, (4, 4)), ((1, 17, 40), 1 / 8, (2, 5)), ((3, 3, 2), 1 / 8, (0, 0)), ((3, 5, 7), 0.5, (2, 4))],
)
def test_a_crop_is_a_window_of_the_padded_image(
    padding: str, shape: tuple[int, ...], pad: float, pads: tuple[int, int]
) -> None:
    images, crop = pictures(40, *shape), farout.shift("random_crop", padding=padding, pad=pad)
    modes: dict[str, Any] = {"reflect": {"mode": "reflect"}, "zeros": {"mode": "constant"}}
    (down, right), (height, width) = pads, shape[1:]
    for i, shifted in enumerate(crop(images, seed=2).numpy()):
        drawn = crop._draw(images[i : i + 1], [i], 2)["moved"][0].tolist()
        padded = np.pad(images[i].numpy(), ((0, 0), (down, down), (right, right)), **modes[padding])
        top, left = drawn[0] + down, drawn[1] + right
        assert 0 <= top <= 2 * down
        assert 0 <= left <= 2 * right
        np.testing.assert_array_equal(shifted, padded[:, top : top + height, left : left + width])


def test_all_windows_are_as_likely() -> None:
    """81 places of 32-px images, 4.5 standard errors of a count of 5,000 draws each."""
    crop, rng = farout.shift("random_crop"), torch.Generator().manual_seed(0)
    moved = torch.stack([crop.sample((3, 32, 32), rng)["moved"] for _ in range(5000)]).numpy()
    for column in moved.T:
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == list(range(-4, 5))
        assert np.abs(counts - 5000 / 9).max() < 4.5 * (5000 / 9 * 8 / 9) ** 0.5
    assert abs(np.corrcoef(moved.T)[0, 1]) < 4.5 / 5000**0.5


def jittered(image: Array, brightness: float, contrast: float, saturation: float, hue: float) -> Array:
    """8-bit levels of one image [C, H, W], pixel by pixel."""
    image = np.clip(brightness * image, 0, 1)
    weights = np.array([0.2989, 0.587, 0.114]) if len(image) == 3 else np.ones(1)
    gray = np.tensordot(weights, image, 1)
    image = np.clip(contrast * image + (1 - contrast) * gray.mean(), 0, 1)
    if len(image) == 3:
        gray = np.tensordot(weights, image, 1)
        image = np.clip(saturation * image + (1 - saturation) * gray, 0, 1)
        hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(3, -1).T]
        image = np.array([colorsys.hsv_to_rgb((h + hue) % 1, s, v) for h, s, v in hsv]).T.reshape(image.shape)
    return np.asarray(np.rint(image * 255).astype(int))


@pytest.mark.parametrize("settings", [{}, {"brightness": 2.5, "contrast": 1.5, "saturation": 2, "hue": 0.5}])
@pytest.mark.parametrize("shape", [(3, 16, 16), (3, 9, 13), (1, 16, 11)])
def test_jittered_as_one_pixel_at_a_time(shape: tuple[int, ...], settings: dict[str, float]) -> None:
    images, jitter = pictures(12, *shape), farout.shift("color_jitter", **settings)
    images[:, :, :2] = images[:, :1, :2]  # gray
    shifted = levels(jitter(images))
    factors = jitter.factors(jitter._draw(images, range(12), 0)["uniform"]).tolist()
    for image, fast, one in zip(images.double().numpy(), shifted, factors, strict=True):
        apart = np.abs(fast - jittered(image, *one))
        assert apart.max() <= 1
        assert (apart > 0).mean() < 0.01


def test_factors_reach_from_end_to_end() -> None:
    """From 1 − b, but not below 0, to 1 + b; hue from −h to h."""
    ends = torch.tensor([[0.0] * 4, [0.5] * 4, [1.0] * 4])
    factors = farout.shift("color_jitter", brightness=1.5, hue=0.2).factors(ends)
    expected = [[0, 0.6, 0.6, -0.2], [1.25, 1, 1, 0], [2.5, 1.4, 1.4, 0.2]]
    np.testing.assert_allclose(factors.numpy(), expected, atol=1e-6)


def test_no_jitter_changes_nothing() -> None:
    images = pictures(5, 3, 16, 16)
    assert torch.equal(farout.shift("color_jitter", brightness=0, contrast=0, saturation=0, hue=0)(images), images)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 33, 33), (3, 224, 224), (1, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("name", NAMES)
def test_bytes_depend_on_seed_and_index_alone(name: str, shape: tuple[int, ...]) -> None:
    count = 6 if shape[1] == 224 else 40
    shift, images = farout.shift(name), pictures(count, *shape)
    before, whole = images.clone(), shift(images, seed=4)
    assert torch.equal(images, before)
    assert torch.equal(whole, whole.mul(255).round().clamp(0, 255).div(255))
    for size in (1, 5):
        parts = [slice(i, min(i + size, count)) for i in range(0, count, size)]
        shifted = [shift(images[part], seed=4, indices=range(part.start, part.stop)) for part in parts]
        assert torch.equal(torch.cat(shifted), whole)
    assert torch.equal(shift(images.to(memory_format=torch.channels_last), seed=4), whole)
    assert shift(images[:0]).shape == (0, *shape)


@pytest.mark.parametrize("name", ["random_crop", "color_jitter"])
def test_seed_index_and_settings_draw_anew(name: str) -> None:
    images, shift = pictures(1, 3, 32, 32).expand(4, -1, -1, -1), farout.shift(name)
    shifted = shift(images)
    assert len({digest(image.tolist()) for image in shifted}) == 4
    assert not torch.equal(shift(images, seed=1), shifted)
    assert torch.equal(shift(images[:1], indices=[3])[0], shifted[3])


def test_identities() -> None:
    assert farout.shift("flip").identity() == {"name": "flip", "version": 1}
    expected = {"name": "random_crop", "version": 1, "pad": 0.125, "padding": "reflect"}
    assert farout.shift("random_crop").identity() == expected
    assert farout.shift("color_jitter", hue=0.2).params["hue"] == 0.2
    assert [farout.shift(name).label for name in NAMES] == NAMES


@pytest.mark.parametrize("pad", [0, -0.1, 0.6, float("nan")])
def test_bad_padding(pad: float) -> None:
    with pytest.raises(
        ValueError, match=r"pad of random_crop must be a fraction of the side above 0, at most 0\.5, got"
    ):
        farout.shift("random_crop", pad=pad)
    with pytest.raises(ValueError, match=r"padding of random_crop must be one of .*'reflect', 'zeros'.*, got 'mirror'"):
        farout.shift("random_crop", padding="mirror")


def test_bad_jitter() -> None:
    with pytest.raises(ValueError, match=r"hue of color_jitter must be a number from 0 to 0\.5, got 0\.6"):
        farout.shift("color_jitter", hue=0.6)
    for value in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="contrast of color_jitter must be a number of at least 0, got"):
            farout.shift("color_jitter", contrast=value)
    with pytest.raises(UnknownName, match=r"severity"):
        farout.shift("rot90", severity=1)
