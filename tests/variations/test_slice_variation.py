"""The variation "slice": some coordinates of another one, the others in the middle."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import farout
from farout.variations import Affine, Attributes, Color, Latent, Slice, create


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_what_is_not_free_is_in_the_middle() -> None:
    base, z = drawn(4, 3, 12, 12), drawn(4, 2, seed=1)
    part = Slice(of=Affine(), free=["scale", "rotation"])
    assert (part.dim, part.coordinates, part.label) == (
        2,
        ("scale", "rotation"),
        "scale and rotation of affine, nearest",
    )
    whole = torch.full((4, 5), 0.5)
    whole[:, 3], whole[:, 0] = z[:, 0], z[:, 1]
    assert torch.equal(part.decode(z, base), Affine().decode(whole, base))


@pytest.mark.parametrize("variation", [Affine(), Color()])
def test_coordinates_are_named_in_the_order_of_the_latent(variation: Affine | Color) -> None:
    """A coordinate moves what its name says: with the bounds of all others shut, it alone does anything."""
    base, z = drawn(4, 3, 12, 12), drawn(4, 1, seed=1)
    assert len(variation.coordinates) == variation.dim
    for place, name in enumerate(variation.coordinates):
        shut = {other: (sum(getattr(variation, other)) / 2,) * 2 for other in variation.coordinates if other != name}
        latents = drawn(4, variation.dim, seed=2)
        latents[:, place] = z[:, 0]
        alone = type(variation)(**shut).decode(latents, base)
        torch.testing.assert_close(Slice(of=variation, free=[name]).decode(z, base), alone)


def test_from_names_as_in_a_study() -> None:
    part = create("slice", of={"name": "affine", "interpolation": "bilinear"}, free=["shear"])
    assert part.identity() == Slice(of=Affine(interpolation="bilinear"), free=("shear",)).identity()
    assert part.identity() != Slice(of=Affine(), free=("shear",)).identity()
    assert part.identity() != Slice(of=Affine(interpolation="bilinear"), free=("scale",)).identity()


def test_it_is_suited_and_finds_its_bases() -> None:
    shapes = farout.load("shapes", "val", side=16)
    part = Slice(of=Attributes(vary=["hue", "size"]), free=["z1"]).suited(shapes.shape)
    scenes, z = part.base(shapes, [5, 6]), drawn(2, 1)
    whole = torch.cat([z, torch.full((2, 1), 0.5)], 1)
    assert torch.equal(part.decode(z, scenes), Attributes(vary=["hue", "size"], side=16).decode(whole, scenes))


def test_what_has_no_slice() -> None:
    with pytest.raises(ValueError, match="have slices, and latent has not both"):
        Slice(of=Latent(generator=torch.nn.Identity()), free=["z1"])
    with pytest.raises(ValueError, match=r"unknown coordinate of affine: 'rotate'\. Did you mean 'rotation'"):
        Slice(of="affine", free=["rotate"])
    for wrong in ("rotation", [], ["scale", "scale"]):
        with pytest.raises(ValueError, match="free must list different coordinates of affine"):
            Slice(of="affine", free=wrong)
    with pytest.raises(ValueError, match=r"expected latents \[2, 1\], got \[2, 5\]"):
        Slice(of="affine", free=["scale"]).decode(drawn(2, 5), drawn(2, 3, 8, 8))
