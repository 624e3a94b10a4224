"""Which detectors pass gradients to the images, and are they right? One row per name."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import Activations, ImageSet, Network, Panel, PostHoc, detectors
from farout.attacks.target import Target
from farout.detectors import KNN

EXPECTED = {
    "ash": "derivative",
    "dice": "derivative",
    "dn2": "derivative",
    "ebo": "derivative",
    "ensemble": "derivative",
    "entropy": "derivative",
    "gen": "derivative",
    "gradnorm": "derivative",
    "gram": "derivative, zero within the ranges",
    "klm": "derivative",
    "knn": "derivative",
    "mds": "derivative",
    "mds_layers": "derivative where no sign turns",
    "mls": "derivative",
    "msp": "derivative",
    "nnguide": "derivative",
    "odin": "derivative where no sign turns",
    "react": "derivative",
    "rmds": "derivative",
    "scale": "derivative",
    "she": "derivative",
    "temp_scaling": "derivative",
    "vim": "derivative",
}
PERTURBING = [name for name, kind in EXPECTED.items() if "sign" in kind]
STEP = 1e-6


class Small(nn.Module):
    """A classifier without batch norm; smooth but for its ReLU."""

    block_names: ClassVar[tuple[str, ...]] = ("first", "second")

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(6, 24, 3), nn.Softplus())
        self.head = nn.Linear(24, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.second(self.first(images)).flatten(1))
        return logits


def draw(total: int, seed: int) -> Tensor:
    return torch.rand(total, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def labeled(total: int, seed: int) -> ImageSet:
    return ImageSet.from_arrays(draw(total, seed), np.arange(total) % 4)


@pytest.fixture(scope="module")
def panel() -> Panel:
    """All of them on one network, fitted in float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(Small(), mean=0.5, std=0.25, side=8)
    other = {"knn": KNN(k=5), "nnguide": detectors.create("nnguide", k=10)}
    made = [other.get(name) or detectors.create(name) for name in detectors.names_of(PostHoc)]
    return Panel(network, [one for one in made if isinstance(one, PostHoc)]).fit(labeled(130, 1), labeled(70, 2))


def in_double(panel: Panel, name: str) -> Target:
    return Target(copy.deepcopy(panel.network).double(), panel.detectors[name])


def slopes(target: Target, images: Tensor) -> Tensor:
    """∂ score / ∂ pixels by autograd."""
    given = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(target.score(given).sum(), given)
    return found


def test_the_table_names_every_detector() -> None:
    assert sorted(EXPECTED) == detectors.names_of(PostHoc)


@pytest.mark.parametrize("name", EXPECTED)
def test_gradients_are_the_derivatives_along_random_directions(panel: Panel, name: str) -> None:
    target, images = in_double(panel, name), draw(6, 3).double()
    found = slopes(target, images)
    within = target.score(images) == 0 if name == "gram" else torch.zeros(6, dtype=torch.bool)
    assert torch.equal(found.flatten(1).any(1), ~within)
    assert not within.all()
    for seed in range(3):
        way = torch.randn(images.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        difference = (target.score(images + STEP * way) - target.score(images - STEP * way)) / (2 * STEP)
        along = (found * way).flatten(1).sum(1)
        assert torch.allclose(along, difference.detach(), rtol=1e-4, atol=1e-5 * float(along.abs().max()))


@pytest.mark.parametrize("name", EXPECTED)
def test_float32_images_get_the_same_gradient(panel: Panel, name: str) -> None:
    images = draw(6, 3)
    exact = slopes(in_double(panel, name), images.double()).flatten(1)
    found = slopes(Target(panel.network, panel.detectors[name]), images).double().flatten(1)
    assert ((found - exact).norm(dim=1) <= 1e-3 * exact.norm(dim=1)).all()


@pytest.mark.parametrize("name", EXPECTED)
def test_scores_are_the_panels(panel: Panel, name: str) -> None:
    images = draw(6, 4)
    found = Target(panel.network, panel.detectors[name]).score(images.clone().requires_grad_()).detach().numpy()
    np.testing.assert_allclose(found, panel.score(images)[name], rtol=1e-5, atol=1e-9)


def test_gram_has_no_gradient_within_its_ranges(panel: Panel) -> None:
    wide = copy.deepcopy(panel.detectors["gram"])
    for key in wide.state:
        side, _, _ = key.partition(":")
        wide.state[key] = torch.full_like(wide.state[key], {"low": -1e9, "high": 1e9}.get(side, 1.0))
    target, images = Target(panel.network, wide), draw(4, 5)
    assert (target.score(images) == 0).all()
    assert (slopes(target, images) == 0).all()


@pytest.mark.parametrize("name", PERTURBING)
def test_the_step_of_perturbing_detectors_moves_with_the_image(panel: Panel, name: str) -> None:
    target, images = in_double(panel, name), draw(5, 6).double()
    found = slopes(target, images)
    detector, network = panel.detectors[name], target.network
    assert network is not None
    with torch.enable_grad():
        if name == "odin":
            given = detector.perturbed(network, images).detach().requires_grad_()  # type: ignore[attr-defined]
            detector.score(network(given, needs=detector.needs)).sum().backward()
            expected = given.grad
        else:
            expected = torch.zeros_like(images)
            for block, sign in detector.signs(network, images).items():  # type: ignore[attr-defined]
                given = (images - detector.params["epsilon"] * sign).requires_grad_()
                distance = detector._nearest(block, network(given, needs={"means"}).means[block])  # type: ignore[attr-defined]
                weight = detector.state["weights"][list(network.block_names).index(block)]
                expected += torch.autograd.grad((weight * distance).sum(), given)[0]
    assert torch.allclose(found, expected, rtol=1e-9)


def test_members_of_a_panel_give_the_same_gradient(panel: Panel) -> None:
    images = draw(4, 7)
    by_network, by_images = (Target(panel.network, one) for one in (panel.detectors["mds"], panel["mds"]))
    assert torch.equal(slopes(by_network, images), slopes(by_images, images))


@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_fitted_in_inference_mode_takes_gradients(panel: Panel, name: str) -> None:
    network, detector = panel.network, panel.detectors[name]
    barred, images = copy.deepcopy(detector), draw(3, 8)
    with torch.inference_mode():
        barred.state = {key: value.clone() for key, value in detector.state.items()}
        twin = Network(copy.deepcopy(network.module), mean=0.5, std=0.25, side=8)
        for part in twin.modules():
            part._parameters = {
                key: None if p is None else nn.Parameter(p.clone()) for key, p in part._parameters.items()
            }
    assert all(value.is_inference() for value in [*barred.state.values(), *twin.parameters()])
    assert torch.equal(slopes(Target(twin, barred), images), slopes(Target(network, detector), images))
    assert all(value.is_inference() for value in barred.state.values())


def test_a_detector_that_cuts_the_graph_is_told() -> None:
    """The table above can fail."""

    class Cut(PostHoc):
        def score(self, activations: Activations) -> Tensor:
            return activations.logits.detach().double().amax(1)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        target = Target(Network(Small(), mean=0.5, std=0.25, side=8), Cut())
    with pytest.raises(RuntimeError, match="does not require grad"):
        slopes(target, draw(2, 0))
