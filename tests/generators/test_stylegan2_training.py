"""Training and sampling of StyleGAN2: turns of the players, penalties, resumption, fixed noise and truncation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conditional_gans import batch_of, context, images
from small_gans import Stop, parameters, stopping
from torch import nn

import farout
from farout.core import ImageSet
from farout.generators import StyleGAN2
from farout.generators.stylegan2.model import StyleGAN2Task
from farout.generators.stylegan2.synthesis import StyleNetwork
from farout.training import fit, loop

TINY: dict[str, Any] = {"side": 16, "channels": 1, "width": 8, "style": 8, "dim": 6}
OPTIONS: dict[str, Any] = {**TINY, "path_length": 2.0, "mixing": 0.9, "residual": True, "group": 4, "classes": 2}


@pytest.fixture(scope="module")
def trained() -> StyleGAN2:
    return StyleGAN2(**OPTIONS).fit(images(), steps=5, batch=10, seed=3)


# The public configuration


def test_recipe_of_the_public_configuration() -> None:
    recipe = StyleGAN2(side=32).recipe()
    assert (recipe.steps, recipe.batch, recipe.augment, recipe.weight_decay) == (200_000, 64, (), 0.0)
    assert (recipe.lr, recipe.betas, recipe.eps) == (0.002, (0.0, 0.99**0.8), 1e-8)
    assert (recipe.ema, recipe.ema_ramp, recipe.ema_buffers) == (0.5 ** (64 / 5e5), 0.05, "copy")
    assert StyleGAN2(side=32).recipe(batch=16, ema_ramp=0.1).ema == 0.5 ** (16 / 5e5), "half-life in images"
    large = StyleGAN2(side=128).recipe()
    assert (large.batch, large.ema, large.ema_ramp) == (256, 0.5 ** (256 / 2e4), 0.0)


def test_settings_by_side() -> None:
    names = ("r1", "path_length", "mixing", "residual", "group")
    assert [getattr(StyleGAN2(side=28), name) for name in names] == [0.01, 0, 0, False, 32]
    assert [getattr(StyleGAN2(side=64), name) for name in names] == [0.2048, 2, 0.9, True, 8]
    assert StyleGAN2(side=64, mixing=0.0, residual=False).params["residual"] is False


def test_players_of_both_configurations() -> None:
    def players(model: StyleGAN2) -> list[tuple[str, int, str]]:
        task = StyleGAN2Task(model.with_module(nn.Linear(1, 1)), nn.Linear(1, 1), farout.generators.Objective())
        return [(one.name, one.every, one.shares) for one in task.players("")]

    r1 = ("r1", 16, "discriminator")
    assert players(StyleGAN2(side=32)) == [("generator", 1, ""), ("discriminator", 1, ""), r1]
    lazy = [("generator", 1, ""), ("path_length", 4, "generator"), ("discriminator", 1, ""), r1]
    assert players(StyleGAN2(side=64)) == lazy
    assert [name for name, *_ in players(StyleGAN2(side=32, r1=0.0))] == ["generator", "discriminator"]


@pytest.mark.parametrize("side", [32, pytest.param(128, marks=pytest.mark.slow)])
def test_the_full_model_trains_and_samples(side: int) -> None:
    model = StyleGAN2(side=side)
    task = model.task(images(2, side, 3))
    counts = [parameters(task.modules[name]) for name in ("generator", "discriminator")]
    assert side > 32 or counts == [19_718_163, 20_720_641]
    fit(task, images(2, side, 3), model.recipe(steps=1, batch=2))
    model.load_state_dict(task.weights())
    made = model.decode(torch.ones(1, 64))
    assert made.shape == (1, 3, side, side)
    assert made.isfinite().all()


# Losses


def test_losses_of_the_players() -> None:
    model, data = StyleGAN2(**TINY, r1=0.3), images()
    task, batch = model.task(data), batch_of(data, 8)
    generator, discriminator = task.modules["generator"], task.modules["discriminator"]
    real = batch.images * 2 - 1

    def again() -> tuple[torch.Tensor, torch.Tensor]:
        """Latents and logits of the images that the seed of the context generates."""
        z = torch.randn(8, 6, generator=context(model).generator)
        return z, discriminator(generator(z))

    _, logits = again()
    torch.testing.assert_close(task.loss("generator", batch, context(model)), F.softplus(-logits).mean())
    expected = F.softplus(-discriminator(real)).mean() + F.softplus(logits).mean()
    torch.testing.assert_close(task.loss("discriminator", batch, context(model)), expected)
    real.requires_grad_()
    (gradient,) = torch.autograd.grad(discriminator(real).sum(), real)
    penalty = 16 * 0.3 * gradient.square().sum((1, 2, 3)).mean() / 2
    torch.testing.assert_close(task.loss("r1", batch, context(model)), penalty)


def test_the_path_length_is_pulled_to_its_moving_average() -> None:
    model, data = StyleGAN2(**TINY, path_length=2.0), images()
    task = model.task(data)
    loss = task.loss("path_length", batch_of(data, 8), context(model))
    mean = task.state()["mean_length"]
    assert mean > 0
    network = task.modules["generator"]
    assert isinstance(network, StyleNetwork)
    draws = context(model).generator
    styles = network.styles(torch.randn(4, 6, generator=draws))  # half a batch
    torch.rand((), generator=draws)
    made = network.synthesis(styles, fixed=True)
    noise = torch.randn(made.shape, generator=draws) / 16
    (gradient,) = torch.autograd.grad((made * noise).sum(), styles)
    lengths = gradient.square().sum(2).mean(1).sqrt()
    torch.testing.assert_close(mean, 0.01 * lengths.mean())
    torch.testing.assert_close(loss, 2 * 4 * (lengths - mean).square().mean())


def test_mixed_styles_come_from_two_latents() -> None:
    model = StyleGAN2(**TINY, mixing=1.0)
    task = model.task(images())
    assert isinstance(task, StyleGAN2Task)
    starts = set()
    for seed in range(30):
        styles, _ = task.styles(3, context(model, seed))
        changes = (styles[:, 1:] != styles[:, :-1]).any(2).any(0).nonzero().flatten().tolist()
        assert len(changes) == 1
        starts.add(changes[0] + 1)
    assert starts == {1, 2, 3, 4, 5}
    task.generator.mixing = 0.0
    styles, _ = task.styles(3, context(model))
    assert torch.equal(styles, styles[:, :1].expand_as(styles))


# Training


def test_killed_and_continued_bit_for_bit(trained: StyleGAN2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    settings: dict[str, Any] = {"steps": 5, "batch": 10, "seed": 3, "checkpoint": tmp_path / "file"}
    for steps in (2, 2):
        with pytest.raises(Stop):
            StyleGAN2(**OPTIONS).fit(images(), **settings, progress=stopping(steps))
    model = StyleGAN2(**OPTIONS).fit(images(), **settings)
    assert model.digest == trained.digest
    assert model.history == trained.history
    assert StyleGAN2(**OPTIONS).fit(images(), steps=5, batch=10, seed=4).digest != trained.digest


def test_it_learns_the_classes() -> None:
    model = StyleGAN2(**TINY, classes=2).fit(images(64), steps=100, batch=16)
    means = [model.sample(32, labels=[label] * 32).mean((0, 1)) for label in (0, 1)]
    assert means[0][:, :7].mean() - means[0][:, 9:].mean() > 0.4, "the left half is bright"
    assert means[1][:, 9:].mean() - means[0][:, 9:].mean() > 0.1, "the right half is brighter in class 1"


# Sampling


def test_an_image_depends_on_its_latent_only(trained: StyleGAN2) -> None:
    network = trained.fitted
    assert isinstance(network, StyleNetwork)
    for convolution in network.synthesis.convolutions:
        nn.init.constant_(convolution.strength, 0.5)
    z, labels = torch.randn(70, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(70, dtype=torch.long)
    decoded = trained.decode(z, labels)
    torch.testing.assert_close(trained.decode(3 * z[66:68], labels[:2]), decoded[66:68])
    many = trained.sample(70, seed=7)
    assert torch.equal(trained.sample(65, seed=7), many[:65])
    with pytest.raises(ValueError, match="2 classes: pass the labels"):
        trained.decode(z)


def test_truncation_of_samples(trained: StyleGAN2, tmp_path: Path) -> None:
    trained.save(tmp_path / "g.safetensors")
    model = farout.generators.load(tmp_path / "g.safetensors")
    assert isinstance(model, StyleGAN2)
    labels = [0, 0, 0]
    torch.testing.assert_close(model.sample(3, labels=labels), trained.sample(3, labels=labels))
    model.truncation = 0.0
    first, *others = model.sample(3, labels=labels)
    for other in others:
        torch.testing.assert_close(other, first)
    model.truncated = 2
    assert not torch.allclose(*model.sample(2, labels=[0, 0]))
    other = StyleGAN2(**{**OPTIONS, "truncation": 0.0}).load(tmp_path / "g.safetensors")
    torch.testing.assert_close(other.sample(1, labels=[0])[0], first)
    with pytest.raises(ValueError, match="with other settings: mixing="):
        StyleGAN2(**{**OPTIONS, "mixing": 0.123}).load(tmp_path / "g.safetensors")


def test_classes_must_be_those_of_the_images() -> None:
    with pytest.raises(ValueError, match=r"classes=3 needs images of every label from 0 to 2, 'halves' has 2 labels"):
        StyleGAN2(**TINY, classes=3).task(images())
    unlabelled = ImageSet.from_arrays(np.zeros((4, 1, 16, 16), np.float32), name="plain")
    with pytest.raises(ValueError, match="has classes=2, 'plain' no labels; use classes=0"):
        StyleGAN2(**TINY, classes=2).task(unlabelled)
