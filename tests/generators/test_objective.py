"""Objectives: signs, weights, pairing, the perceptual distance, and networks that stay as they are."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from small_gans import TINY, images
from torch import Tensor, nn

from farout.core import Activations
from farout.generators import DCGAN, Objective, terms
from farout.generators.adversarial import adversarial_loss
from farout.generators.information import mutual_information
from farout.generators.pairing import nearest, same_class
from farout.generators.perceptual import perceptual_distance
from farout.generators.terms import Terms
from farout.networks import Ensemble, Network, create
from farout.training import loop

CPU = torch.device("cpu")


class Small(nn.Module):
    side = 16
    block_names = ("first", "second")

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, 4, 3, 2, 1), nn.Softplus())
        self.second = nn.Sequential(nn.Conv2d(4, 5, 3, 2, 1), nn.Softplus())
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(4 * self.second(self.first(x)).mean((2, 3)))


def network(seed: int = 0, channels: int = 1) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Network(Small(channels), mean=0.5, std=0.1)


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return Ensemble([network(1), network(2), network(3)])


def pixels(count: int, seed: int) -> Tensor:
    return torch.rand(count, 1, 16, 16, generator=torch.Generator().manual_seed(seed))


def quantities(ensemble: Ensemble, features: Network, made: Tensor, real: Tensor) -> tuple[float, float]:
    """Mutual information and perceptual distance of the unchanged networks."""
    with torch.no_grad():
        members = ensemble(made, needs=()).members
        distance = perceptual_distance(features(made), features(real))
    return mutual_information(members).mean().item(), distance.mean().item()


@pytest.mark.parametrize("name", ["near", "shifted"])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_a_step_moves_the_term_in_its_direction(name: Any, weights: tuple[float, float], ensemble: Ensemble) -> None:
    """near: smaller distance, larger information; shifted: the reverse."""
    features, real, made = network(4), pixels(6, 0), pixels(6, 1).requires_grad_()
    objective = Objective(name=name, lambda_p=weights[0], lambda_s=weights[1], ensemble=ensemble, features=features)
    (gradient,) = torch.autograd.grad(Terms(objective, CPU)(made, real), made)
    before = quantities(ensemble, features, made, real)
    after = quantities(ensemble, features, made - 1e-3 * gradient / gradient.abs().max(), real)
    sign = 1 if name == "near" else -1
    if weights[1]:
        assert sign * (after[0] - before[0]) > 0
    else:
        assert sign * (after[1] - before[1]) < 0


@pytest.mark.parametrize(("name", "sign"), [("near", 1), ("shifted", -1)])
def test_value_is_the_weighted_sum(name: Any, sign: int, ensemble: Ensemble) -> None:
    features, real, made = network(4), pixels(6, 0), pixels(6, 1)
    objective = Objective(name=name, lambda_p=3, lambda_s=0.5, ensemble=ensemble, features=features)
    information, distance = quantities(ensemble, features, made, real)
    expected = sign * (3 * distance - 0.5 * information)
    assert Terms(objective, CPU)(made, real).item() == pytest.approx(expected, rel=1e-5)


def test_class_term_is_the_mean_cross_entropy_of_the_members(ensemble: Ensemble) -> None:
    features, real, made, labels = network(4), pixels(6, 0), pixels(6, 1), torch.tensor([0, 1, 2, 2, 1, 0])
    options: dict[str, Any] = {"name": "shifted", "ensemble": ensemble, "features": features}
    without, with_class = (Terms(Objective(**options, lambda_c=weight), CPU) for weight in (0, 3))
    losses = [
        -member(made, needs=()).logits[row].log_softmax(0)[label].item()
        for member in ensemble.members
        for row, label in enumerate(labels)
    ]
    expected = without(made, real, labels).item() + 3 * sum(losses) / len(losses)
    assert with_class(made, real, labels).item() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="the training images have no labels"):
        with_class(made, real)
    with pytest.raises(ValueError, match="lambda_c keeps the class of shifted images, got objective 'near'"):
        Objective(**{**options, "name": "near"}, lambda_c=1)
    only = Objective(name="shifted", lambda_p=0, lambda_s=0, lambda_c=1, ensemble=ensemble)
    assert Terms(only, CPU)(made, real, labels).item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_defaults_are_the_papers(ensemble: Ensemble) -> None:
    near = Objective(name="near", ensemble=ensemble, features=network())
    shifted = Objective(name="shifted", ensemble=ensemble, features=network())
    assert (near.lambda_p, near.lambda_s) == (1, 1)
    assert (shifted.lambda_p, shifted.lambda_s) == (2, 1)
    assert Objective().lambda_p == 0


def test_networks_are_neither_changed_nor_trained(ensemble: Ensemble) -> None:
    features = network(4).train()
    before = ensemble.digest, features.digest
    terms = Terms(Objective(name="near", ensemble=ensemble, features=features), CPU)
    made = pixels(4, 1).requires_grad_()
    terms(made, pixels(4, 0)).backward()
    assert made.grad is not None
    assert (ensemble.digest, features.digest) == before
    assert features.training
    assert all(one.requires_grad and one.grad is None for one in [*ensemble.parameters(), *features.parameters()])
    frozen = [*terms.members, terms.features]
    assert not any(one.requires_grad for net in frozen for one in net.parameters()), "no graph of weights is built"


def test_a_member_that_gives_the_features_runs_once(ensemble: Ensemble) -> None:
    made, real = pixels(4, 1), pixels(4, 0)
    own = Terms(Objective(name="near", ensemble=ensemble, features=ensemble.members[1]), CPU)
    passes: list[int] = []
    for member in own.members:
        member.register_forward_hook(lambda _m, inputs, _o: passes.append(len(inputs[0])))
    total = own(made, real).item()
    assert len(passes) == 4, "three members for the generated images, one for the real ones"
    information, distance = quantities(ensemble, ensemble.members[1], made, real)
    assert total == pytest.approx(distance - information, rel=1e-5)


def test_autocast_changes_little(ensemble: Ensemble) -> None:
    terms = Terms(Objective(name="near", ensemble=ensemble, features=network(4)), CPU)
    made, real = pixels(6, 1), pixels(6, 0)
    with torch.autocast("cpu", torch.bfloat16):
        half = terms(made, real)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(terms(made, real).item(), rel=0.05)


# Perceptual distance


def activations(**blocks: Tensor) -> Activations:
    rows = len(next(iter(blocks.values())))
    return Activations(torch.zeros(rows, 0), torch.zeros(rows, 1), blocks)


def test_distance_by_hand() -> None:
    """Two positions of (3, 4) and (0, 2) beside (4, 3) and (5, 0), and one block of a vector."""
    first = activations(a=torch.tensor([[[[3.0, 0.0]], [[4.0, 2.0]]]]), b=torch.tensor([[1.0, 0.0]]))
    second = activations(a=torch.tensor([[[[4.0, 5.0]], [[3.0, 0.0]]]]), b=torch.tensor([[-2.0, 0.0]]))
    cosines = 2 * (1 - 24 / 25), 2.0
    assert perceptual_distance(first, second).item() == pytest.approx(sum(cosines) / 2 + 4)
    assert perceptual_distance(first, second, "printed").item() == pytest.approx((2 + 29) / 2 + 9)


def test_unit_form_ignores_the_scale_and_the_printed_one_squares_it() -> None:
    maps = torch.rand(2, 3, 5, 4, 4, generator=torch.Generator().manual_seed(0))
    plain, scaled = [[activations(a=factor * one) for one in maps] for factor in (1, 10)]
    assert torch.allclose(perceptual_distance(*plain), perceptual_distance(*scaled), atol=1e-5)
    assert torch.allclose(100 * perceptual_distance(*plain, "printed"), perceptual_distance(*scaled, "printed"))


@pytest.mark.parametrize("form", ["unit", "printed"])
def test_gradient_of_the_distance(form: str) -> None:
    net, real = network(4).double().requires_grad_(False), pixels(2, 0).double()[:, :, ::2, ::2]
    net.side = None
    made = pixels(2, 1).double()[:, :, ::2, ::2].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: perceptual_distance(net(x), net(real), form), made, atol=1e-6)


def test_no_gradient_is_infinite_where_features_vanish() -> None:
    maps = torch.zeros(1, 3, 2, 2, requires_grad=True)
    perceptual_distance(activations(a=maps.relu()), activations(a=torch.ones(1, 3, 2, 2))).sum().backward()
    assert maps.grad is not None
    assert (maps.grad == 0).all()


def test_gray_images_on_a_network_for_color(ensemble: Ensemble) -> None:
    made, real = pixels(3, 1), pixels(3, 0)
    objective = Objective(name="near", lambda_s=0, features=network(4, channels=3))
    repeated = Terms(objective, CPU)(made.expand(-1, 3, -1, -1), real.expand(-1, 3, -1, -1))
    assert Terms(objective, CPU)(made, real).item() == pytest.approx(repeated.item(), rel=1e-6)


# Pairing


def test_same_class_takes_the_next_of_its_class_else_its_own_index() -> None:
    real = torch.tensor([0, 1, 2, 1, 0])
    assert same_class(torch.tensor([1, 1, 1, 0, 7]), real).tolist() == [1, 1, 3, 4, 4]


def test_nearest_by_features() -> None:
    real = torch.tensor([[0.0, 0.0], [3.0, 3.0], [9.0, 0.0]])
    assert nearest(torch.tensor([[2.0, 2.0], [8.0, 1.0], [0.1, 0.0]]), real).tolist() == [1, 2, 0]


def test_pairing_changes_the_partner(ensemble: Ensemble) -> None:
    features, real = network(4), pixels(8, 0)
    made, labels = real.flip(0), torch.arange(8) // 4
    by = {
        pairing: Terms(Objective(name="near", lambda_s=0, features=features, pairing=pairing), CPU)
        for pairing in ("random", "nearest", "same_class")
    }
    assert by["nearest"](made, real).item() == pytest.approx(0, abs=1e-6), "its copy is the nearest"
    assert by["random"](made, real).item() > 1e-3
    same = by["same_class"](made, real, labels, labels)
    assert same.item() == pytest.approx(by["random"](made, real).item(), rel=1e-6), "the next of its class is its own"
    with pytest.raises(ValueError, match="needs an ensemble, or a generator with classes"):
        by["same_class"](made, real, labels)
    predicted = Terms(
        Objective(name="near", lambda_s=1e-9, ensemble=ensemble, features=features, pairing="same_class"), CPU
    )
    assert predicted(made, real, labels).isfinite()


# Identity and errors


def test_identity_names_all_that_matters(ensemble: Ensemble) -> None:
    base: dict[str, Any] = {"name": "near", "ensemble": ensemble, "features": network(4)}
    changes: list[dict[str, Any]] = [
        {}, {"lambda_p": 2}, {"lambda_s": 2}, {"pairing": "nearest"}, {"form": "printed"}, {"features": network(5)},
        {"ensemble": Ensemble([network(1), network(2)])}, {"name": "shifted", "lambda_p": 1},
        {"name": "shifted", "lambda_p": 1, "lambda_c": 1},
    ]  # fmt: skip
    identities = [Objective(**base | change).identity for change in changes]
    assert len({str(one) for one in identities}) == len(changes)
    assert identities[0]["features"][0] == "Small"  # type: ignore[index]
    assert Objective(**base, lambda_p=0).identity["features"] is None


def test_errors(ensemble: Ensemble) -> None:
    with pytest.raises(ValueError, match="needs an ensemble"):
        Objective(name="near", features=network())
    with pytest.raises(ValueError, match="needs a feature network"):
        Objective(name="near", ensemble=ensemble)
    with pytest.raises(
        ValueError, match=r"expected lambda_s >= 0, got -1.0; the objective's name determines the signs"
    ):
        Objective(name="near", lambda_s=-1, ensemble=ensemble, features=network())
    with pytest.raises(ValueError, match="unknown pairing of an objective: 'class'"):
        Objective(pairing="class")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"has no terms, got lambda_p=1\.0"):
        Objective(lambda_p=1)
    plain = Network(Small(), mean=0.5, std=0.5, blocks=[])
    with pytest.raises(ValueError, match="the feature network Small has no blocks"):
        Objective(name="near", lambda_s=0, features=plain)


class Difference(nn.Module):
    """Stand-in for LPIPS: the mean squared difference, shaped as its output; three channels in [−1, 1] expected."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        assert first.shape[1] == 3
        assert first.min() < -0.9
        return (first - second).square().mean((1, 2, 3), keepdim=True)


def test_lpips_gets_its_own_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "lpips_module", Difference)
    made, real = pixels(6, 1).requires_grad_(), pixels(6, 0)
    total = Terms(Objective(name="shifted", lambda_s=0, lambda_p=3, form="lpips"), CPU)(made, real)
    assert total.item() == pytest.approx(-3 * 4 * (made - real).square().mean().item(), rel=1e-5)
    total.backward()
    assert made.grad is not None


def test_lpips_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(ImportError, match="pip install"):
        Terms(Objective(name="near", lambda_s=0, form="lpips"), CPU)


# Adversarial losses


def test_adversarial_losses_by_hand() -> None:
    real, made = torch.tensor([0.0, 2.0]), torch.tensor([0.0, -3.0])
    log_d = [value.sigmoid().log() for value in (real, -made)]
    cross = -(log_d[0].mean() + log_d[1].mean())
    for name in ("non_saturating", "saturating"):
        assert adversarial_loss(name).discriminator(real, made).item() == pytest.approx(cross.item())
    assert adversarial_loss("non_saturating").generator(made).item() == pytest.approx(
        -made.sigmoid().log().mean().item()
    )
    assert adversarial_loss("saturating").generator(made).item() == pytest.approx(
        (1 - made.sigmoid()).log().mean().item(), rel=1e-5
    )
    assert adversarial_loss("hinge").discriminator(real, made).item() == pytest.approx(0.5 + 0.5)
    assert adversarial_loss("hinge").generator(made).item() == pytest.approx(1.5)


@pytest.mark.parametrize("name", ["non_saturating", "saturating", "hinge"])
def test_players_pull_in_opposite_directions(name: str) -> None:
    """The discriminator raises real logits and lowers generated ones; the generator raises the latter."""
    loss, real, made = adversarial_loss(name), torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    real_slope, made_slope = torch.autograd.grad(loss.discriminator(real, made), (real, made))
    (slope,) = torch.autograd.grad(loss.generator(made), made)
    assert real_slope < 0 < made_slope
    assert slope < 0


def test_an_objective_trains_to_another_generator() -> None:
    """Through `fit`, also under autocast, with networks of different architectures."""
    members = Ensemble([create("lenet", 2, 16, 1), create("resnet20", 2, 16, 1)])
    settings: dict[str, Any] = {"steps": 3, "batch": 10}
    plain = DCGAN(**TINY).fit(images(), **settings)
    options: dict[str, Any] = {"ensemble": members, "features": members.members[0], "lambda_s": 2, **settings}
    near = DCGAN(**TINY).fit(images(), objective="near", **options)
    half = DCGAN(**TINY).fit(images(), objective="near", autocast="bf16", **options)
    assert len({plain.digest, near.digest, half.digest}) == 3
    assert near.digest == DCGAN(**TINY).fit(images(), objective="near", **options).digest
    task = DCGAN(**TINY).task(images(), Objective(name="near", ensemble=members, features=members.members[0]))
    assert loop.identity_of(task) != loop.identity_of(DCGAN(**TINY).task(images()))
