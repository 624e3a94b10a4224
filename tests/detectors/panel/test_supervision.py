"""Supervised detectors: who sees the outliers to learn from, how many inliers beside them, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from farout import Activations, ImageSet, Network, Panel, PostHoc, stress
from farout.core import Split
from farout.detectors import KNN, MDSLayers
from farout.detectors.panel.provenance import ImagesRecord
from farout.detectors.panel.supervision import note
from helpers.panels import OnVal, images, network, pixels


@dataclass(kw_only=True)
class Middle(PostHoc):
    """Signed distance of the largest logit from the middle between inliers and outliers.

    Without outliers it is the distance from the training mean. dim: what the images are multiplied by beforehand.
    """

    name: ClassVar[str] = "middle"
    fits_on: ClassVar[Split | None] = "train"
    supervised: ClassVar[bool] = True
    dim: float = 1.0

    @property
    def perturbs(self) -> bool:
        return self.dim != 1

    def perturbed_pass(self, network: Network, images: Tensor) -> Activations:
        return super().perturbed_pass(network, images * self.dim)

    def fit(self, activations: Activations, labels: Tensor | None) -> Middle:
        self.state = {"middle": activations.logits.amax(1).double().mean(), "side": torch.tensor(0.0).double()}
        return self

    def supervise(self, inliers: Activations, outliers: Activations) -> None:
        x, y = (given.logits.amax(1).double() for given in (inliers, outliers))
        counts = torch.tensor([len(inliers), len(outliers)])
        self.state |= {"middle": (x.mean() + y.mean()) / 2, "side": (y.mean() - x.mean()).sign(), "counts": counts}

    def score(self, activations: Activations) -> Tensor:
        distance = activations.logits.amax(1).double() - self.fitted("middle")
        return distance * self.fitted("side") if self.fitted("side") else distance.abs()


TRAIN, VAL, OUTLIERS = images(130, 1), images(70, 2), images(40, 3, "others")


def largest(given: Tensor) -> Tensor:
    with torch.inference_mode():
        return network()(given).logits.amax(1).double()


@pytest.mark.parametrize("dim", [1.0, 0.3], ids=["as they are", "dimmed"])
def test_it_learns_from_outliers_and_as_many_inliers_as_it_will_read_them(dim: float) -> None:
    panel = Panel(network(), {"it": Middle(dim=dim), "msp": "msp"}).fit(TRAIN, VAL, OUTLIERS)
    state = panel.detectors["it"].state
    assert state["counts"].tolist() == [40, 40]
    seen = panel.network.module.seen
    chosen = [image for image in pixels(70, 2) if seen[(image * dim)[0, 0, 0].item()] > 1]
    assert len(chosen) == 40, "the inliers that were looked at to learn, and again to validate"
    x, y = largest(torch.stack(chosen) * dim), largest(pixels(40, 3) * dim)
    torch.testing.assert_close(state["middle"], (x.mean() + y.mean()) / 2, rtol=1e-6, atol=1e-7)
    assert state["side"] == (y.mean() - x.mean()).sign()
    expected = (largest(pixels(70, 2) * dim) - state["middle"]) * state["side"]
    np.testing.assert_allclose(panel.validation["it"], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(panel.validation["it"], panel.score(VAL)["it"])


@pytest.mark.parametrize("dim", [1.0, 0.3], ids=["as they are", "dimmed"])
def test_the_others_never_see_the_outliers(dim: float) -> None:
    """Each outlier passes the network once, for the one that learns from it; the others are as without."""
    members: Any = {"knn": KNN(k=5), "it": Middle(dim=dim), "val": OnVal(), "odin": "odin"}
    panel = Panel(network(), members).fit(TRAIN, VAL, OUTLIERS)
    seen = panel.network.module.seen
    assert [seen[(image * dim)[0, 0, 0].item()] for image in pixels(40, 3)] == [1] * 40
    plain = {name: detector for name, detector in panel.detectors.items() if name != "it"}
    without = Panel(network(), {"knn": KNN(k=5), "val": OnVal(), "odin": "odin"}).fit(TRAIN, VAL)
    for name, detector in plain.items():
        other = without.detectors[name].state
        assert detector.state.keys() == other.keys()
        assert all(torch.equal(value, other[key]) for key, value in detector.state.items())
        np.testing.assert_array_equal(panel.validation[name], without.validation[name])
    assert without.network.module.seen.total() == 130 + 70 + 2 * 70


def test_more_outliers_than_inliers_are_told_from_all_of_these() -> None:
    panel = Panel(network(), [Middle()]).fit(TRAIN, VAL.limit(10), OUTLIERS)
    assert panel.detectors["middle"].state["counts"].tolist() == [10, 40]


def test_without_outliers_fit_must_do() -> None:
    panel = Panel(network(), [Middle()]).fit(TRAIN, VAL)
    mean = largest(pixels(130, 1)).mean()
    np.testing.assert_allclose(panel.validation["middle"], (largest(pixels(70, 2)) - mean).abs(), rtol=1e-4, atol=1e-7)


def test_tuning_does_not_teach_by_the_outliers_it_judges_on() -> None:
    panel = Panel(network(), [Middle()]).tune({"middle": {"dim": [1.0, 0.5]}}, TRAIN, VAL, outliers=OUTLIERS)
    assert panel.detectors["middle"].state["side"] == 0
    assert "counts" not in panel.detectors["middle"].state


@pytest.mark.parametrize(
    ("members", "changes", "message"),
    [
        (["knn", Middle()], {"val": None}, "needs inliers of the validation split: pass val="),
        (["knn", "msp"], {}, "none of knn, msp learns from outliers: leave outliers= out"),
        ([Middle()], {"outliers": OUTLIERS.subset([])}, "the outliers 'others' to learn from are an empty set"),
        ([Middle()], {"outliers": VAL}, "the val split and the outliers are the same images"),
        ([Middle()], {"train": None}, "middle must be fitted on the inliers' train split"),
    ],
)
def test_outliers_that_cannot_serve_are_refused_before_the_work(members: Any, changes: Any, message: str) -> None:
    panel = Panel(network(), members)
    given: dict[str, ImageSet | None] = {"train": TRAIN, "val": VAL, "outliers": OUTLIERS} | changes
    with pytest.raises(ValueError, match=message):
        panel.fit(**given)  # type: ignore[arg-type]
    assert not panel.network.module.seen


def test_it_is_remembered_what_was_learned_from(tmp_path: Path) -> None:
    """Also on disk, and of one member alone; fitting or tuning without outliers forgets it."""
    members: Any = {"it": MDSLayers(epsilon=0.0), "other": MDSLayers(), "msp": "msp"}
    panel, record = Panel(network(), members).fit(TRAIN, VAL, OUTLIERS.limit(30)), ImagesRecord.of(OUTLIERS.limit(30))
    assert panel.learned == {"it": record, "other": record}
    panel.save(tmp_path / "panel")
    assert Panel.load(tmp_path / "panel", panel.network).learned == panel.learned
    assert panel.only("it").learned == {"it": record}
    panel["it"].fit(TRAIN)
    assert panel.learned == {"other": record}
    panel.tune({"it": {"epsilon": [0.0]}}, TRAIN, VAL, outliers=OUTLIERS)
    assert panel.learned == {}
    assert panel.fit(TRAIN, VAL, OUTLIERS).learned.keys() == {"it", "other"}
    assert panel.fit(TRAIN, VAL).learned == {}


@pytest.mark.parametrize(
    ("tested", "expected"),
    [
        (images(9, 8), ""),
        (OUTLIERS, "; tested on outliers (far) from the set it learned from, maybe the same images"),
        (OUTLIERS.limit(30), "; tested on the outliers it learned from (far)"),
    ],
)
def test_a_test_on_what_was_learned_from_says_so(tested: ImageSet, expected: str) -> None:
    panel = Panel(network(), {"it": Middle(), "msp": "msp"}).fit(TRAIN, VAL, OUTLIERS.limit(30))
    told = note("it", panel.learned["it"], {"near": images(9, 9), "far": tested})
    assert told == f"it: learned from 30 images of others{expected}"
    assert stress(panel, images(20, 7), tested, protocols="clean").notes == [told.replace("(far)", f"({tested.name})")]


def test_one_that_forgot_to_write_supervise_is_told_so() -> None:
    @dataclass(kw_only=True)
    class Forgetful(OnVal):
        supervised: ClassVar[bool] = True

    with pytest.raises(NotImplementedError, match="Forgetful must define supervise, or set supervised = False"):
        Panel(network(), [Forgetful()]).fit(val=VAL, outliers=OUTLIERS)
