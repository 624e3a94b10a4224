"""Normalized autoencoder: sizes, energy gradient, chains, replay buffer, both stages, and published weights."""

import math

import pytest
import torch
import torch.nn.functional as F

import farout
from farout.core import ImageSet
from farout.detectors.trained.detector import Inputs, TrainingSets
from farout.detectors.trained.nae import NAE
from farout.detectors.trained.nae.chains import Chain, ReplayBuffer, clip_rows, data_chain, latent_chain
from farout.detectors.trained.nae.networks import Decoder, Encoder
from farout.detectors.trained.nae.task import NormalizedAutoencoder, energies
from farout.rng import generator
from farout.training import Batch, Context, Position, Recipe, StageHistory

TINY = {"width": 4, "latent": 3, "latent_steps": 2, "data_steps": 3, "buffer": 20}


def test_the_gradient_of_the_energy_agrees_with_finite_differences():
    torch.manual_seed(0)
    modules = {"encoder": Encoder(1, 4, 3).double(), "decoder": Decoder(1, 8, 4, 3).double()}
    images = torch.rand(2, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(energies(modules, images).sum(), images)
    step = 1e-6
    for index in range(0, 64, 7):
        change = torch.zeros(64, dtype=torch.float64)
        change[index] = step
        with torch.no_grad():
            moved = [energies(modules, images + sign * change.reshape(1, 1, 8, 8)) for sign in (1, -1)]
        torch.testing.assert_close(
            gradient.flatten(1)[:, index], (moved[0] - moved[1]) / (2 * step), rtol=1e-4, atol=1e-8
        )


def test_the_energy_is_the_squared_error_per_value_of_unit_latents():
    modules = NAE(**TINY).build(Inputs(3, 32, 0))
    images = torch.rand(2, 3, 32, 32)
    latents = modules["encoder"](images)
    torch.testing.assert_close(latents.flatten(1).norm(dim=1), torch.ones(2))
    expected = (images - modules["decoder"](latents)).flatten(1).norm(dim=1) ** 2 / 3072
    torch.testing.assert_close(energies(modules, images), expected)


def test_chains_reach_the_stationary_distribution_of_a_quadratic_energy():
    """With E = a (x − m)²/2 the step is x' − m = (1 − η a)(x − m) + σ ε, of variance σ² / (1 − (1 − η a)²)."""
    torch.manual_seed(0)
    curvature, mean = torch.tensor([1.0, 4.0]), torch.tensor([0.5, -1.0])
    chain = Chain(steps=200, step_size=0.1, noise=0.3, anneals=False, project=lambda x: x)
    last = chain.run(torch.zeros(20_000, 2), lambda x: (curvature * (x - mean) ** 2 / 2).sum(1))
    variance = 0.3**2 / (1 - (1 - 0.1 * curvature) ** 2)
    torch.testing.assert_close(last.mean(0), mean, rtol=0, atol=0.02)
    torch.testing.assert_close(last.var(0), variance, rtol=0.03, atol=0)


def test_chains_sample_a_normal_density_if_noise_and_step_match():
    """Noise √(2η) with a small step η samples exp(−E): here N(0, 1/a)."""
    torch.manual_seed(0)
    step = 0.01
    chain = Chain(steps=400, step_size=step, noise=math.sqrt(2 * step), anneals=False, project=lambda x: x)
    last = chain.run(torch.zeros(20_000, 1), lambda x: (2 * x**2).sum(1)).flatten().sort().values
    expected = torch.distributions.Normal(0.0, 0.5).cdf(last)
    assert (expected - torch.linspace(0, 1, 20_000)).abs().max() < 0.02  # Kolmogorov–Smirnov distance


def test_noise_falls_as_one_over_t_and_data_stay_in_their_box():
    chain = data_chain(40)
    assert [chain.noise_at(step) for step in (0, 1, 2, 4)] == [0.02, 0.02, 0.01, 0.005]
    assert latent_chain(20).noise_at(19) == 0.02
    last = chain.run(torch.full((4, 1, 2, 2), 0.5), lambda x: -100 * x.flatten(1).sum(1))
    assert last.max() == 1
    torch.testing.assert_close(latent_chain(3).run(torch.ones(4, 3), lambda z: z.sum(1)).norm(dim=1), torch.ones(4))


def test_gradients_are_clipped_row_by_row():
    gradient = torch.tensor([[[[3.0, 4.0], [0.003, 0.004]]], [[[0.0, 0.0], [0.0, 0.1]]]])
    expected = torch.tensor([[[[0.006, 0.008], [0.003, 0.004]]], [[[0.0, 0.0], [0.0, 0.01]]]])
    torch.testing.assert_close(clip_rows(gradient, 0.01), expected)


def test_the_first_step_of_a_data_chain_is_a_clipped_gradient_step():
    torch.manual_seed(0)
    chain, start = data_chain(1)._replace(noise=0.0), torch.full((1, 1, 2, 2), 0.5)
    weights = torch.tensor([[3.0, 4.0], [0.0006, 0.0008]])
    moved = chain.run(start, lambda x: (weights * x).flatten(1).sum(1))
    torch.testing.assert_close(moved - start, -torch.tensor([[[[0.06, 0.08], [0.006, 0.008]]]]))


def test_the_replay_buffer_keeps_the_last_and_mixes_new_starts():
    buffer = ReplayBuffer(4, 2, replayed=0.8)
    first = buffer.draw(3, generator(0), torch.device("cpu"))
    torch.testing.assert_close(first.flatten(1).norm(dim=1), torch.ones(3))  # an empty buffer gives new ones only
    kept = torch.arange(12.0).reshape(6, 2, 1, 1) + 10
    buffer.push(kept[:3])
    buffer.push(kept[3:])
    assert torch.equal(buffer.latents, kept[2:])
    drawn = buffer.draw(2_000, generator(1), torch.device("cpu"))
    old = drawn.flatten(1).norm(dim=1) > 2
    assert 0.77 < old.float().mean() < 0.83
    assert {one[0].item() for one in drawn[old].flatten(1)} == {14.0, 16.0, 18.0, 20.0}


def reference_encoder(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    """Return latents of 3×3 convolutions, residual blocks of which every second one pools, mean, 1×1, norm."""

    def convolve(inputs: torch.Tensor, layer: torch.nn.Conv2d) -> torch.Tensor:
        return F.conv2d(inputs, layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)

    def leak(inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs > 0, inputs, 0.2 * inputs)

    hidden = leak(convolve(images, encoder.conv1))
    for number, block in enumerate(encoder.blocks):
        inner = convolve(leak(convolve(hidden, block.conv1)), block.conv2)
        skip = hidden if isinstance(block.skip, torch.nn.Identity) else convolve(hidden, block.skip[0])
        total = inner + skip
        hidden = leak(F.avg_pool2d(total, 2) if number in (0, 2, 4) else total)
    latents = convolve(hidden.clamp(min=0).mean((2, 3), keepdim=True), encoder.linear)
    return latents / latents.norm(dim=1, keepdim=True)


def reference_decoder(decoder: Decoder, latents: torch.Tensor) -> torch.Tensor:
    """Return images: 4×4 positions, three blocks that double them, last norm of two groups."""

    def normed(inputs: torch.Tensor, layer: torch.nn.GroupNorm, groups: int) -> torch.Tensor:
        rows = inputs.unflatten(1, (groups, -1))
        mean, variance = rows.mean((2, 3, 4), keepdim=True), rows.var((2, 3, 4), correction=0, keepdim=True)
        plain = ((rows - mean) / (variance + 1e-5).sqrt()).flatten(1, 2)
        return (plain * layer.weight.view(-1, 1, 1) + layer.bias.view(-1, 1, 1)).clamp(min=0)

    def convolve(inputs: torch.Tensor, layer: torch.nn.Conv2d) -> torch.Tensor:
        return F.conv2d(inputs, layer.weight, layer.bias, padding=1)

    hidden = F.conv_transpose2d(latents, decoder.dense.weight, decoder.dense.bias)
    *blocks, last_norm, _, last, _ = decoder.model
    for block in blocks:
        norm1, _, _, conv1, norm2, _, conv2 = block.model
        inner = convolve(normed(hidden, norm1, 1).repeat_interleave(2, 2).repeat_interleave(2, 3), conv1)
        hidden = convolve(normed(inner, norm2, 1), conv2) + hidden.repeat_interleave(2, 2).repeat_interleave(2, 3)
    return convolve(normed(hidden, last_norm, 2), last).sigmoid()


def scattered(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module with random biases and scales, which start at zero and one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator(parameter.numel()))
    return module


def test_encoder_and_decoder_are_those_of_the_paper_layer_by_layer():
    encoder, decoder = scattered(Encoder(3, 4, 3)), scattered(Decoder(3, 32, 4, 3))
    images, latents = torch.rand(2, 3, 32, 32), torch.randn(2, 3, 1, 1)
    torch.testing.assert_close(encoder(images), reference_encoder(encoder, images))
    torch.testing.assert_close(decoder(latents), reference_decoder(decoder, latents), rtol=1e-4, atol=1e-5)


def energy_step(buffer: ReplayBuffer) -> tuple[NormalizedAutoencoder, Context, Batch]:
    torch.manual_seed(0)
    modules = NAE(**TINY).build(Inputs(1, 28, 0))
    toy = farout.load("toy", "train").limit(4)
    task = NormalizedAutoencoder(modules, toy, latent_chain(2), data_chain(3), buffer, {})
    context = Context(Position("energy", 0, 0, 1, 1), Recipe(epochs=1), {}, torch.device("cpu"), 7)
    return task, context, Batch(torch.randint(0, 256, (3, 1, 28, 28)) / 255, None, torch.arange(3))


def test_a_step_of_the_second_stage_follows_the_definition():
    """E⁺ of dequantized images, minus E⁻ of samples, plus its square; samples end a latent and a data chain."""
    task, context, batch = energy_step(ReplayBuffer(20, 3))
    encoder, decoder = task.modules["encoder"], task.modules["decoder"]

    def energy(images: torch.Tensor) -> torch.Tensor:
        return (images - decoder(encoder(images))).square().mean((1, 2, 3))

    torch.manual_seed(1)
    loss = task.loss("model", batch, context)
    draws = generator(7, "task")
    inliers = (255 * batch.images + torch.rand(batch.images.shape, generator=draws)) / 256
    z = F.normalize(torch.randn(3, 3, 1, 1, generator=draws))
    torch.manual_seed(1)
    for _ in range(2):
        z = z.requires_grad_()
        (slope,) = torch.autograd.grad(energy(decoder(z)).sum(), z)
        z = F.normalize(z.detach() - slope + 0.02 * torch.randn_like(z))
    x = decoder(z).detach().clamp(0, 1)
    for noise in (0.02, 0.02, 0.01):
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(energy(x).sum(), x)
        slope = slope * (0.01 / slope.norm(dim=3, keepdim=True)).clamp(max=1)
        x = (x.detach() - 10 * slope + noise * torch.randn_like(x)).clamp(0, 1)
    below = energy(x)
    torch.testing.assert_close(loss, energy(inliers).mean() - below.mean() + below.square().mean())
    torch.testing.assert_close(task.buffer.latents, z.detach())


def test_the_full_preset_has_the_papers_chains_and_stages():
    detector = NAE(preset="full")
    detector.modules = NAE(**TINY).build(Inputs(1, 28, 0))
    task = detector.task(TrainingSets(images(4), images(4), None))
    assert (task.latent_chain.steps, task.data_chain.steps) == (20, 40)
    assert (task.buffer.size, task.buffer.replayed) == (10_000, 0.95)
    first, second = (detector.recipe().changed(**stage.changes) for stage in task.stages)
    assert (first.lr, first.clip, first.epochs, first.batch, first.augment) == (1e-4, 0.1, 180, 128, ("flip",))
    assert (second.lr, second.clip, second.epochs, second.batch) == (1e-5, None, 10, 128)
    assert [stage.keep for stage in task.stages] == ["min", "last"]


def test_the_first_stage_stops_at_the_fourth_epoch_without_improvement():
    modules = NAE(**TINY).build(Inputs(1, 28, 0))
    toy = farout.load("toy", "train").limit(4)
    task = NormalizedAutoencoder(modules, toy, latent_chain(1), data_chain(1), ReplayBuffer(2, 3), {})
    figures = [5.0, 4.0, 4.5, 3.0, 3.0, 2.0, 2.5]
    history = StageHistory("autoencoder", "min", figures=figures, epochs=len(figures))
    assert not task.stops(history)
    history.figures.append(2.1)
    assert task.stops(history)
    assert not task.stops(StageHistory("energy", figures=history.figures, epochs=8))


def images(count: int = 24) -> ImageSet:
    return farout.load("toy", "train").limit(count)


def fitted(**energy: object) -> NAE:
    return NAE(**TINY, training={"epochs": 1, "batch": 8}, energy={"steps": 2, **energy}).fit(images(), seed=1)


def test_both_stages_train_and_the_same_seed_gives_the_same_weights():
    first, second = fitted(), fitted()
    assert [one.stage for one in first.history] == ["autoencoder", "energy"]
    assert first.digest == second.digest
    assert first.digest != fitted(lr=0.01).digest


def test_the_state_of_the_replay_buffer_goes_through_checkpoints():
    detector = NAE(**TINY)
    detector.modules = detector.build(Inputs(3, 32, 0))
    task = NormalizedAutoencoder(
        detector.modules, images(4), latent_chain(1), data_chain(1), ReplayBuffer(20, 3), {"steps": 1}
    )
    assert task.state() == {}
    task.buffer.push(torch.ones(2, 3, 1, 1))
    state = task.state()
    task.buffer.push(torch.zeros(2, 3, 1, 1))
    task.load_state(state)
    assert torch.equal(task.buffer.latents, torch.ones(2, 3, 1, 1))
    task.load_state({})
    assert not len(task.buffer.latents)


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (1, 64)])
def test_images_of_all_sides_are_rebuilt_at_their_size(channels, side):
    modules = NAE(**TINY).build(Inputs(channels, side, 0))
    assert energies(modules, torch.rand(2, channels, side, side)).shape == (2,)


def test_given_epochs_of_the_second_stage_replace_the_presets_steps():
    assert NAE(energy={"epochs": 2})._energy == {"epochs": 2, "lr": 1e-4, "clip": None}
    with pytest.raises(ValueError, match="lrr"):
        NAE(energy={"lrr": 1.0})


def published(detector: NAE) -> dict[str, torch.Tensor]:
    """Return the weights as the authors' checkpoints hold them, with aliases and constants."""
    own = {f"{name}.{key}": one for name, part in detector.modules.items() for key, one in part.state_dict().items()}
    names = {key: key.replace("decoder.", "decoder.net.") for key in own}
    tensors = {names[key]: one for key, one in own.items()}
    for block in range(3):
        for alias, number in (("conv1", 3), ("conv2", 6)):
            for kind in ("weight", "bias"):
                start = f"decoder.net.model.{block}"
                tensors[f"{start}.{alias}.{kind}"] = tensors[f"{start}.model.{number}.{kind}"]
    tensors["decoder.net.final.weight"] = tensors["decoder.net.model.5.weight"]
    tensors["decoder.net.final.bias"] = tensors["decoder.net.model.5.bias"]
    return {**tensors, "temperature_": torch.zeros(()), "decoder.sigma": torch.zeros(())}


def test_the_authors_checkpoints_map_to_the_same_scores():
    source, target = (NAE(**TINY) for _ in range(2))
    source.modules, source.inputs = source.build(Inputs(3, 32, 0)), Inputs(3, 32, 0)
    mapped = target.import_state(published(source))
    assert mapped.keys() == source.state_dict().keys() - {"inputs"}
    target.load_state_dict({"inputs": torch.tensor(Inputs(3, 32, 0)), **mapped})
    assert torch.equal(target.score(images().batch([0, 1])), source.score(images().batch([0, 1])))


def test_the_full_preset_has_the_papers_size_trains_and_scores():
    few = images(2)
    detector = NAE(preset="full", latent_steps=1, data_steps=1, training={"steps": 1}, energy={"steps": 1})
    detector.fit(few, val=few)
    sizes = [sum(one.numel() for one in detector.modules[name].parameters()) for name in ("encoder", "decoder")]
    assert sizes == [5_142_560, 956_419]
    assert detector.score(few.batch([0])).isfinite().all()
    assert F.mse_loss(
        detector.modules["decoder"](detector.modules["encoder"](few.batch([0]))), few.batch([0])
    ).item() == (pytest.approx(detector.score(few.batch([0])).item(), rel=1e-5))
