"""Normalized autoencoder: sizes, energy gradient, chains, replay buffer, both stages, and published weights."""

import math

import pytest
import torch
import torch.nn.functional as F

import farout
from farout.core import ImageSet
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.nae import NAE
from farout.detectors.trained.nae.chains import Chain, ReplayBuffer, clip_rows, data_chain, latent_chain
from farout.detectors.trained.nae.networks import Decoder, Encoder
from farout.detectors.trained.nae.task import NormalizedAutoencoder, energies
from farout.rng import generator
from farout.training import StageHistory

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
    buffer = ReplayBuffer(4, 2, replayed=0.5)
    first = buffer.draw(3, generator(0), torch.device("cpu"))
    torch.testing.assert_close(first.flatten(1).norm(dim=1), torch.ones(3))  # an empty buffer gives new ones only
    kept = torch.arange(12.0).reshape(6, 2, 1, 1) + 10
    buffer.push(kept[:3])
    buffer.push(kept[3:])
    assert torch.equal(buffer.latents, kept[2:])
    drawn = buffer.draw(2_000, generator(1), torch.device("cpu"))
    old = drawn.flatten(1).norm(dim=1) > 2
    assert 0.45 < old.float().mean() < 0.55
    assert {one[0].item() for one in drawn[old].flatten(1)} == {14.0, 16.0, 18.0, 20.0}


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
