"""The variation "composed", and variations of the user's own."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import farout
from farout.plugins import load_plugin
from farout.variations import Affine, Attributes, Color, Composed, Latent, Pixel, create


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_one_after_the_other() -> None:
    base, z = drawn(4, 3, 12, 12), drawn(4, 9, seed=1)
    both = Composed(of=[Affine(), Color(hue=(-0.1, 0.1))])
    assert both.dim == 9
    assert torch.equal(both.decode(z, base), Color(hue=(-0.1, 0.1)).decode(z[:, 5:], Affine().decode(z[:, :5], base)))
    turned = Composed(of=[Color(hue=(-0.1, 0.1)), Affine()])
    assert not torch.equal(turned.decode(torch.cat([z[:, 5:], z[:, :5]], 1), base), both.decode(z, base))


def test_from_names_as_in_a_study() -> None:
    made = create("composed", of=["affine", {"name": "color", "hue": [-0.1, 0.1]}])
    assert made.identity() == Composed(of=[Affine(), Color(hue=(-0.1, 0.1))]).identity()
    assert made.identity() != Composed(of=[Color(hue=(-0.1, 0.1)), Affine()]).identity()
    assert made.identity() != Composed(of=[Affine(), Color()]).identity()


def test_parts_are_suited_and_find_their_bases() -> None:
    shapes = farout.load("shapes", "val", side=16)
    both = Composed(of=[Attributes(vary=["hue"]), Pixel(radius=0.05)]).suited(shapes.shape)
    assert both.dim == 1 + 3 * 16 * 16
    scenes, z = both.base(shapes, [5, 6]), drawn(2, both.dim)
    plain = Attributes(vary=["hue"], side=16).decode(z[:, :1], scenes)
    assert torch.equal(both.decode(z, scenes), Pixel(radius=0.05, shape=(3, 16, 16)).decode(z[:, 1:], plain))


def test_what_cannot_be_composed() -> None:
    with pytest.raises(ValueError, match=r"can be composed, and latent is on the sphere"):
        Composed(of=[Latent(generator=torch.nn.Identity()), Affine()])
    with pytest.raises(ValueError, match="of must list two or more variations, got 'affine'"):
        Composed(of="affine")
    with pytest.raises(ValueError, match="of must list two or more"):
        Composed(of=[Affine()])
    with pytest.raises(ValueError, match=r"unknown variation 'afine'\. Did you mean 'affine'"):
        Composed(of=["afine", "color"])
    with pytest.raises(ValueError, match=r"expected a variation, its name, or a mapping .* got 3"):
        Composed(of=[3, "color"])
    with pytest.raises(ValueError, match=r"expected latents \[2, 9\], got \[2, 5\]"):
        Composed(of=["affine", "color"]).decode(drawn(2, 5), drawn(2, 3, 8, 8))


OWN = """
    import dataclasses
    import torch
    from farout import Variation

    @dataclasses.dataclass(kw_only=True)
    class Wave(Variation):
        dim = 2
        length: int = 8

        def decode(self, z, base):
            time = torch.linspace(0, 1, self.length)
            return base + z[:, :1] * torch.sin(6.28 * (time + z[:, 1:]))
"""


def own(path: Path, source: str = OWN) -> Any:
    path.write_text(textwrap.dedent(source))
    return load_plugin(path).Wave


def test_a_variation_of_ones_own(tmp_path: Path) -> None:
    wave = own(tmp_path / "wave.py")()
    base = torch.zeros(3, 8)
    z = torch.tensor([[0.0, 0.3], [1.0, 0.0], [0.5, 0.25]])
    expected = z[:, :1] * torch.sin(6.28 * (torch.arange(8) / 7 + z[:, 1:]))
    torch.testing.assert_close(wave.decode(z, base), expected)
    assert (wave.name, wave.dim, wave.domain, wave.conditional) == ("Wave", 2, "cube", True)
    assert wave.space.uniform(5, torch.Generator().manual_seed(0)).shape == (5, 2)
    assert wave.suited((8,)) is wave


def test_its_identity_is_its_source_and_settings(tmp_path: Path) -> None:
    first = own(tmp_path / "first.py")
    assert first().identity() == own(tmp_path / "again.py")().identity()
    assert first().identity() != first(length=9).identity()
    assert first().identity() != own(tmp_path / "other.py", OWN.replace("6.28", "6.29"))().identity()


def test_one_without_fields_is_told_by_what_it_holds() -> None:
    assert Offset(1.0).identity() == Offset(1.0).identity() != Offset(2.0).identity()
    both = Composed(of=[Offset(0.1), Offset(0.2)])
    z = drawn(2, 2)
    torch.testing.assert_close(both.decode(z, torch.zeros(2, 1)), 0.1 * z[:, :1] + 0.2 * z[:, 1:])
    assert both.identity() != Composed(of=[Offset(0.2), Offset(0.1)]).identity()


class Offset(farout.Variation):
    """A number is added to rows of a table."""

    dim = 1

    def __init__(self, most: float) -> None:
        self.most = most

    def decode(self, z: Tensor, base: Tensor) -> Tensor:
        return base + self.most * z


@pytest.mark.parametrize(
    "variation", [Affine(), Affine(interpolation="bilinear"), Color(), Pixel(shape=(3, 6, 6))], ids=repr
)
def test_no_tensor_is_made_on_the_default_device(variation: farout.Variation) -> None:
    base, z = drawn(4, 3, 6, 6), drawn(4, variation.dim, seed=1)
    expected = variation.decode(z, base)
    with torch.device("meta"):
        assert torch.equal(variation.decode(z, base), expected)


@pytest.mark.parametrize(
    "made", [Affine(), Color(), Pixel(shape=(3, 2, 2)), Attributes(), Composed(of=["affine", "color"])]
)
def test_variations_are_plain_data(made: Any) -> None:
    assert dataclasses.is_dataclass(made)
    assert made == dataclasses.replace(made)
    with pytest.raises(TypeError, match="positional"):
        type(made)(1)
