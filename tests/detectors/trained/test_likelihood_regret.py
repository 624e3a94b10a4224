"""Likelihood regret: the bound against distributions, batched optimization against one image at a time."""

import math

import pytest
import torch
from torch import nn

import farout
from farout.core import ImageSet
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.regret import LikelihoodRegret
from farout.detectors.trained.regret.detector import EvidenceBound
from farout.detectors.trained.regret.vae import VAE, Posterior
from farout.rng import generator
from farout.training import Batch, Context, Position, Recipe

CONTEXT = Context(Position("", 0, 0, 1, 1), Recipe(epochs=1), {}, torch.device("cpu"), seed=0)
TINY = {"width": 4, "latent": 3, "updates": 5, "draws": 2}


def built(channels: int = 1, side: int = 28, **changes: object) -> LikelihoodRegret:
    torch.manual_seed(0)
    detector = LikelihoodRegret(**{**TINY, **changes})
    detector.inputs = Inputs(channels, side, 0)
    detector.modules = {name: module.eval() for name, module in detector.build(detector.inputs).items()}
    return detector


def images(count: int, channels: int = 1, side: int = 28) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, side, side), generator=generator(0)) / 255


def test_the_divergence_is_that_of_normal_distributions():
    posterior = Posterior(torch.randn(4, 3), torch.randn(4, 3))
    own = torch.distributions.Normal(posterior.mean, (posterior.log_variance / 2).exp())
    expected = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(posterior.divergence(), expected)


def test_latents_have_the_mean_and_the_standard_deviation_of_the_posterior():
    posterior, noise = Posterior(torch.randn(4, 3), torch.randn(4, 3)), torch.randn(4, 3)
    torch.testing.assert_close(posterior.at(noise), posterior.mean + posterior.log_variance.exp().sqrt() * noise)


def test_the_bound_is_a_mean_over_the_noise():
    vae, pixels, noise = built().modules["vae"], images(2), torch.randn(3, 3)
    posterior = vae.encode(pixels)
    errors = [vae.reconstruction(pixels, posterior.mean + posterior.log_variance.exp().sqrt() * one) for one in noise]
    torch.testing.assert_close(vae.bound(pixels, posterior, noise), sum(errors) / 3 + posterior.divergence())


def test_a_training_step_draws_other_latents_for_every_image_and_validation_is_in_evaluation_mode(monkeypatch):
    detector, pixels = built(), images(4)
    task, drawn = EvidenceBound(detector.modules["vae"], ImageSet.from_arrays(pixels.numpy())), []

    def bound(images, posterior, noise):
        drawn.append((noise, task.vae.training))
        return VAE.bound(task.vae, images, posterior, noise)

    monkeypatch.setattr(task.vae, "bound", bound)
    task.vae.train()
    task.loss("model", Batch(pixels, None, torch.arange(4)), CONTEXT)
    task.validate(CONTEXT)
    (first, training), (second, validating) = drawn
    assert first.shape == second.shape == (1, 4, 3)
    assert first.unique().numel() == second.unique().numel() == 12
    assert (training, validating) == (True, False)


def test_the_first_step_moves_every_latent_by_the_step_size_against_its_gradient():
    """At a variance of 1 the divergence has no slope: what moves the variance is the noise."""
    detector, pixels = built(updates=1, step_size=0.3), images(2)
    vae, start = detector.modules["vae"], Posterior(torch.randn(2, 3), torch.zeros(2, 3))
    leaves = [one.clone().requires_grad_() for one in start]
    noise = torch.randn(1, 3, generator=generator(0, "likelihood_regret", "optimize"))
    gradients = torch.autograd.grad(vae.bound(pixels, Posterior(*leaves), noise).sum(), leaves)
    for before, after, gradient in zip(start, detector.optimized(pixels, start), gradients, strict=True):
        torch.testing.assert_close(after - before, -0.3 * gradient.sign(), rtol=1e-3, atol=1e-3)


def test_the_reconstruction_is_categorical_over_256_values():
    vae = built(3, 32).modules["vae"]
    latents, pixels = torch.randn(2, 3), images(2, 3, 32)
    logits = vae.decoder(latents[:, :, None, None]).reshape(2, 256, 3, 32, 32).permute(0, 2, 3, 4, 1)
    categorical = torch.distributions.Categorical(logits=logits)
    expected = -categorical.log_prob((pixels * 255).round()).flatten(1).sum(1)
    torch.testing.assert_close(vae.reconstruction(pixels, latents), expected)


def test_a_batch_gives_the_scores_of_its_images_and_no_two_calls_differ():
    detector, pixels = built(), images(3)
    together = detector.score(pixels)
    alone = torch.cat([detector.score(one[None]) for one in pixels])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-2)
    assert torch.equal(together, detector.score(pixels))
    with torch.inference_mode():
        torch.testing.assert_close(detector.score(pixels), together)


def test_regret_is_what_the_optimized_posterior_gains():
    detector, pixels = built(updates=15, step_size=0.2), images(2)
    vae, start = detector.modules["vae"], detector.modules["vae"].encode(pixels)
    after = detector.optimized(pixels, start)
    fresh = torch.randn(20, 3, generator=generator(5))
    gain = vae.bound(pixels, start, fresh) - vae.bound(pixels, after, fresh)
    assert (gain > 0).all()
    assert (detector.score(pixels) > 0).all()
    assert not built(updates=0).score(pixels).any()


def test_training_lowers_the_bound_and_the_same_seed_gives_the_same_weights():
    train = farout.load("toy", "train").limit(20)
    settings = {**TINY, "training": {"epochs": 2, "batch": 8}}
    first, second = (LikelihoodRegret(**settings).fit(train, seed=2) for _ in range(2))
    assert first.digest == second.digest
    figures = first.history[0].figures
    assert figures[1] < figures[0]
    assert first.history[0].keep == "min"
    assert figures[0] == pytest.approx(8, abs=0.5)  # near uniform over 256 values


def test_the_network_is_that_of_dcgan():
    """Kernels of 4×4 down to 4×4 positions, then one over all of them; leaky ReLUs of slope 0.2."""
    vae = VAE(3, 32, 32, 100)
    shapes = [tuple(one.weight.shape) for one in vae.modules() if isinstance(one, nn.Conv2d | nn.ConvTranspose2d)]
    down = [(32, 3, 4, 4), (64, 32, 4, 4), (128, 64, 4, 4), (200, 128, 4, 4)]
    assert shapes == [*down, (100, 128, 4, 4), (128, 64, 4, 4), (64, 32, 4, 4), (32, 768, 4, 4)]
    assert {one.negative_slope for one in vae.modules() if isinstance(one, nn.LeakyReLU)} == {0.2}


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (1, 64)])
def test_images_of_all_sides_have_a_bound(channels, side):
    vae, pixels = VAE(channels, side, 4, 3).eval(), images(2, channels, side)
    bits = vae.bound(pixels, vae.encode(pixels), torch.zeros(1, 3)) / (pixels[0].numel() * math.log(2))
    assert ((bits > 7.5) & (bits < 9)).all()


def test_the_full_preset_trains_and_scores():
    few = ImageSet.from_arrays(images(2, 3, 32).numpy())
    detector = LikelihoodRegret(preset="full", updates=2, training={"steps": 1, "batch": 2}).fit(few, val=few)
    assert detector.score(few.batch([0])).isfinite().all()
