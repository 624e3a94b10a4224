"""The panel: labels, scores, members, gradients, and what it says to wrong input."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farout import Activations, ImageSet, Network, NonFiniteScores, NotFitted, Panel, detectors
from farout.detectors import ASH, EBO, KNN, MSP, ViM
from farout.registry import UnknownName
from helpers.panels import ALL, Answering, OnVal, fitted, images, network, pixels


def test_what_reads_the_last_layer_is_fitted_with_the_panels() -> None:
    panel = fitted([ViM(dim=3), "react"])
    head = panel.network.head
    expected = -torch.linalg.pinv(head.weight.double()) @ head.bias.double()
    torch.testing.assert_close(panel.detectors["vim"].state["origin"], expected.detach())
    assert not any(value.requires_grad for d in panel.detectors.values() for value in d.state.values())


def test_scores_are_those_of_each_detector_alone() -> None:
    panel, test = fitted(), images(70, 3)
    with torch.inference_mode():
        needs = frozenset().union(*(detector.needs for detector in ALL))
        train, val = (panel.network(given, needs=needs) for given in (pixels(130, 1), pixels(70, 2)))
        found = panel.network(test.batch(range(70)), needs=needs)
    scores = panel.score(test)
    assert list(scores) == [detector.name for detector in ALL]
    for (name, values), alone in zip(scores.items(), copy.deepcopy(ALL), strict=True):
        known = val if alone.fits_on == "val" else train
        reference = alone.fit(known, torch.arange(len(known)) % 4).score(found).numpy()
        np.testing.assert_allclose(values, reference, rtol=1e-4, atol=1e-5 * np.ptp(values), err_msg=name)
        assert values.dtype == np.float64


@pytest.mark.parametrize("empty", [torch.empty(0, 3, 8, 8), images(5, 1).subset([])], ids=["tensor", "set"])
def test_nothing_in_nothing_out(empty: Any) -> None:
    scores = fitted().score(empty)
    assert {name: values.tolist() for name, values in scores.items()} == {name: [] for name in scores}
    assert all(values.dtype == np.float64 for values in scores.values())


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["msp"], ["msp"]),
        ([KNN(k=10)], ["knn"]),
        (["knn", KNN(k=10), "msp"], ["knn", "knn(k=10)", "msp"]),
        ([KNN(k=7), KNN(k=10)], ["knn(k=7)", "knn(k=10)"]),
        ([EBO(temperature=2.0), "ebo"], ["ebo(temperature=2.0)", "ebo"]),
        ({"near": KNN(k=1), "far": "knn"}, ["near", "far"]),
        (["ash", ASH(kind="B"), ASH(variant="openood")], ["ash", "ash(kind=B)", "ash(variant=openood)"]),
    ],
)
def test_labels_tell_detectors_apart(given: Any, labels: list[str]) -> None:
    panel = Panel(network(), given)
    assert list(panel.detectors) == labels
    assert repr(panel) == f"Panel({', '.join(labels)})"


def test_labels_do_not_ask_for_parameters_without_defaults() -> None:
    panel = Panel(network(), [Answering(answer=torch.zeros), Answering(answer=torch.ones)])
    zeros, ones = panel.score(pixels(2, 1)).values()
    assert (zeros.tolist(), ones.tolist()) == ([0, 0], [1, 1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["knn", "knn"], ValueError, "has knn twice"),
        (["knn", KNN()], ValueError, "has knn twice"),
        ([KNN(k=3), KNN(k=3)], ValueError, r"has knn\(k=3\) twice"),
        ([], ValueError, "at least one detector"),
        ("knn", TypeError, r"got the string 'knn'; write \['knn'\]"),
        ({"a/b": "knn"}, ValueError, r"without '/', got \['a/b'\]"),
        ({"": "knn"}, ValueError, "non-empty"),
        ([MSP], TypeError, "got the .*MSP"),
        (["kn"], UnknownName, "unknown detector 'kn'. Did you mean 'knn'"),
        (["energy"], UnknownName, "Known: " + ", ".join(detectors.names())),
    ],
)
def test_wrong_members_are_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Panel(network(), given)


def test_a_bare_module_is_to_be_wrapped() -> None:
    with pytest.raises(TypeError, match=r"got Linear; wrap it: farout\.Network"):
        Panel(nn.Linear(2, 2), ["msp"])  # type: ignore[arg-type]


def test_an_unknown_member_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown detector of this panel: 'entrop'. Did you mean 'entropy'"):
        Panel(network(), ["msp", "entropy"])["entrop"]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (torch.zeros(5, 8, 8), ValueError, r"got shape \(5, 8, 8\)"),
        (torch.zeros(8, 8), ValueError, r"got shape \(8, 8\)"),
        (torch.zeros(2, 8, 8, 3), ValueError, r"1 or 3 channels, got shape \(2, 8, 8, 3\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), TypeError, "got torch.int64; divide 8-bit images by 255"),
        (torch.full((2, 3, 8, 8), 255.0), ValueError, "got values from 255 to 255"),
        (torch.full((2, 3, 8, 8), -0.5), ValueError, "got values from -0.5 to -0.5"),
        (torch.full((2, 3, 8, 8), torch.nan), ValueError, "got 384 NaN"),
    ],
)
def test_wrong_images_are_refused(wrong: Tensor, error: type[Exception], message: str) -> None:
    panel = Panel(network(), ["msp"])
    with pytest.raises(error, match=message):
        panel.score(wrong)
    with pytest.raises(error, match=message):
        panel["msp"].score(wrong)


def test_color_images_do_not_pass_a_gray_network() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="needs 1-channel images, got 3 channels"):
        Panel(Network(module, mean=0.5, std=0.5), ["msp"]).score(pixels(2, 1))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda n: torch.zeros(n, 1), ValueError, r"answering .*returned scores of shape \(7, 1\) for 7 images"),
        (lambda n: torch.zeros(n - 1), ValueError, r"answering .*returned scores of shape \(6,\) for 7 images"),
        (lambda n: 0.5, ValueError, r"shape \(\) for 7 images, expected \(7,\)"),
        (lambda n: torch.zeros(n, dtype=torch.bool), TypeError, r"answering .*returned bool scores"),
        (lambda n: torch.zeros(n, dtype=torch.complex64), TypeError, r"answering .*returned complex64 scores"),
    ],
)
def test_what_is_no_score_is_refused(answer: Any, error: type[Exception], message: str) -> None:
    panel = Panel(network(), ["msp", Answering(answer=answer)])
    with pytest.raises(error, match=message):
        panel.score(pixels(7, 1))


def test_bfloat16_scores_are_scores() -> None:
    panel = Panel(network(), [Answering(answer=lambda n: torch.arange(n).bfloat16() / 2)])
    assert panel.score(pixels(4, 1))["answering"].tolist() == [0, 0.5, 1, 1.5]


def test_non_finite_scores_name_detector_set_and_count() -> None:
    def answer(total: int) -> Tensor:
        return torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(23)[:total]

    panel = Panel(network(), ["msp", Answering(answer=answer)])
    with pytest.raises(NonFiniteScores, match="answering gave 24 NaN and 44 infinite scores among 68 on holidays"):
        panel.score(images(68, 1, name="holidays"))
    with pytest.raises(NonFiniteScores, match="answering gave 1 NaN and 1 infinite scores among 2 on images"):
        panel.score(pixels(2, 1))
    with pytest.raises(NonFiniteScores, match="on validation set"):
        panel.fit(val=images(68, 1, name="validation set"))


@pytest.mark.parametrize(("name", "label"), [("knn", "knn"), ("mds", "mds")])
def test_scoring_before_fitting_is_an_error(name: str, label: str) -> None:
    panel = Panel(network(), [name])
    assert not panel.fitted
    with pytest.raises(NotFitted, match=f"{label} is not fitted"):
        panel.score(pixels(2, 1))
    with pytest.raises(NotFitted, match=f"{label} is not fitted"):
        panel[label].score(pixels(2, 1))


def test_a_split_that_is_missing_empty_or_too_small_is_named_before_the_work() -> None:
    panel = Panel(network(), ["msp", "knn", "mds", OnVal()])
    with pytest.raises(ValueError, match="knn, mds must be fitted on the inliers' train split: pass train="):
        panel.fit(val=images(70, 2))
    with pytest.raises(ValueError, match="on_val must be fitted on the inliers' val split: pass val="):
        panel.fit(images(60, 1))
    with pytest.raises(ValueError, match="the val split 'nothing' is empty"):
        panel.fit(images(60, 1), images(3, 2).subset([], name="nothing"))
    with pytest.raises(ValueError, match="k=50 needs at least that many training images, got 49"):
        panel.fit(images(49, 1), images(70, 2))
    with pytest.raises(ValueError, match="mds needs the class of every training image"):
        panel.fit(ImageSet.from_arrays(pixels(60, 1)), images(70, 2))
    assert not panel.network.module.seen, "nothing may run before the check"


def test_an_error_in_fit_says_which_detector_and_how_many_images() -> None:
    class Failing(OnVal):
        def fit(self, activations: Activations, labels: Tensor | None) -> Failing:
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck") as caught:
        Panel(network(), {"it": Failing()}).fit(val=images(5, 2))
    assert caught.value.__notes__ == ["while fitting it on 5 images of the val split"]


@pytest.mark.parametrize("name", [detector.name for detector in ALL])
def test_gradients_reach_images_that_ask_for_them(name: str) -> None:
    member, given = fitted()[name], pixels(1, 3).clamp(0.02, 0.98).requires_grad_()
    (gradient,) = torch.autograd.grad(member.score(given).sum(), given)
    step = torch.zeros(gradient.numel())
    step[gradient.abs().argmax()] = 0.01
    up, down = (member.score(given.detach() + sign * step.view_as(given)).item() for sign in (1, -1))
    assert (up - down) / 0.02 == pytest.approx(gradient.flatten()[gradient.abs().argmax()].item(), rel=0.05)


def test_members_score_as_the_panel_does_and_without_a_graph() -> None:
    panel, given = fitted(), pixels(20, 3)
    for name, values in panel.score(given).items():
        scores = panel[name].score(given)
        assert not scores.requires_grad
        assert panel[name].name == name
        np.testing.assert_array_equal(scores.numpy(), values)
        assert panel[name].score(given[:0]).tolist() == []


def test_a_member_fits_the_panels_own_detector() -> None:
    panel = Panel(network(), ["knn", "msp"])
    panel["knn"].fit(images(130, 1))
    assert panel.fitted
    reference = Panel(network(), ["knn"]).fit(images(130, 1)).score(pixels(9, 3))["knn"]
    np.testing.assert_array_equal(panel.score(pixels(9, 3))["knn"], reference)


def test_a_members_identity_is_its_detectors_its_networks_and_what_it_learned() -> None:
    panel = Panel(network(), [KNN(k=3)])
    member = panel["knn"]
    expected = {"name": "knn", "version": 1, "params": KNN(k=3).identity()["params"], "network": panel.network.digest}
    identities = []
    for seed in (1, 2, 1):
        member.fit(images(130, seed))
        identities.append(member.identity())  # type: ignore[attr-defined]
        assert {key: identities[-1][key] for key in expected} == expected
    assert identities[0] == identities[2] != identities[1]
