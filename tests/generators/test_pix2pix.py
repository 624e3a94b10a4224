"""Pix2Pix: parameters and patches of the public code, noise per image, and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_gans import Stop, images, parameters, stopping
from torch import nn

from farout.generators import Objective, Pix2Pix
from farout.generators.pix2pix import UNet, noise_units, patch_discriminator
from farout.networks import Ensemble, create
from farout.training import Batch, fit, loop

TINY: dict[str, Any] = {"side": 16, "channels": 1, "width": 4}
SETTINGS: dict[str, Any] = {"epochs": 2, "batch": 10, "seed": 3}


@pytest.fixture(scope="module")
def trained() -> Pix2Pix:
    return Pix2Pix(**TINY).fit(images(), **SETTINGS)


@pytest.mark.parametrize(("side", "millions"), [(32, 16.66), (64, 29.24), (128, 41.83), (256, 54.41)])
def test_parameters_are_those_of_the_public_code(side: int, millions: float) -> None:
    with torch.device("meta"):
        assert parameters(UNet(3, side, 64)) / 1e6 == pytest.approx(millions, abs=0.005)


def test_layers_at_32_px() -> None:
    with torch.device("meta"):
        module = UNet(3, 32, 64)
    shapes = [tuple(part.weight.shape[:2]) for part in module.modules() if isinstance(part, nn.Conv2d)]
    assert shapes == [(64, 3), (128, 64), (256, 128), (512, 256), (512, 512)]
    shapes = [tuple(part.weight.shape[:2]) for part in module.modules() if isinstance(part, nn.ConvTranspose2d)]
    assert shapes == [(512, 512), (1024, 256), (512, 128), (256, 64), (128, 3)]
    assert [any(isinstance(part, nn.BatchNorm2d) for part in down) for down in module.downs] == [
        False,
        *[True] * 3,
        False,
    ]
    assert parameters(module) == 16_659_075


@pytest.mark.parametrize(("side", "sizes"), [(16, (6, 2)), (32, (14, 6, 2)), (64, (30, 14, 6)), (128, (62, 30, 14))])
def test_patches(side: int, sizes: tuple[int, ...]) -> None:
    for layers, size in enumerate(sizes, start=1):
        with torch.device("meta"):
            logits = patch_discriminator(1, 8, layers)(torch.zeros(2, 2, side, side))
        assert logits.shape == (2, 1, size, size)


def test_noise_is_dropout_of_the_innermost_blocks() -> None:
    """At 32 px 512 channels of 2×2 and 256 of 4×4; the noise determines the output, and a half of it is kept."""
    assert noise_units(32, 64) == [2048, 4096]
    assert noise_units(64, 64) == [2048, 8192]
    assert noise_units(128, 64) == [2048, 8192, 32768]
    noise = Pix2Pix(side=32).noise(50, torch.Generator().manual_seed(0))
    assert noise.shape == (50, 6144)
    assert noise.unique().tolist() == [0, 1]
    assert noise.mean().item() == pytest.approx(0.5, abs=0.01)


def test_kept_units_count_twice() -> None:
    """With linear layers above, the mean over all masks of a unit is the output without dropout."""
    module = UNet(1, 16, 2).eval()
    x, units = torch.rand(1, 1, 16, 16), sum(noise_units(16, 2))
    captured: list[torch.Tensor] = []
    module.ups[1].register_forward_pre_hook(lambda _m, inputs: captured.append(inputs[0]))
    for value in (0.0, 1.0, 0.5):
        module(x, torch.full((1, units), value))
    innermost = [one[:, 8:] for one in captured]  # after the 8 channels of the skip
    assert not innermost[0].any()
    assert torch.allclose(innermost[1], 2 * innermost[2])


def test_translation_depends_on_seed_and_index_only(trained: Pix2Pix) -> None:
    originals = images(70).batch(range(70))
    changed = trained.translate(originals, seed=1)
    assert changed.shape == originals.shape
    assert 0 <= changed.min() <= changed.max() <= 1
    assert torch.equal(changed, trained.translate(originals, seed=1))
    assert torch.equal(changed[:5], trained.translate(originals[:5], seed=1))
    assert torch.equal(changed[60:70], trained.translate(originals[60:70], seed=1, indices=range(60, 70)))
    assert not torch.equal(changed, trained.translate(originals, seed=2))
    same = trained.translate(originals[:1].expand(3, -1, -1, -1), seed=1)
    assert len(same.flatten(1).unique(dim=0)) == 3, "the noise of every index differs"
    assert trained.translate(originals[:0]).shape == (0, 1, 16, 16)


def test_same_seed_same_weights_also_after_a_stop(
    trained: Pix2Pix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(Stop):
        Pix2Pix(**TINY).fit(images(), **SETTINGS, checkpoint=tmp_path / "file", progress=stopping(3))
    continued = Pix2Pix(**TINY).fit(images(), **SETTINGS, checkpoint=tmp_path / "file")
    assert continued.digest == trained.digest
    continued.save(tmp_path / "g.safetensors")
    assert Pix2Pix(**TINY).load(tmp_path / "g.safetensors").digest == trained.digest


def test_discriminator_compares_with_the_original() -> None:
    """The real pair is (x, x), the generated one (x, G(x, z)); the loss is halved."""
    task = Pix2Pix(**TINY).task(images())
    task.to(torch.device("cpu"))
    seen: list[torch.Tensor] = []
    task.modules["discriminator"].register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0]))
    batch = Batch(images().batch(range(4)), None, torch.arange(4))
    context = _context()
    loss = task.loss("discriminator", batch, context)
    real, made = seen
    assert torch.equal(real[:, 0], real[:, 1])
    assert torch.equal(made[:, 0], real[:, 0])
    assert not torch.equal(made[:, 1], real[:, 0])
    logits = [task.modules["discriminator"](one) for one in (real, made)]
    assert loss.item() == pytest.approx(0.5 * task.adversarial.discriminator(*logits).item(), rel=1e-5)


def _context() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(
        recipe=Pix2Pix(side=16).recipe(), generator=torch.Generator().manual_seed(0), device=torch.device("cpu")
    )


def test_shifted_objective_moves_away_from_the_original() -> None:
    features = create("lenet", 2, 16, 1)
    members = Ensemble([create("lenet", 2, 16, 1, seed=seed) for seed in (1, 2)])
    options: dict[str, Any] = {"ensemble": members, "features": features, "epochs": 10, "batch": 10, "lr": 5e-3}
    originals = images().batch(range(40))
    far = Pix2Pix(**TINY).fit(images(), objective="shifted", lambda_p=20, **options).translate(originals)
    near = Pix2Pix(**TINY).fit(images(), objective="near", lambda_p=20, **options).translate(originals)
    assert (far - originals).square().mean() > 1.5 * (near - originals).square().mean()


@pytest.mark.parametrize(("side", "layers"), [(16, 1), (32, 2), (64, 3)])
def test_full_preset_trains_and_translates(side: int, layers: int) -> None:
    model = Pix2Pix(side=side, channels=3)
    recipe = model.recipe()
    assert (recipe.epochs, recipe.batch, recipe.lr, recipe.betas, recipe.ema) == (100, 256, 2e-4, (0.5, 0.999), None)
    strided = [part for part in model.discriminator() if isinstance(part, nn.Conv2d) and part.stride == (2, 2)]
    assert len(strided) == layers
    if side == 32:
        data = images(4, side, 3)
        fit(task := model.task(data), data, model.recipe(steps=1, batch=4))
        model.load_state_dict(task.weights())
        assert model.translate(data.batch(range(2))).shape == (2, 3, 32, 32)


def test_changed_images_are_paired_with_their_originals_only() -> None:
    objective = Objective(name="shifted", lambda_s=0, features=create("lenet", 2, 16, 1), pairing="nearest")
    with pytest.raises(ValueError, match="compared with their originals; got pairing='nearest'"):
        Pix2Pix(**TINY).task(images(), objective)


def test_it_does_not_sample(trained: Pix2Pix) -> None:
    with pytest.raises(NotImplementedError, match="use translate"):
        trained.sample(2)
    with pytest.raises(NotImplementedError, match="no latent"):
        trained.decode(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="got 1 indices for 2 images"):
        trained.translate(torch.zeros(2, 1, 16, 16), indices=[0])
