"""DCGAN: layers and parameters as in the PyTorch example, and trainings that can be killed, repeated and stored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from small_gans import TINY, Stop, images, parameters, stopping
from torch import nn

import farout
from farout.core import NotFitted
from farout.generators import DCGAN
from farout.training import Batch, fit, loop


@pytest.fixture(scope="module")
def trained() -> DCGAN:
    return DCGAN(**TINY).fit(images(), epochs=2, batch=10, seed=3)


@pytest.mark.parametrize(("side", "expected"), [(64, (3_574_656, 2_763_520)), (32, (1_066_880, 661_248))])
def test_parameters_are_those_of_the_example(side: int, expected: tuple[int, int]) -> None:
    model = DCGAN(side=side, channels=1)
    assert (parameters(model.build()), parameters(model.discriminator())) == expected


def test_layers_are_those_of_the_example() -> None:
    """At 64 px and three channels: `nz, ngf, ndf = 100, 64, 64` of the PyTorch example."""
    model = DCGAN(side=64)
    ups = [part for part in model.build().modules() if isinstance(part, nn.ConvTranspose2d)]
    assert [tuple(part.weight.shape) for part in ups] == [
        (100, 512, 4, 4), (512, 256, 4, 4), (256, 128, 4, 4), (128, 64, 4, 4), (64, 3, 4, 4),
    ]  # fmt: skip
    assert [(part.stride[0], part.padding[0]) for part in ups] == [(1, 0)] + [(2, 1)] * 4
    downs = [part for part in model.discriminator().modules() if isinstance(part, nn.Conv2d)]
    assert [tuple(part.weight.shape) for part in downs] == [
        (64, 3, 4, 4), (128, 64, 4, 4), (256, 128, 4, 4), (512, 256, 4, 4), (1, 512, 4, 4),
    ]  # fmt: skip
    kinds = [type(part).__name__ for part in model.discriminator().children()]
    assert kinds[:5] == ["Conv2d", "LeakyReLU", "Conv2d", "BatchNorm2d", "LeakyReLU"], "no norm after the first"
    assert [parameters(part) for part in (model.build(), model.discriminator())] == [3_576_704, 2_765_568]


def test_weights_are_drawn_as_in_the_paper() -> None:
    task = DCGAN(side=32, channels=1).task(images(side=32))
    convolutions = [part for part in task.modules["generator"].modules() if isinstance(part, nn.ConvTranspose2d)]
    norms = [part for part in task.modules["generator"].modules() if isinstance(part, nn.BatchNorm2d)]
    assert convolutions[1].weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert norms[0].weight.mean().item() == pytest.approx(1, abs=0.005)
    assert norms[0].weight.std().item() == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize(("side", "channels"), [(16, 3), (28, 1), (64, 1)])
def test_any_side_and_channels(side: int, channels: int) -> None:
    model = DCGAN(side=side, channels=channels, width=2, dim=3).fit(images(8, side, channels), steps=1, batch=4)
    made = model.sample(3)
    assert made.shape == (3, channels, side, side)
    assert made.dtype == torch.float32
    assert 0 <= made.min() <= made.max() <= 1


def test_padding_is_black_and_cropped_again() -> None:
    model = DCGAN(side=28, channels=1)
    pixels = torch.rand(2, 1, 28, 28)
    padded = model.inputs(pixels)
    assert padded.shape[2:] == (32, 32)
    assert torch.equal(padded[:, :, 2:30, 2:30], pixels * 2 - 1)
    assert (padded[:, :, :2] == -1).all()
    assert (padded[:, :, :, 30:] == -1).all()
    assert torch.allclose(model.pixels(padded), pixels, atol=1e-6)


def test_image_depends_on_seed_and_index_only(trained: DCGAN) -> None:
    many = trained.sample(130, seed=7)
    assert torch.equal(trained.sample(130, seed=7), many)
    for n in (1, 5, 64, 65, 129):
        assert torch.equal(trained.sample(n, seed=7), many[:n])
    assert not torch.equal(trained.sample(4, seed=8), many[:4])
    assert len(many.flatten(1).unique(dim=0)) == 130, "chunks have different latents"
    assert trained.sample(0).shape == (0, 1, 16, 16)


def test_decode_is_differentiable_and_the_same_in_any_batch(trained: DCGAN) -> None:
    z = torch.randn(70, 6, generator=torch.Generator().manual_seed(0))
    decoded = trained.decode(z.requires_grad_())
    assert decoded.shape == (70, 1, 16, 16)
    assert torch.allclose(decoded[66:68], trained.decode(z[66:68]), atol=1e-6)
    decoded.sum().backward()
    assert z.grad is not None
    assert z.grad.abs().sum() > 0
    with pytest.raises(ValueError, match=r"expected latents \[B, 6\], got shape \[2, 5\]"):
        trained.decode(torch.zeros(2, 5))


def test_same_seed_same_weights(trained: DCGAN) -> None:
    again = DCGAN(**TINY).fit(images(), epochs=2, batch=10, seed=3)
    assert again.digest == trained.digest
    assert DCGAN(**TINY).fit(images(), epochs=2, batch=10, seed=4).digest != trained.digest


def test_killed_and_continued_bit_for_bit(trained: DCGAN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    for steps in (2, 3):
        with pytest.raises(Stop):
            DCGAN(**TINY).fit(
                images(), epochs=2, batch=10, seed=3, checkpoint=tmp_path / "file", progress=stopping(steps)
            )
    model = DCGAN(**TINY).fit(images(), epochs=2, batch=10, seed=3, checkpoint=tmp_path / "file")
    assert model.digest == trained.digest
    assert model.history == trained.history


@pytest.mark.parametrize("accumulate", [1, 2])
def test_both_players_see_the_same_generated_images(accumulate: int) -> None:
    """One pass of the generator per turn, as in the PyTorch example; with several passes per step, one for each."""
    task = DCGAN(**TINY).task(images())
    passes: list[bool] = []
    task.modules["generator"].register_forward_hook(lambda _m, _i, output: passes.append(output.requires_grad))
    seen: list[torch.Tensor] = []
    task.modules["discriminator"].register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0]))
    fit(task, images(), task.generator.recipe(steps=2, batch=10, accumulate=accumulate))
    if accumulate == 1:
        assert passes == [True, True]
        assert torch.equal(seen[1], seen[2])
        assert [one.requires_grad for one in seen[:3]] == [False, False, True]
    else:
        assert passes == [False, False, True, True] * 2


def test_reused_images_give_the_same_gradients() -> None:
    """The graph of the discriminator's step gives the gradients of a new pass."""
    task = DCGAN(**TINY).task(images())
    task.to(torch.device("cpu"))
    batch = Batch(images().batch(range(10)), None, torch.arange(10))
    context = SimpleNamespace(recipe=task.generator.recipe(), device=torch.device("cpu"))
    weight = next(task.modules["generator"].parameters())
    gradients = []
    for first in (True, False):
        context.generator = torch.Generator().manual_seed(0)
        if first:
            task.loss("discriminator", batch, context)
        (gradient,) = torch.autograd.grad(task.loss("generator", batch, context), weight)
        gradients.append(gradient)
    assert gradients[0].abs().sum() > 0
    assert torch.allclose(*gradients, atol=1e-7)


@pytest.mark.parametrize("side", [32, 64])
def test_full_preset_trains_and_samples(side: int) -> None:
    model = DCGAN(side=side, channels=3)
    recipe = model.recipe()
    assert (recipe.epochs, recipe.batch, recipe.lr, recipe.betas, recipe.ema) == (100, 64, 2e-4, (0.5, 0.999), None)
    assert (recipe.optimizer, recipe.weight_decay, recipe.schedule, recipe.augment) == ("adam", 0, "constant", ())
    assert model.fit(images(4, side, 3), steps=1, batch=4).sample(2).shape == (2, 3, side, side)


def test_save_and_load(trained: DCGAN, tmp_path: Path) -> None:
    trained.save(tmp_path / "g.safetensors")
    loaded = DCGAN(**TINY).load(tmp_path / "g.safetensors")
    assert loaded.digest == trained.digest
    found = farout.generators.load(tmp_path / "g.safetensors")
    assert found.params == trained.params
    assert torch.equal(found.sample(5, seed=1), trained.sample(5, seed=1))


def test_wrong_files(trained: DCGAN, tmp_path: Path) -> None:
    trained.save(tmp_path / "g.safetensors")
    with pytest.raises(ValueError, match=r"holds dcgan with other settings: width=4 \(expected 8\)"):
        DCGAN(**TINY | {"width": 8}).load(tmp_path / "g.safetensors")
    farout.networks.save_weights(nn.Linear(2, 2), tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="holds no generator"):
        farout.generators.load(tmp_path / "other.safetensors")
    (tmp_path / "text.safetensors").write_text("no")
    with pytest.raises(ValueError, match="damaged"):
        farout.generators.load(tmp_path / "text.safetensors")
    with pytest.raises(FileNotFoundError, match="no generator at"):
        DCGAN(**TINY).load(tmp_path / "none.safetensors")


def test_weights_of_the_task_are_loaded_without_the_discriminator(trained: DCGAN) -> None:
    task = DCGAN(**TINY).task(images(), seed=3)
    fit(task, images(), trained.recipe(epochs=2, batch=10, seed=3))
    model = DCGAN(**TINY)
    model.load_state_dict(task.weights())
    assert model.digest == trained.digest
    with pytest.raises(ValueError, match="do not fit dcgan"):
        DCGAN(**TINY | {"width": 8}).load_state_dict(task.weights())


def test_grid_of_fixed_samples_after_every_epoch(tmp_path: Path) -> None:
    model = DCGAN(**TINY).fit(images(), epochs=2, batch=10, samples=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch_0001.png", "epoch_0002.png"]
    pixels = np.asarray(Image.open(tmp_path / "epoch_0002.png"))
    assert pixels.shape == (128, 128, 3)
    second = model.sample(64)[9, 0].mul(255).round().byte().numpy()
    assert np.array_equal(pixels[16:32, 16:32, 0], second), "row by row, and the last epoch's are the final samples"


def test_monitoring_does_not_change_the_weights(trained: DCGAN, tmp_path: Path) -> None:
    assert DCGAN(**TINY).fit(images(), epochs=2, batch=10, seed=3, samples=tmp_path).digest == trained.digest


def test_it_learns_the_mean_image() -> None:
    model = DCGAN(**TINY).fit(images(200), epochs=12, batch=20, lr=2e-3)
    mean = model.sample(64).mean((0, 1))
    assert mean[:, :8].mean() - mean[:, 8:].mean() > 0.3, "the left half is bright in all training images"


def test_errors() -> None:
    with pytest.raises(NotFitted, match="dcgan is not trained"):
        DCGAN(**TINY).sample(1)
    with pytest.raises(ValueError, match=r"created for images of shape \(1, 16, 16\), 'halves' has \(3, 16, 16\)"):
        DCGAN(**TINY).fit(images(channels=3))
    with pytest.raises(ValueError, match="unknown adversarial loss 'bce'"):
        DCGAN(side=32, loss="bce")
    with pytest.raises(ValueError, match="1 or 3 channels"):
        DCGAN(side=32, channels=2)
    with pytest.raises(ValueError, match="not conditional"):
        DCGAN(**TINY).fit(images(8), steps=1, batch=4).sample(2, labels=[0, 1])
