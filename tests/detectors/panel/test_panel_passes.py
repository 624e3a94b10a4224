"""What passes the network, how often, and in which order."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from farout import Activations, Network, Panel, PostHoc
from farout.core import Split
from farout.detectors import ODIN
from helpers.counting import Counting
from helpers.panels import ALL, PERTURBING, OnVal, fitted, images, network, pixels


def test_every_image_passes_the_network_exactly_once() -> None:
    panel = Panel(network(), [*ALL, OnVal()])
    train, val, test = images(150, 1), images(70, 2), images(90, 3)
    panel.fit(train, val)
    panel.score(test)
    panel.threshold()
    expected = Counter(torch.cat([pixels(150, 1), pixels(70, 2), pixels(90, 3)])[:, 0, 0, 0].tolist())
    assert len(expected) == 310
    assert panel.network.module.seen == expected


def test_the_training_split_is_not_run_where_nothing_fits_on_it() -> None:
    panel = Panel(network(), ["msp", "ebo"]).fit(images(150, 1), images(70, 2))
    assert panel.network.module.seen.total() == 70


def test_one_that_perturbs_costs_a_gradient_and_a_pass_of_its_own() -> None:
    """The others share one pass as before."""
    panel = Panel(network(), [*ALL, "odin", ODIN(epsilon=0.1)])
    panel.fit(images(150, 1), images(70, 2))
    assert panel.network.module.seen.total() == 150 + 70 * (1 + 2 * 2)
    panel.network.module.seen.clear()
    panel.score(images(90, 3))
    assert panel.network.module.seen.total() == 90 * (1 + 2 * 2)


def test_one_that_perturbs_alone_needs_no_shared_pass() -> None:
    panel = Panel(network(), ["odin"]).fit(images(150, 1), images(70, 2))
    panel.score(images(90, 3))
    assert panel.network.module.seen.total() == 2 * (70 + 90)


@dataclass(kw_only=True)
class Dimming(OnVal):
    """Fits on the images as they are, and looks at darker ones by what it has learned."""

    name: ClassVar[str] = "dimming"
    perturbs: ClassVar[bool] = True  # type: ignore[misc]

    def perturbed_pass(self, network: Network, images: Tensor) -> Activations:
        return super().perturbed_pass(network, images * self.fitted("mean").sigmoid().float())


def test_a_perturbation_may_use_what_was_fitted_on_the_images_as_they_are() -> None:
    panel = Panel(network(), {"it": Dimming(), "msp": "msp"}).fit(val=images(70, 2))
    with torch.inference_mode():
        mean = panel.network(pixels(70, 2)).logits.amax(1).double().mean()
        dimmed = panel.network(pixels(9, 3) * mean.sigmoid().float()).logits.amax(1).double()
    np.testing.assert_allclose(panel.score(pixels(9, 3))["it"], (dimmed - mean).abs(), rtol=1e-4)
    np.testing.assert_allclose(panel["it"].score(pixels(9, 3)), (dimmed - mean).abs(), rtol=1e-4)
    assert list(panel.score(pixels(9, 3))) == ["it", "msp"]
    np.testing.assert_array_equal(panel.validation["it"], panel.score(images(70, 2))["it"])


def test_validation_scores_of_one_that_perturbs_are_those_of_scoring() -> None:
    panel = fitted(["msp", "odin"])
    np.testing.assert_array_equal(panel.validation["odin"], panel.score(images(70, 2))["odin"])


@pytest.mark.parametrize(("member", "passes"), [("msp", 0), ("knn", 60), ("mds", 60), (OnVal(), 60), ("react", 60)])
def test_a_member_runs_every_image_once_to_fit_and_once_to_score(member: Any, passes: int) -> None:
    panel = Panel(network(), [member])
    (detector,) = (panel[name] for name in panel.detectors)
    detector.fit(images(60, 1))
    assert panel.network.module.seen.total() == passes
    detector.score(pixels(10, 2))
    assert panel.network.module.seen.total() == passes + 10


def test_progress_counts_every_image() -> None:
    listener = Counting()
    panel = Panel(network(), ["knn"]).fit(images(130, 1), images(70, 2), progress=listener)
    assert listener.counts == [64, 64, 2, 64, 6]
    panel.score(images(65, 3), progress=listener)
    assert listener.counts[5:] == [64, 1]


def test_activations_are_stored_in_the_order_of_the_labels() -> None:
    @dataclass(kw_only=True)
    class Remember(OnVal):
        fits_on: ClassVar[Split | None] = "train"
        needs: ClassVar[frozenset[str]] = frozenset({"logits", "features", "blocks"})

        def fit(self, activations: Activations, labels: Tensor | None) -> Remember:
            assert labels is not None
            self.state = {"mean": torch.zeros(()), "labels": labels, "block": activations.blocks["features.0"]}
            return self

    panel = Panel(network(blocks=["features.0"]), {"it": Remember()}).fit(images(130, 1))
    state = panel.detectors["it"].state
    assert state["labels"].tolist() == [i % 4 for i in range(130)]
    expected = panel.network.module.features[0](pixels(130, 1)).detach()
    torch.testing.assert_close(state["block"], expected)


def test_input_cut_at_the_same_places_gives_the_same_bits() -> None:
    panel, whole = fitted(), pixels(150, 3)
    scores = panel.score(whole)
    from_set = panel.score(images(150, 3))
    parts = [panel.score(whole[start : start + 64]) for start in (0, 64, 128)]
    for name, values in scores.items():
        np.testing.assert_array_equal(values, from_set[name])
        np.testing.assert_array_equal(values, np.concatenate([part[name] for part in parts]))


def test_other_cuts_move_scores_by_rounding_only() -> None:
    panel, whole = fitted(), pixels(30, 3)
    scores, singles = panel.score(whole), [panel.score(image[None]) for image in whole]
    for name, values in scores.items():
        alone = [single[name][0] for single in singles]
        np.testing.assert_allclose(alone, values, rtol=1e-4, atol=1e-5 * np.ptp(values), err_msg=name)


def test_fitting_and_scoring_leave_modes_and_weights_alone() -> None:
    panel = Panel(network(), ["knn"])
    panel.network.train()
    panel.network.module.features[1].eval()
    modes = {name: part.training for name, part in panel.network.named_modules()}
    before = panel.network.digest
    panel.fit(images(60, 1), images(20, 2))
    scores = panel.score(pixels(9, 3))["knn"]
    panel["knn"].score(pixels(9, 3))
    assert {name: part.training for name, part in panel.network.named_modules()} == modes
    assert panel.network.digest == before
    panel.network.eval()
    np.testing.assert_array_equal(panel.score(pixels(9, 3))["knn"], scores)


@pytest.mark.parametrize("member", [*ALL, *PERTURBING], ids=lambda member: member.name)
def test_gradients_flow_whatever_mode_a_panel_was_fitted_and_loaded_in(member: PostHoc, tmp_path: Path) -> None:
    panel = Panel(network(), {"it": copy.deepcopy(member)})
    with torch.inference_mode():
        panel.fit(images(130, 1), images(70, 2))
        panel.save(tmp_path / "panel")
        loaded = Panel.load(tmp_path / "panel", panel.network)
    for one in (panel, loaded):
        given = pixels(3, 3).requires_grad_()
        one["it"].score(given).sum().backward()
        assert given.grad is not None
        assert given.grad.isfinite().all()


@pytest.mark.parametrize("member", ["msp", "odin"])
def test_a_member_scores_in_evaluation_mode_and_leaves_the_network_in_its_own(member: str) -> None:
    panel, given = Panel(network(), [member]), pixels(20, 3)
    expected = panel.score(given)[member]
    panel.network.train()
    np.testing.assert_array_equal(panel[member].score(given), expected)
    np.testing.assert_array_equal(panel[member].score(given.requires_grad_()).detach(), expected)
    assert all(part.training for part in panel.network.modules())
