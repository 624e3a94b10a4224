"""The variations "pixel" and "latent"."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import farout
from farout.variations import Latent, Pixel, create
from farout.variations.space import Space


def drawn(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def on_sphere(count: int) -> Tensor:
    return Space(6, "sphere").uniform(count, torch.Generator().manual_seed(0))


class Generator(nn.Module):
    """Behaves another way in training, and changes its statistics there."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, channels * 16), nn.BatchNorm1d(channels * 16), nn.Dropout(0.5))
        self.shape = (channels, 4, 4)

    def forward(self, z: Tensor) -> Tensor:
        made: Tensor = self.layers(z).sigmoid().unflatten(1, self.shape)
        return made


def test_pixel_is_a_box_about_the_image() -> None:
    base = torch.tensor([0.0, 0.4, 0.995, 1.0]).view(1, 1, 2, 2).repeat(3, 1, 1, 1)
    z = torch.tensor([[0.0], [0.5], [1.0]]).expand(-1, 4)
    variation = Pixel(radius=0.1).suited((1, 2, 2))
    expected = torch.tensor([[0, 0.3, 0.895, 0.9], [0, 0.4, 0.995, 1], [0.1, 0.5, 1, 1]])
    torch.testing.assert_close(variation.decode(z, base).flatten(1), expected)
    assert variation.dim == 4
    assert variation.space == Space(4)
    assert Pixel().radius == 0.01


def test_every_coordinate_moves_its_own_value() -> None:
    base, z = torch.full((1, 3, 4, 5), 0.5), torch.full((1, 60), 0.5)
    z[0, 1 * 20 + 2 * 5 + 3] = 1
    moved = Pixel().suited((3, 4, 5)).decode(z, base) - base
    assert moved.nonzero().tolist() == [[0, 1, 2, 3]]
    assert moved.max().item() == pytest.approx(0.01, abs=1e-7)


def test_pixel_has_gradients() -> None:
    base = drawn(2, 1, 2, 3).double().mul(0.9).add(0.05)
    z = drawn(2, 6).double()
    assert torch.autograd.gradcheck(Pixel(shape=(1, 2, 3)).decode, (z.requires_grad_(), base.requires_grad_()))


def test_pixel_without_a_shape_or_with_another() -> None:
    with pytest.raises(ValueError, match=r"its shape is not known: use suited\(\(C, H, W\)\)"):
        _ = Pixel().dim
    with pytest.raises(ValueError, match=r"images of shape \(3, 2, 2\), got \(1, 2, 2\)"):
        Pixel(shape=(3, 2, 2)).decode(drawn(1, 12), drawn(1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"expected latents \[1, 12\], got \[1, 4\]"):
        Pixel(shape=(3, 2, 2)).decode(drawn(1, 4), drawn(1, 3, 2, 2))
    with pytest.raises(ValueError, match=r"radius must be in \(0, 1\], got 0"):
        Pixel(radius=0)


def test_latent_decodes_in_evaluation_mode_and_changes_nothing() -> None:
    generator = Generator()
    generator.layers[1].eval()  # one part is in another mode than the others
    before = {name: value.clone() for name, value in generator.state_dict().items()}
    variation, z = Latent(generator=generator, dim=6), on_sphere(5)
    images = variation.decode(z, None)
    assert [part.training for part in generator.modules()] == [True, True, True, False, True]
    assert all(torch.equal(value, before[name]) for name, value in generator.state_dict().items())
    assert torch.equal(images, generator.eval()(z))
    assert torch.equal(images, Latent(generator=generator.train().forward, dim=6).decode(z))
    assert variation.space == Space(6, "sphere")
    assert not variation.conditional


def test_latent_has_gradients() -> None:
    z = on_sphere(2).requires_grad_()
    generator = Generator().eval()
    (expected,) = torch.autograd.grad(generator(z).square().sum(), z)
    (found,) = torch.autograd.grad(Latent(generator=generator, dim=6).decode(z).square().sum(), z)
    assert torch.equal(found, expected)
    assert found.any()


def test_the_generator_is_part_of_the_identity() -> None:
    generator = Generator()
    variation = Latent(generator=generator, dim=6)
    before = variation.identity()
    assert variation.identity() == before
    with torch.no_grad():
        generator.layers[0].bias[0] += 1
    assert variation.identity() != before


def one(z: Tensor) -> Tensor:
    return z.sigmoid().view(-1, 1, 2, 2)


def other(z: Tensor) -> Tensor:
    return 1 - z.sigmoid().view(-1, 1, 2, 2)


def test_functions_are_told_by_their_source() -> None:
    assert Latent(generator=one, dim=4).identity() == Latent(generator=one, dim=4).identity()
    assert Latent(generator=one, dim=4).identity() != Latent(generator=other, dim=4).identity()


def test_the_images_must_be_such() -> None:
    z = on_sphere(3)
    with pytest.raises(ValueError, match=r"values from -.* to .*; if its images lie in \[-1, 1\]"):
        Latent(generator=lambda z: z.tanh()[:, :1, None, None].neg().abs().neg(), dim=6).decode(z)
    with pytest.raises(ValueError, match=r"got shape \(3, 6\)"):
        Latent(generator=lambda z: z.sigmoid(), dim=6).decode(z)
    with pytest.raises(ValueError, match="3 NaN"):
        Latent(generator=lambda z: (z[:, :1, None, None] * 0).log().mul(0), dim=6).decode(z)
    with pytest.raises(ValueError, match="returned 1 images for 3 latents"):
        Latent(generator=lambda z: torch.zeros(1, 3, 2, 2), dim=6).decode(z)
    with pytest.raises(ValueError, match=r"expected latents \[3, 64\], got \[3, 6\]"):
        Latent(generator=Generator()).decode(z)


def test_the_generator_is_checked() -> None:
    assert Latent(generator=Generator(), dim=6).suited((3, 4, 4)).dim == 6
    with pytest.raises(ValueError, match=r"makes images of shape \(1, 4, 4\), expected \(3, 4, 4\)"):
        Latent(generator=Generator(1), dim=6).suited((3, 4, 4))
    with pytest.raises(FileNotFoundError, match=r"no generator at gan\.pt"):
        create("latent", generator="gan.pt")
    with pytest.raises(ValueError, match="dim must be a whole number of at least 2, got 1"):
        Latent(generator=Generator(), dim=1)


def test_latent_of_a_generator_object(tmp_path: Path) -> None:
    train = farout.load("toy", "train", limit=64)
    generator = farout.generators.create("dcgan", 32, width=4, dim=4).fit(train, epochs=1, batch=32)
    latent = Latent(generator=generator)
    z = torch.nn.functional.normalize(torch.randn(3, 4))
    assert latent.dim == 4
    assert torch.equal(latent.decode(z), generator.decode(2 * z)), "scaled to the length √4 of a normal latent"
    generator.save(tmp_path / "gan.safetensors")
    read = create("latent", generator=str(tmp_path / "gan.safetensors"))
    assert torch.equal(read.decode(z), latent.decode(z))
    assert read.identity() == latent.identity()
    other = farout.generators.create("dcgan", 32, width=4, dim=4).fit(train, epochs=1, batch=32, seed=1)
    assert Latent(generator=other).identity() != latent.identity()


def test_latent_of_a_described_generator_needs_a_study() -> None:
    latent = create("latent", generator={"name": "dcgan", "train": {"epochs": 1}})
    assert latent.described
    assert latent.suited((3, 32, 32)) is latent
    with pytest.raises(ValueError, match="dcgan is not trained: a study trains it"):
        latent.decode(torch.zeros(1, 64))
