"""The variation "affine": images moved as torchvision moves tensors."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from farout.variations import Affine
from helpers.slow_variations import forward_matrix, moved

Interpolation = Literal["nearest", "bilinear"]
SHAPES = [(3, 12, 12), (1, 9, 14), (3, 14, 9)]
STILL = {"rotation": (0, 0), "translation_x": (0, 0), "translation_y": (0, 0), "scale": (1, 1), "shear": (0, 0)}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_it_is_the_definition(shape: tuple[int, int, int], interpolation: Interpolation) -> None:
    base, z = drawn(12, *shape), drawn(12, 5, seed=1)
    images = Affine(interpolation=interpolation).decode(z, base)
    for i, (r, x, y, s, k) in enumerate(z.double().tolist()):
        matrix = forward_matrix(90 * r - 45, (2 * x - 1) * 10 / 32 * shape[2], (2 * y - 1) * 10 / 32 * shape[1],
                                0.9 + 0.6 * s, 60 * k - 30)  # fmt: skip
        expected, clear = moved(base[i].double().numpy(), matrix, interpolation)
        where = clear if interpolation == "nearest" else np.ones_like(clear)
        assert where.mean() > 0.9
        np.testing.assert_allclose(images[i].numpy()[:, where], expected[:, where], atol=1e-5)


def test_whole_pixels_and_quarter_turns_are_exact() -> None:
    base = drawn(4, 3, 16, 16)
    right = Affine(**{**STILL, "translation_x": (0, 0.5)}).decode(torch.tensor([[0.5] * 5] * 4), base)
    assert torch.equal(right[..., 4:], base[..., :-4])
    assert not right[..., :4].any()
    down = Affine(**{**STILL, "translation_y": (0, 0.5)}).decode(torch.tensor([[0.5] * 5] * 4), base)
    assert torch.equal(down[:, :, 4:], base[:, :, :-4])
    assert not down[:, :, :4].any()
    clockwise = Affine(**{**STILL, "rotation": (90, 90)}).decode(drawn(4, 5), base)
    assert torch.equal(clockwise, base.rot90(-1, (2, 3)))
    larger = Affine(**{**STILL, "scale": (2, 2)}).decode(drawn(4, 5), base)
    assert torch.equal(larger, base[:, :, 4:12, 4:12].repeat_interleave(2, 2).repeat_interleave(2, 3))


def test_parameters_that_stay_are_those_of_the_base() -> None:
    base = drawn(4, 3, 11, 8)
    assert torch.equal(Affine(**STILL).decode(drawn(4, 5), base), base)
    torch.testing.assert_close(Affine(**STILL, interpolation="bilinear").decode(drawn(4, 5), base), base)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_every_image_by_its_own_latent(interpolation: Interpolation) -> None:
    base, z, variation = drawn(37, 3, 10, 11), drawn(37, 5, seed=1), Affine(interpolation=interpolation)
    alone = [variation.decode(z[i : i + 1], base[i : i + 1]) for i in range(37)]
    assert torch.equal(variation.decode(z, base), torch.cat(alone))
    assert variation.decode(z[:0], base[:0]).shape == (0, 3, 10, 11)


def test_bilinear_has_gradients_and_nearest_has_none() -> None:
    base = drawn(3, 1, 6, 7).double().requires_grad_()
    z = (0.1 + 0.8 * drawn(3, 5, seed=1)).double().requires_grad_()
    assert torch.autograd.gradcheck(Affine(interpolation="bilinear").decode, (z, base))
    (of_z, of_base) = torch.autograd.grad(Affine().decode(z, base).sum(), (z, base))
    assert not of_z.any()
    assert set(of_base.unique().tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert of_base.any()


def test_white_stays_white_and_within_bounds() -> None:
    images = Affine(interpolation="bilinear").decode(drawn(500, 5), torch.ones(500, 1, 16, 16))
    assert images.min() == 0
    assert images.max() == 1


def test_the_latent_is_clear_about_its_shape() -> None:
    with pytest.raises(ValueError, match=r"expected latents \[2, 5\], got \[2, 4\]"):
        Affine().decode(drawn(2, 4), drawn(2, 3, 8, 8))
    with pytest.raises(
        ValueError, match=r"affine varies images \[B, C, H, W\] with 1 or 3 channels, got shape \[2, 8\]"
    ):
        Affine().decode(drawn(2, 5), drawn(2, 8))
    with pytest.raises(TypeError, match=r"float images in .* got torch.uint8"):
        Affine().decode(drawn(2, 5), torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"got data of shape \(17,\)"):
        Affine().suited((17,))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"rotation": (10, -10)}, r"rotation must be a lowest and a highest value, in this order, got \(10, -10\)"),
        ({"rotation": 10}, "rotation must be a lowest and a highest value, got 10"),
        ({"scale": [0, 1]}, r"scale must be a lowest and a highest value in \[0\.001, inf\]"),
        ({"shear": (-90, 90)}, r"shear must be .* in \[-89, 89\]"),
        ({"translation_x": (0, float("nan"))}, "translation_x must be"),
        ({"interpolation": "bilinar"}, "Did you mean 'bilinear'"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Affine(**settings)


def test_the_identity_is_that_of_the_settings() -> None:
    assert Affine(rotation=[-45, 45]).identity() == Affine().identity()
    assert Affine(rotation=(-44, 45)).identity() != Affine().identity() != Affine(interpolation="bilinear").identity()
