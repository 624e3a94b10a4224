"""Training and sampling of BigGAN: settings of the scripts, hinge, standing statistics, resumption and classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conditional_gans import batch_of, context, images
from small_gans import Stop, parameters, stopping
from torch import nn

import farout
from farout.generators import DCGAN, BigGAN, Pix2Pix, StyleGAN2
from farout.generators.biggan import model as model_file
from farout.generators.biggan.layers import orthogonal_penalty
from farout.generators.biggan.standing import estimate_statistics
from farout.generators.gan import Gan
from farout.training import fit, loop
from farout.training.players import create_players

TINY: dict[str, Any] = {"side": 16, "channels": 1, "width": 2, "dim": 6, "classes": 2}
OPTIONS: dict[str, Any] = {**TINY, "shared": 3, "attention": 8, "orthogonal": 1e-3, "discriminator_steps": 2}


@pytest.fixture(scope="module")
def trained() -> BigGAN:
    return BigGAN(**OPTIONS).fit(images(), epochs=2, batch=5, ema=0.9, ema_start=2, seed=3)


# The scripts


def test_settings_of_the_scripts() -> None:
    small, large = BigGAN(side=28, channels=1), BigGAN(side=128, classes=1000)
    names = ("width", "dim", "shared", "attention", "discriminator_steps", "orthogonal", "loss")
    assert [getattr(small, name) for name in names] == [64, 128, 0, 0, 4, 0, "hinge"]
    assert [getattr(large, name) for name in names] == [96, 120, 128, 64, 1, 0, "hinge"]
    names = ("batch", "accumulate", "lr", "betas", "eps", "ema", "ema_start", "ema_buffers", "augment")
    recipe = small.recipe()
    assert [getattr(recipe, name) for name in names] == [
        50, 1, 2e-4, (0.0, 0.999), 1e-8, 0.9999, 1_000, "average", (),
    ]  # fmt: skip
    recipe = large.recipe()
    assert [getattr(recipe, name) for name in names] == [
        256, 8, 1e-4, (0.0, 0.999), 1e-6, 0.9999, 20_000, "average", (),
    ]  # fmt: skip
    assert BigGAN(side=32).recipe().total_steps(50_000 // 200) == 25_000, "generator steps of the paper on CIFAR-10"


@pytest.mark.parametrize(
    ("model", "recipe", "expected"),
    [
        (BigGAN(side=32), {}, (2e-4, 2e-4)),
        (BigGAN(side=128), {}, (1e-4, 4e-4)),
        (BigGAN(side=128), {"lr": 2e-5}, (2e-5, 8e-5)),
        (BigGAN(side=128, discriminator_lr=1e-3), {"lr": 2e-5}, (2e-5, 1e-3)),
        (StyleGAN2(side=32), {}, (0.002, 0.0025 * 16 / 17)),
        (StyleGAN2(side=32), {"lr": 0.004}, (0.004, 2 * 0.0025 * 16 / 17)),
        (DCGAN(side=32), {"lr": 1e-3}, (1e-3, 1e-3)),
        (Pix2Pix(side=32), {"lr": 1e-3}, (1e-3, 1e-3)),
    ],
)
def test_learning_rates_of_both_players(model: Gan, recipe: Any, expected: tuple[float, float]) -> None:
    """The preset's values to the last digit; a rate that is passed to `fit` changes both."""
    task = model.task_type(model.with_module(nn.Linear(1, 1)), nn.Linear(1, 1), farout.generators.Objective())
    players = create_players(task, "", model.recipe(**recipe), torch.device("cpu"))
    found = {one.player.name: one.recipe.lr for one in players}
    assert (found["generator"], found["discriminator"]) == expected


EIGHT_CLASSES = 8 * (3 * 2 * 2 * 256), 8 * 256
"""Weights of eight classes: gains and biases of two norms of three blocks, and the projection."""
MOST_CLASSES = 998 * 128, 998 * 1536
"""Weights of 998 classes: the shared embedding, and the projection."""


@pytest.mark.parametrize(
    ("side", "expected", "missing"),
    [
        (32, (4_304_387, 4_207_361), EIGHT_CLASSES),
        pytest.param(128, (70_433_988, 87_982_370), MOST_CLASSES, marks=pytest.mark.slow),
    ],
)
def test_the_full_model_trains_and_samples(
    side: int, expected: tuple[int, int], missing: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts' models, with two classes instead of 10 and 1,000."""
    monkeypatch.setattr(model_file, "BATCHES", 1)
    monkeypatch.setattr(model_file, "SIZE", 2)
    data, model = images(8, side, 3), BigGAN(side=side, classes=2)
    task = model.task(data)
    counts = [parameters(task.modules[name]) for name in ("generator", "discriminator")]
    assert counts == [count - less for count, less in zip(expected, missing, strict=True)]
    fit(task, data, model.recipe(steps=1, batch=2, accumulate=1))
    model.load_state_dict(task.weights())
    made = model.decode(torch.zeros(1, model.dim), torch.tensor([1]))
    assert made.shape == (1, 3, side, side)
    assert made.isfinite().all()


def test_weights_are_drawn_as_in_the_scripts() -> None:
    torch.manual_seed(0)
    small = BigGAN(side=32).build()
    originals = [value for name, value in small.named_parameters() if value.ndim > 1]
    assert len(originals) == 2 + 3 * (3 + 4)
    for weight in originals:
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    large = BigGAN(side=64, width=2, classes=3).build()
    for weight in (value.flatten(1) for value in large.parameters() if value.ndim > 1):
        gram = weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
        torch.testing.assert_close(gram, torch.eye(len(gram)), atol=1e-5, rtol=0)


# Losses


def test_hinge_losses_with_labels() -> None:
    model, data = BigGAN(**TINY), images()
    task, batch = model.task(data), batch_of(data, 8)
    generator, discriminator = task.modules["generator"], task.modules["discriminator"].eval()
    draws = context(model).generator
    z = torch.randn(8, 6, generator=draws)
    labels = torch.randint(2, (8,), generator=draws)
    logits = discriminator(generator(z, labels), labels)
    real = discriminator(batch.images * 2 - 1, batch.labels)
    for _ in range(200):  # the spectral norms of the generator converge
        generator(z, labels)
    logits = discriminator(generator(z, labels), labels)
    torch.testing.assert_close(task.loss("generator", batch, context(model)), -logits.mean())
    expected = F.relu(1 - real).mean() + F.relu(1 + logits).mean()
    torch.testing.assert_close(task.loss("discriminator", batch, context(model)), expected)


def test_the_orthogonal_penalty_leaves_out_the_shared_embedding() -> None:
    data, penalized = images(), BigGAN(**OPTIONS)
    plain = BigGAN(**OPTIONS | {"orthogonal": 0.0})
    tasks = [model.task(data) for model in (penalized, plain)]
    losses = [task.loss("generator", batch_of(data, 8), context(plain)) for task in tasks]
    weights = [v for k, v in tasks[0].modules["generator"].named_parameters() if v.ndim > 1 and k != "embedding.weight"]
    torch.testing.assert_close(losses[0] - losses[1], 1e-3 * orthogonal_penalty(weights))


def test_one_power_iteration_per_step_of_the_discriminator() -> None:
    data = images()
    task = BigGAN(**TINY).task(data)
    weight = task.modules["discriminator"].linear.parametrizations.weight  # type: ignore[union-attr]
    before, original = weight[0].u.clone(), weight.original.detach()
    task.loss("discriminator", batch_of(data, 8), context(BigGAN(**TINY)))
    once = F.normalize(original @ F.normalize(original.T @ before, dim=0), dim=0)
    torch.testing.assert_close(weight[0].u, once)


# Standing statistics


def test_standing_statistics_are_means_over_the_batches() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop = nn.BatchNorm2d(2), nn.Dropout()

        def forward(self, z: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
            out: torch.Tensor = self.drop(self.norm(z))
            return out

    network = Two()
    network.norm.running_mean.fill_(9.0)  # type: ignore[union-attr]
    batches = [torch.randn(5, 2, 3, 3) + shift for shift in (0.0, 1.0, 5.0)]
    estimate_statistics(network, ((batch, None) for batch in batches))
    torch.testing.assert_close(network.norm.running_mean, torch.stack([b.mean((0, 2, 3)) for b in batches]).mean(0))
    torch.testing.assert_close(network.norm.running_var, torch.stack([b.var((0, 2, 3)) for b in batches]).mean(0))
    assert not any(part.training for part in network.modules())
    assert network.norm.momentum == 0.1


def test_samples_are_standardized_by_the_statistics_of_their_own_weights(trained: BigGAN) -> None:
    network = trained.fitted
    norm = network.norm
    inputs: list[torch.Tensor] = []
    handle = norm.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))  # type: ignore[operator]
    trained.sample(640)
    handle.remove()
    seen = torch.cat(inputs)
    torch.testing.assert_close(norm.running_mean, seen.mean((0, 2, 3)), atol=0.1, rtol=0.1)  # type: ignore[arg-type]


# Training


def test_killed_and_continued_bit_for_bit(trained: BigGAN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    settings: dict[str, Any] = {"epochs": 2, "batch": 5, "ema": 0.9, "ema_start": 2, "seed": 3}
    for steps in (2, 3):
        with pytest.raises(Stop):
            BigGAN(**OPTIONS).fit(images(), **settings, checkpoint=tmp_path / "file", progress=stopping(steps))
    model = BigGAN(**OPTIONS).fit(images(), **settings, checkpoint=tmp_path / "file")
    assert model.digest == trained.digest
    assert BigGAN(**OPTIONS).fit(images(), **settings, samples=tmp_path / "grids").digest == trained.digest
    assert BigGAN(**OPTIONS).fit(images(), **settings | {"seed": 4}).digest != trained.digest


def test_it_learns_the_classes() -> None:
    model = BigGAN(**TINY | {"width": 4})
    model.fit(images(64), epochs=25, batch=16, lr=2e-3, ema=0.9, ema_start=0)
    means = [model.sample(32, labels=[label] * 32).mean((0, 1)) for label in (0, 1)]
    assert means[0][:, :7].mean() - means[0][:, 9:].mean() > 0.3, "the left half is bright"
    assert means[1][:, 9:].mean() - means[0][:, 9:].mean() > 0.2, "the right half is brighter in class 1"


# Sampling


def test_an_image_depends_on_its_latent_and_its_label_only(trained: BigGAN, tmp_path: Path) -> None:
    many, labels = trained.sample(70, seed=7), trained.labels(70, seed=7)
    assert labels is not None
    assert set(labels.tolist()) == {0, 1}
    assert torch.equal(trained.sample(65, seed=7), many[:65])
    torch.testing.assert_close(trained.sample(70, seed=7, labels=labels.numpy()), many)
    z = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(trained.decode(z, labels[:3])[1:2], trained.decode(z[1:2], labels[1:2]))
    with pytest.raises(ValueError, match="2 classes: pass the labels"):
        trained.decode(z)
    trained.save(tmp_path / "g.safetensors")
    assert torch.equal(farout.generators.load(tmp_path / "g.safetensors").sample(3), trained.sample(3))


def test_without_classes() -> None:
    model = BigGAN(**TINY | {"classes": 0}).fit(images(20), steps=1, batch=4)
    assert model.labels(3) is None
    assert model.decode(torch.zeros(2, 6)).shape == (2, 1, 16, 16)
    with pytest.raises(ValueError, match="not conditional"):
        model.sample(1, labels=[0])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"classes=10 needs images of every label from 0 to 9, 'halves' has 2 labels"):
        BigGAN(side=16, channels=1).task(images())
    with pytest.raises(ValueError, match="expected a side up to 512, got 1024"):
        BigGAN(side=1024)
