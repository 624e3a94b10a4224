"""The variation "attributes": figures drawn anew from a latent."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

import farout
from farout.core import ImageSet
from farout.data.matched import match
from farout.data.scenes.renderer import draw, extent
from farout.data.scenes.scene import Scenes
from farout.data.scenes.worlds import CHARS, SHAPES
from farout.variations import Attributes

SANS = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
BASE = farout.load("shapes", "val").configurations.scenes[slice(0, 12)]


@pytest.mark.parametrize(("vary", "dim"), [(["hue"], 1), (["rotation"], 3), (["position", "size"], 3)])
def test_one_coordinate_per_number(vary: list[str], dim: int) -> None:
    assert farout.variations.create("attributes", vary=vary).dim == dim


def test_everything_may_vary() -> None:
    assert farout.variations.create("attributes").dim == 11
    assert Attributes.domain == "cube"


def test_a_latent_stands_for_attribute_values() -> None:
    variation = Attributes(vary=["size", "hue", "position"], side=24)
    z = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    place = torch.stack([z[:, 2] / 2 - 0.25, z[:, 3] / 2 - 0.25], 1)
    expected = dataclasses.replace(BASE, size=0.15 + 0.4 * z[:, 0], hue=360 * z[:, 1], position=place)
    assert torch.allclose(variation.decode(z, BASE), draw(expected, 24), atol=1e-5)


def test_letters_have_sizes_of_their_own() -> None:
    chars = farout.load("chars", "val").configurations.scenes[slice(0, 12)]
    mixed = Scenes(**{name: torch.cat([value, chars.columns()[name]]) for name, value in BASE.columns().items()})
    smallest, largest = (Attributes(vary=["size"]).scenes(torch.full((24, 1), z), mixed).size for z in (0.0, 1.0))
    for world, part in ((SHAPES, slice(0, 12)), (CHARS, slice(12, 24))):
        torch.testing.assert_close(smallest[part], torch.full((12,), world.shifted_size[0]))
        torch.testing.assert_close(largest[part], torch.full((12,), world.size[1]))


@pytest.mark.parametrize("name", ["shapes", "chars"])
@pytest.mark.parametrize("split", ["val", "test/ood_cls"])
def test_the_largest_figures_fit_at_any_rotation(name: str, split: str) -> None:
    base = farout.load(name, split).configurations.scenes
    z = torch.rand(len(base), 4, generator=torch.Generator().manual_seed(0))
    z[:, 3] = 1
    assert extent(Attributes(vary=["rotation", "size"]).scenes(z, base)).max() <= 0.5


def test_letters_of_a_font() -> None:
    base = farout.load("chars", "val").configurations.scenes[slice(0, 6)]
    z = torch.rand(6, 1, generator=torch.Generator().manual_seed(0))
    drawn = Attributes(vary=["hue"], side=32, font=str(SANS)).decode(z, base)
    assert torch.equal(drawn, draw(dataclasses.replace(base, hue=360 * z[:, 0]), 32, SANS))
    assert not torch.equal(drawn, Attributes(vary=["hue"], side=32).decode(z, base))


def test_a_font_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no font file at"):
        Attributes(font=tmp_path / "x.ttf")


def test_what_does_not_vary_stays() -> None:
    scenes = Attributes(vary=["lighting"]).scenes(torch.rand(12, 4), BASE)
    for name in ("kind", "hue", "size", "rotation", "position", "aspect", "radii"):
        assert torch.equal(getattr(scenes, name), getattr(BASE, name)), name
    assert not torch.equal(scenes.light, BASE.light)


@pytest.mark.parametrize("vary", [["hue"], ["size"], ["rotation"], ["position"], ["lighting"]])
def test_the_gradient_is_that_of_small_steps(vary: list[str]) -> None:
    """A weighted sum of pixels, against central differences in the direction of the gradient."""
    variation = Attributes(vary=vary, side=48)
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
        Attributes(vary=["hue"]).decode(torch.rand(12, 2), BASE)
    with pytest.raises(ValueError, match=r"unknown attribute to vary: 'hoe'\. Did you mean 'hue'"):
        Attributes(vary=["hoe"])


@pytest.mark.parametrize("vary", [[], "hue", "lighting"])
def test_what_varies_is_a_list(vary: list[str] | str) -> None:
    with pytest.raises(ValueError, match=f"vary must list one or more of hue, size, .*, got {re.escape(repr(vary))}"):
        Attributes(vary=vary)


def test_bases_are_the_scenes_of_drawn_images() -> None:
    shapes = farout.load("shapes", "val", side=24)
    some = shapes.subset(np.arange(100, 200)).limit(50).subset([7, 3])
    variation = Attributes(vary=["hue"]).suited(some.shape)
    scenes = variation.base(some, [1, 0, 1])
    places = torch.tensor([103, 107, 103])
    assert torch.equal(scenes.rotation, shapes.configurations.scenes[places].rotation)
    drawn = variation.decode(scenes.hue[:, None] / 360, scenes)  # their own hue: the images themselves
    assert (drawn - some.batch([1, 0, 1])).abs().max() <= 0.5 / 255 + 1e-5  # which are stored as 8-bit values


def test_the_side_is_that_of_the_data_unless_given() -> None:
    assert Attributes().suited((3, 24, 24)).side == 24
    assert Attributes(side=48).suited((3, 24, 24)).side == 48
    with pytest.raises(ValueError, match="square images of 3 channels, got data of shape \\(1, 28, 28\\)"):
        Attributes().suited((1, 28, 28))
    with pytest.raises(ValueError, match="side of the images to render is not known"):
        Attributes(vary=["hue"]).decode(torch.rand(12, 1), BASE)


def test_images_that_were_not_drawn() -> None:
    photos = ImageSet.from_arrays(np.zeros((4, 3, 32, 32), np.float32), name="photos")
    for images in (photos, match(farout.load("shapes", "val"), (3, 16, 16))):
        with pytest.raises(TypeError, match=f"varies rendered images, got <.*{images.name}"):
            Attributes().base(images, [0])
    with pytest.raises(TypeError, match="varies scenes, got Tensor"):
        Attributes(side=32).decode(torch.rand(4, 11), photos.batch([0, 1, 2, 3]))


def test_letters_are_varied_in_the_font_they_are_drawn_in() -> None:
    images = farout.load("chars", "val", font=str(SANS))
    assert len(Attributes(font=SANS).base(images, [0, 1])) == 2
    with pytest.raises(ValueError, match=r"rendered in the font .*DejaVuSans\.ttf, got font=None"):
        Attributes().base(images, [0, 1])


def test_a_font_is_known_by_its_letters(tmp_path: Path) -> None:
    copy = tmp_path / "copy.ttf"
    copy.write_bytes(SANS.read_bytes())
    assert Attributes(font=copy).identity() == Attributes(font=str(SANS)).identity()
    assert Attributes().identity() != Attributes(font=SANS).identity()
    assert Attributes().identity() != Attributes(vary=["hue"]).identity() != Attributes(vary=["hue"], side=9).identity()
