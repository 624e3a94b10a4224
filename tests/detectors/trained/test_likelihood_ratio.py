"""Likelihood ratio: mutations, the two densities, and their difference."""

import math

import pytest
import torch
from torch import Tensor

import farout
from farout.detectors.trained.glow.flow import Flow
from farout.detectors.trained.likelihood_ratio import LikelihoodRatio, mutate
from farout.detectors.trained.pixelcnn.network import PixelNetwork
from farout.rng import generator


def test_mutations_replace_the_given_share_by_uniform_values():
    images = torch.full((4, 3, 64, 64), 100 / 255)
    mutated = mutate(images, 0.25, generator(0)) * 255
    values = mutated.round()
    torch.testing.assert_close(values, mutated)
    assert len(values.unique()) == 256
    changed = values != 100
    assert changed.float().mean().item() == pytest.approx(0.25 * 255 / 256, abs=0.01)
    assert values[changed].min() == 0
    assert values[changed].max() == 255
    assert values[changed].mean().item() == pytest.approx(127.6, abs=3)


def fitted(density: str, training: dict[str, object] | None = None, **settings: float) -> LikelihoodRatio:
    train = farout.load("toy", "train").limit(4)
    training, sizes = {"steps": 1, "batch": 4, **(training or {})}, {"width": 4}
    detector = LikelihoodRatio(density=density, density_params=sizes, training=training, **settings)
    return detector.fit(train, val=train.limit(1))


def test_the_score_is_the_difference_of_two_trained_densities():
    detector = fitted("pixelcnn")
    assert [one.stage for one in detector.history] == ["density", "background"]
    images = farout.load("toy", "train").batch(range(2))
    nats = {name: module.log_likelihood(images) for name, module in detector.modules.items()}
    expected = (nats["background"] - nats["density"]) / (3072 * math.log(2))
    torch.testing.assert_close(detector.score(images), expected.double(), rtol=1e-4, atol=1e-5)


def test_the_penalty_acts_on_the_background_only():
    first, second = fitted("glow"), fitted("glow", penalty=1e4)
    for name, same in (("density", True), ("background", False)):
        pairs = zip(first.modules[name].parameters(), second.modules[name].parameters(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs) is same
    with pytest.raises(ValueError, match="mutation"):
        LikelihoodRatio(mutation=0.0)


def test_the_penalty_is_the_sum_of_squared_weights():
    """A step of plain gradient descent moves weights by −lr · 2 λ w more than without the penalty λ Σ w²."""
    plain = {"optimizer": "sgd", "momentum": 0.0, "nesterov": False, "clip": None}
    start = fitted("glow", {**plain, "lr": 1e-20})
    without, penalized = (fitted("glow", {**plain, "lr": 1e-6}, penalty=penalty) for penalty in (0.0, 4e3))
    networks = (one.modules["background"].parameters() for one in (start, without, penalized))
    for weight, one, other in zip(*networks, strict=True):
        torch.testing.assert_close(other - one, -1e-6 * 2 * 4e3 * weight, rtol=1e-3, atol=1e-6)


def test_the_background_alone_learns_from_mutated_images(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[PixelNetwork, Tensor]] = []
    likelihood = PixelNetwork.log_likelihood

    def spied(self: PixelNetwork, images: Tensor) -> Tensor:
        seen.append((self, images))
        return likelihood(self, images)

    monkeypatch.setattr(PixelNetwork, "log_likelihood", spied)
    modules = fitted("pixelcnn", {"augment": "none"}, mutation=1.0).modules
    known = farout.load("toy", "train").batch(range(4))
    for network, images in seen:
        same = (images[:, None] == known).flatten(2).all(2).any(1)
        assert same.all() if network is modules["density"] else not same.any()
    assert {id(network) for network, _ in seen} == {id(modules["density"]), id(modules["background"])}


def test_a_flow_sees_noise_in_both_stages(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[Flow, Tensor]] = []
    likelihood = Flow.log_likelihood

    def spied(self: Flow, images: Tensor) -> Tensor:
        seen.append((self, images))
        return likelihood(self, images)

    monkeypatch.setattr(Flow, "log_likelihood", spied)
    assert [stage.keep for stage in fitted("glow").history] == ["min", "min"]
    assert len({id(network) for network, _ in seen}) == 2
    for _, images in seen:
        assert not torch.allclose((images * 255).round() / 255, images, atol=1e-5)


@pytest.mark.parametrize("name", ["likelihood_ratio", "input_complexity"])
def test_the_label_names_every_change_of_density_and_training(name):
    detector = farout.detectors.create(name, density="glow", density_params={"width": 4}, training={"lr": 0.01})
    assert detector.label == f"{name} (small, density=glow, density_params={{'width': 4}}, lr=0.01)"
    with pytest.raises(
        ValueError, match=r"training of the density are those of .* move them out of density_params: tr"
    ):
        farout.detectors.create(name, density_params={"training": {"lr": 0.01}})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "densities"), [("likelihood_ratio", 2), ("input_complexity", 1)])
def test_the_full_preset_has_the_size_of_pixelcnn_trains_and_scores(name, densities):
    few = farout.load("toy", "train").limit(2)
    detector = farout.detectors.create(name, preset="full", training={"steps": 1, "batch": 2}).fit(few, val=few)
    sizes = [sum(one.numel() for one in module.parameters()) for module in detector.modules.values()]
    assert sizes == densities * [13_440_840]
    assert detector.score(few.batch([0])).isfinite().all()
