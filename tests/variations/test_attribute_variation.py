"""The variation "attributes": figures drawn anew from a latent."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import farout
from farout.data.scenes.renderer import draw
from farout.variations import AttributeVariation

BASE = farout.load("shapes", "val").configurations.scenes[slice(0, 12)]


@pytest.mark.parametrize(
    ("vary", "dim"), [(["hue"], 1), (["rotation"], 3), (["position", "size"], 3), (list("x")[:0], 0)]
)
def test_one_coordinate_per_number(vary: list[str], dim: int) -> None:
    if not vary:
        with pytest.raises(ValueError, match="vary must list one or more of hue, size"):
            AttributeVariation(vary)
        return
    assert farout.variations.create("attributes", vary=vary).dim == dim


def test_everything_may_vary() -> None:
    assert farout.variations.create("attributes").dim == 11
    assert AttributeVariation.domain == "cube"


def test_a_latent_stands_for_attribute_values() -> None:
    variation = AttributeVariation(["size", "hue", "position"], side=24)
    z = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    place = torch.stack([z[:, 2] / 2 - 0.25, z[:, 3] / 2 - 0.25], 1)
    expected = dataclasses.replace(BASE, size=0.15 + 0.4 * z[:, 0], hue=360 * z[:, 1], position=place)
    assert torch.allclose(variation.decode(z, BASE), draw(expected, 24), atol=1e-5)


def test_what_does_not_vary_stays() -> None:
    scenes = AttributeVariation(["lighting"]).scenes(torch.rand(12, 4), BASE)
    for name in ("kind", "hue", "size", "rotation", "position", "aspect", "radii"):
        assert torch.equal(getattr(scenes, name), getattr(BASE, name)), name
    assert not torch.equal(scenes.light, BASE.light)


@pytest.mark.parametrize("vary", [["hue"], ["size"], ["rotation"], ["position"], ["lighting"]])
def test_the_gradient_is_that_of_small_steps(vary: list[str]) -> None:
    """A weighted sum of pixels, against central differences in the direction of the gradient."""
    variation = AttributeVariation(vary, side=48)
    rng = torch.Generator().manual_seed(3)
    weights = torch.rand(12, 3, 48, 48, generator=rng)

    def value(z: torch.Tensor) -> torch.Tensor:
        return (variation.decode(z, BASE).double() * weights).sum()

    z = (0.3 + 0.4 * torch.rand(12, variation.dim, generator=rng)).requires_grad_()
    (gradient,) = torch.autograd.grad(value(z), z)
    direction, step = gradient / gradient.norm(), 2e-3
    with torch.no_grad():
        slope = (value(z + step * direction) - value(z - step * direction)) / (2 * step)
    assert slope.item() == pytest.approx(gradient.norm().item(), rel=0.1)


def test_wrong_latents_and_names() -> None:
    with pytest.raises(ValueError, match=r"expected latents \[12, 1\], got \[12, 2\]"):
        AttributeVariation(["hue"]).decode(torch.rand(12, 2), BASE)
    with pytest.raises(ValueError, match=r"unknown attribute to vary: 'hoe'\. Did you mean 'hue'"):
        AttributeVariation(["hoe"])
