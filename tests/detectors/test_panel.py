"""The panel: one pass per image, labels, thresholds, saving, gradients, and what it says to wrong input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from farout import Activations, ImageSet, Network, NonFiniteScores, NotFitted, Panel, PostHoc, detectors
from farout.core import Split
from farout.detectors import ASH, EBO, KNN, MSP, ODIN, ViM
from farout.detectors.saved import state_digest
from farout.registry import UnknownName

ALL = [*(name for name in detectors.names() if name not in ("knn", "odin")), KNN(k=5)]
"""All that read the images as they are."""


class Counting(nn.Module):
    """A small classifier that remembers the first pixel of every image it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[float] = Counter()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(24, 4)

    def forward(self, images: Tensor) -> Tensor:
        self.seen.update(images[:, 0, 0, 0].tolist())
        logits: Tensor = self.head(self.features(images).flatten(1))
        return logits


def network(seed: int = 0, **options: Any) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Counting()
    wrapped = Network(module, **{"mean": 0.0, "std": 1.0} | options)
    module.seen.clear()
    return wrapped


def pixels(total: int, seed: int) -> Tensor:
    """Images whose first pixel tells them apart."""
    images = torch.rand(total, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    images[:, 0, 0, 0] = (seed * 1000 + torch.arange(total)) / 1e5
    return images


def images(total: int, seed: int, name: str = "set") -> ImageSet:
    return ImageSet.from_arrays(pixels(total, seed), np.arange(total) % 4, name=name)


def fitted(members: Any = ALL, **options: Any) -> Panel:
    return Panel(network(**options), members).fit(images(130, 1), images(70, 2))


@dataclass(kw_only=True)
class Answering(PostHoc):
    """Answers what it was told to, whatever it is asked."""

    name: ClassVar[str] = "answering"
    answer: Callable[[int], Any]

    def score(self, activations: Activations) -> Tensor:
        value: Tensor = self.answer(len(activations))
        return value


@dataclass(kw_only=True)
class OnVal(PostHoc):
    """Distance of the largest logit from its mean on the validation split."""

    name: ClassVar[str] = "on_val"
    fits_on: ClassVar[Split | None] = "val"

    def fit(self, activations: Activations, labels: Tensor | None) -> OnVal:
        self.state = {"mean": activations.logits.amax(1).double().mean()}
        return self

    def score(self, activations: Activations) -> Tensor:
        return (activations.logits.amax(1).double() - self.fitted("mean")).abs()


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
    perturbs: ClassVar[bool] = True

    def perturb(self, network: Network, images: Tensor) -> Tensor:
        return images * self.fitted("mean").sigmoid().float()


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


def test_what_reads_the_last_layer_is_fitted_with_the_panels() -> None:
    panel = fitted([ViM(dim=3), "react"])
    head = panel.network.head
    expected = -torch.linalg.pinv(head.weight.double()) @ head.bias.double()
    torch.testing.assert_close(panel.detectors["vim"].state["origin"], expected.detach())
    assert not any(value.requires_grad for d in panel.detectors.values() for value in d.state.values())


@pytest.mark.parametrize(("member", "passes"), [("msp", 0), ("knn", 60), ("mds", 60), (OnVal(), 60), ("react", 60)])
def test_a_member_runs_every_image_once_to_fit_and_once_to_score(member: Any, passes: int) -> None:
    panel = Panel(network(), [member])
    (detector,) = (panel[name] for name in panel.detectors)
    detector.fit(images(60, 1))
    assert panel.network.module.seen.total() == passes
    detector.score(pixels(10, 2))
    assert panel.network.module.seen.total() == passes + 10


def test_scores_are_those_of_each_detector_alone() -> None:
    panel, test = fitted(), images(70, 3)
    with torch.inference_mode():
        train, val = panel.network(pixels(130, 1)), panel.network(pixels(70, 2))
        found = panel.network(test.batch(range(70)))
    scores = panel.score(test)
    assert sorted(scores) == [name for name in detectors.names() if name != "odin"]
    for name, values in scores.items():
        alone = KNN(k=5) if name == "knn" else detectors.create(name)
        assert isinstance(alone, PostHoc)
        known = val if alone.fits_on == "val" else train
        reference = alone.fit(known, torch.arange(len(known)) % 4).score(found).numpy()
        np.testing.assert_allclose(values, reference, rtol=1e-4, err_msg=name)
        assert values.dtype == np.float64


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
        np.testing.assert_allclose([single[name][0] for single in singles], values, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("empty", [torch.empty(0, 3, 8, 8), images(5, 1).subset([])], ids=["tensor", "set"])
def test_nothing_in_nothing_out(empty: Any) -> None:
    scores = fitted().score(empty)
    assert {name: values.tolist() for name, values in scores.items()} == {name: [] for name in scores}
    assert all(values.dtype == np.float64 for values in scores.values())


def test_progress_counts_every_image() -> None:
    counts: list[int] = []
    panel = Panel(network(), ["knn"]).fit(images(130, 1), images(70, 2), progress=counts.append)
    assert counts == [64, 64, 2, 64, 6]
    panel.score(images(65, 3), progress=counts.append)
    assert counts[5:] == [64, 1]


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
        (["knn", "knn"], ValueError, "names knn twice"),
        (["knn", KNN()], ValueError, "names knn twice"),
        ([KNN(k=3), KNN(k=3)], ValueError, r"names knn\(k=3\) twice"),
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


def test_saving_and_loading_keeps_every_bit(tmp_path: Path) -> None:
    panel = fitted([*ALL, KNN(k=3), "odin", ASH(kind="B")])
    panel.save(tmp_path / "panel.safetensors")
    loaded = Panel.load(tmp_path / "panel.safetensors", network())
    assert list(loaded.detectors) == list(panel.detectors)
    assert list(loaded.detectors)[-4:] == ["knn(k=5)", "knn(k=3)", "odin", "ash(kind=B)"]
    assert {name: state_digest(d) for name, d in loaded.detectors.items()} == {
        name: state_digest(d) for name, d in panel.detectors.items()
    }
    assert loaded.fitted
    assert loaded.threshold(0.9) == panel.threshold(0.9)
    before, after = panel.score(pixels(50, 3)), loaded.score(pixels(50, 3))
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


def test_the_file_is_tensors_and_json(tmp_path: Path) -> None:
    panel = fitted(["knn"])
    panel.save(tmp_path / "panel")
    with safe_open(str(tmp_path / "panel"), framework="np") as file:
        facts = json.loads(file.metadata()["farout"])
        assert sorted(file.keys()) == ["knn//validation", "knn/bank", "knn/lengths"]
        np.testing.assert_array_equal(file.get_tensor("knn//validation"), panel.validation["knn"])
    assert facts["detectors"] == {"knn": {"name": "knn", "version": 1, "params": {"k": 50}}}
    assert facts["network"] == panel.network.digest


def test_an_unfitted_panel_comes_back_unfitted(tmp_path: Path) -> None:
    Panel(network(), ["knn", "msp"]).save(tmp_path / "panel")
    loaded = Panel.load(tmp_path / "panel", network())
    assert not loaded.fitted
    with pytest.raises(NotFitted, match="knn is not fitted"):
        loaded.score(pixels(2, 3))


def test_a_panel_does_not_load_onto_another_network(tmp_path: Path) -> None:
    panel = fitted(["knn"])
    panel.save(tmp_path / "panel")
    for other in (network(seed=1), network(mean=0.1)):
        with pytest.raises(ValueError, match=f"another network .*{panel.network.digest[:12]}.*{other.digest[:12]}"):
            Panel.load(tmp_path / "panel", other)


@pytest.mark.parametrize("members", [[KNN(k=4)], ["mds"], ["knn", "msp"]])
def test_other_parameters_do_not_take_over_what_was_fitted(members: Any, tmp_path: Path) -> None:
    fitted(["knn"]).save(tmp_path / "panel")
    with pytest.raises(ValueError, match=r"holds .*'k': 50.*this panel is .*fit it again"):
        Panel(network(), members).load_state(tmp_path / "panel")


def test_a_detector_of_another_version_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted(["knn"]).save(tmp_path / "panel")
    monkeypatch.setattr(KNN, "version", 2)
    with pytest.raises(ValueError, match=r"'version': 1.*'version': 2.*fit it again"):
        Panel.load(tmp_path / "panel", network())


def test_loading_replaces_what_was_fitted_before(tmp_path: Path) -> None:
    Panel(network(), ["knn"]).fit(images(130, 1)).save(tmp_path / "panel")
    panel = fitted(["knn"])
    panel.load_state(tmp_path / "panel")
    with pytest.raises(NotFitted, match="thresholds need"):
        panel.threshold()


def test_parameters_that_are_tuples_load_too(tmp_path: Path) -> None:
    @dataclass(kw_only=True)
    class Weighted(OnVal):
        name: ClassVar[str] = "weighted"
        weights: tuple[float, ...] = (1.0, 2.0)

    panel = Panel(network(), [Weighted()]).fit(val=images(70, 2))
    panel.save(tmp_path / "panel")
    other = Panel(network(), [Weighted()])
    other.load_state(tmp_path / "panel")
    np.testing.assert_array_equal(other.score(pixels(9, 3))["weighted"], panel.score(pixels(9, 3))["weighted"])


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"{}" * 100])
def test_a_file_of_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "panel").write_bytes(content)
    with pytest.raises(ValueError, match="panel is not a saved panel"):
        Panel.load(tmp_path / "panel", network())


def test_other_tensors_and_later_formats_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "tensors")
    with pytest.raises(ValueError, match="tensors is not a saved panel"):
        Panel.load(tmp_path / "tensors", network())
    save_file({"a": torch.zeros(1)}, tmp_path / "later", metadata={"farout": '{"format": 2}'})
    with pytest.raises(ValueError, match="has format 2, this version reads format 1"):
        Panel.load(tmp_path / "later", network())


@pytest.mark.parametrize("recall", [0.01, 0.07, 0.14, 0.5, 0.55, 0.9, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("total", [1, 20, 50, 100])
def test_the_threshold_is_the_smallest_score_that_keeps_the_recall(recall: float, total: int) -> None:
    panel = Panel(network(), ["msp"])
    scores = np.random.default_rng(total).normal(size=total).round(1)
    panel.validation = {"msp": scores}
    keeping = [t for t in scores if (scores <= t).sum() / total >= recall]
    assert panel.threshold(recall) == {"msp": min(keeping)}


def test_thresholds_come_from_the_validation_split() -> None:
    panel = fitted()
    expected = panel.score(images(70, 2))
    for name, threshold in panel.threshold(0.8).items():
        kept = ((expected[name] <= threshold) | np.isclose(expected[name], threshold, rtol=1e-9)).mean()
        assert 0.8 <= kept < 0.8 + 2 / 70, name


def test_fitting_without_a_validation_split_forgets_the_old_thresholds() -> None:
    panel = fitted(["msp", "knn"]).fit(images(130, 1))
    with pytest.raises(NotFitted, match=r"thresholds need inlier validation scores: call fit\(train, val"):
        panel.threshold()


@pytest.mark.parametrize("recall", [0.0, -0.1, 1.01, 95, float("nan")])
def test_a_recall_lies_between_0_and_1(recall: float) -> None:
    with pytest.raises(ValueError, match=r"recall must lie in .*use 0.95 instead of 95"):
        fitted(["msp"]).threshold(recall)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (torch.zeros(3, 8, 8), ValueError, r"got shape \(3, 8, 8\)"),
        (torch.zeros(2, 8, 8, 3), ValueError, r"1 or 3 channels, got shape \(2, 8, 8, 3\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), TypeError, "got torch.uint8; divide 8-bit images by 255"),
        (torch.full((2, 3, 8, 8), 255.0), ValueError, "got values from 255 to 255"),
        (torch.full((2, 3, 8, 8), -0.5), ValueError, "got values from -0.5 to -0.5"),
        (torch.full((2, 3, 8, 8), torch.nan), ValueError, "got values from nan to nan"),
    ],
)
def test_wrong_images_are_refused(wrong: Tensor, error: type[Exception], message: str) -> None:
    panel = Panel(network(), ["msp"])
    with pytest.raises(error, match=message):
        panel.score(wrong)
    with pytest.raises(error, match=message):
        panel["msp"].score(wrong)


def test_color_images_do_not_pass_a_grey_network() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="takes 1-channel images, got 3 channels"):
        Panel(Network(module, mean=0.5, std=0.5), ["msp"]).score(pixels(2, 1))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda n: torch.zeros(n, 1), ValueError, r"answering returned scores of shape \(7, 1\) for 7 images"),
        (lambda n: torch.zeros(n - 1), ValueError, r"answering returned scores of shape \(6,\) for 7 images"),
        (lambda n: 0.5, ValueError, r"shape \(\) for 7 images, expected \(7,\)"),
        (lambda n: torch.zeros(n, dtype=torch.bool), TypeError, "answering returned bool scores"),
        (lambda n: torch.zeros(n, dtype=torch.complex64), TypeError, "answering returned complex64 scores"),
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


@pytest.mark.parametrize("name", [name for name in detectors.names() if name != "odin"])
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
    expected = {"name": "knn", "version": 1, "params": {"k": 3}, "network": panel.network.digest}
    identities = []
    for seed in (1, 2, 1):
        member.fit(images(130, seed))
        identities.append(member.identity())  # type: ignore[attr-defined]
        assert {key: identities[-1][key] for key in expected} == expected
    assert identities[0] == identities[2] != identities[1]


def test_refitting_a_member_forgets_its_threshold() -> None:
    panel = Panel(network(), ["knn", "msp"]).fit(images(130, 1), images(40, 2))
    panel["knn"].fit(images(130, 3))
    assert set(panel.threshold()) == {"msp"}


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
