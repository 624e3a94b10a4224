"""Tuning: the best candidate by construction, one pass per image, honest judging, and the record of it all."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from farout import Activations, ImageSet, Panel, PostHoc
from farout.core import Split
from farout.data.matched import match
from farout.detectors import EBO, KNN, ODIN
from farout.detectors.panel.provenance import Candidate, ImagesRecord, Tuned, count_shared, note
from farout.registry import UnknownName
from helpers.counting import Counting
from helpers.panels import ALL, OnVal, images, network, pixels

TRAIN, VAL = images(130, 1, "train"), images(70, 2, "val")


def bright(total: int = 60, seed: int = 3, name: str = "bright") -> ImageSet:
    """Outliers whose largest logits differ from the inliers'."""
    given = pixels(total, seed)
    given[:, :, 2:] = 0.8 + 0.2 * given[:, :, 2:]
    return ImageSet.from_arrays(given, np.arange(total) % 4, name=name)


OUTLIERS = bright()


@dataclass(kw_only=True)
class Signed(PostHoc):
    """The largest logit times a factor: +1, −1 and 0 have AUROC a, 1 − a and 1/2."""

    name: ClassVar[str] = "signed"
    sign: float = 0.0
    shift: float = 0.0

    def score(self, activations: Activations) -> Tensor:
        return self.sign * activations.logits.amax(1).double() + self.shift


def largest(given: ImageSet) -> list[float]:
    with torch.inference_mode():
        values: list[float] = network()(given.batch(range(len(given)))).logits.amax(1).tolist()
    return values


def slow_auroc(inliers: list[float], outliers: list[float]) -> float:
    pairs = [(y > x) + 0.5 * (y == x) for x in inliers for y in outliers]
    return math.fsum(pairs) / len(pairs)


def tuned(grid: Any, members: Any, **options: Any) -> Panel:
    return Panel(network(), members).tune(grid, **{"train": TRAIN, "val": VAL, "outliers": OUTLIERS} | options)


def test_the_candidate_that_is_best_by_construction_is_kept() -> None:
    up = slow_auroc(largest(VAL), largest(OUTLIERS))
    assert abs(up - 0.5) > 0.2
    best = 1.0 if up > 0.5 else -1.0
    for signs in ([1.0, -1.0, 0.0], [0.0, -1.0, 1.0]):
        panel = tuned({"it": {"sign": signs}}, {"it": Signed(shift=3.0), "msp": "msp"})
        record = panel.tuned["it"]
        expected = {1.0: up, -1.0: 1 - up, 0.0: 0.5}
        assert [one.params["sign"] for one in record.candidates] == signs
        assert [one.auroc for one in record.candidates] == pytest.approx([expected[sign] for sign in signs], abs=1e-12)
        assert record.params == {"sign": best}
        assert panel.detectors["it"].params == {"sign": best, "shift": 3.0}, "fields that are not tuned stay"


def test_the_first_of_equals_is_kept() -> None:
    up = slow_auroc(largest(VAL), largest(OUTLIERS))
    sign = 1.0 if up > 0.5 else -1.0
    grid = {"it": {"sign": [0.0, sign, 2 * sign], "shift": [7.0, 5.0]}}
    record = tuned(grid, {"it": Signed()}).tuned["it"]
    assert [tuple(one.params.values()) for one in record.candidates] == [
        (0.0, 7.0),
        (0.0, 5.0),
        (sign, 7.0),
        (sign, 5.0),
        (2 * sign, 7.0),
        (2 * sign, 5.0),
    ]
    assert len({one.auroc for one in record.candidates[2:]}) == 1
    assert record.params == {"sign": sign, "shift": 7.0}


def test_a_tuned_panel_is_the_panel_of_the_chosen_parameters() -> None:
    members = {detector.name: dataclasses.replace(detector) for detector in ALL}
    grid = {"knn": {"k": [1, 5, 20]}, "ebo": {"temperature": [0.5, 2.0]}, "react": {"percentile": [80.0, 95.0]}}
    assert members["react"].fits_on == "val"
    panel = tuned(grid, members)
    assert set(panel.tuned) == set(grid)
    chosen = {name: dataclasses.replace(detector) for name, detector in panel.detectors.items()}
    plain = Panel(network(), chosen).fit(TRAIN, VAL)
    expected = plain.score(pixels(20, 5))
    for name, values in panel.score(pixels(20, 5)).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
        np.testing.assert_array_equal(panel.validation[name], plain.validation[name], err_msg=name)


def test_every_image_passes_once_whatever_the_number_of_candidates() -> None:
    grid = {"knn": {"k": [1, 2, 3, 5, 8]}, "ebo": {"temperature": [0.5, 1.0]}, "shifted": {"shift": [0.0, 0.1, 0.2]}}
    panel = tuned(grid, ["knn", "ebo", Shifted(), "msp"])
    expected = Counter(
        torch.cat([given.batch(range(len(given))) for given in (TRAIN, VAL, OUTLIERS)])[:, 0, 0, 0].tolist()
    )
    assert len(expected) == 260
    assert panel.network.module.seen == expected


@dataclass(kw_only=True)
class Shifted(OnVal):
    """Distance from a value near the validation mean."""

    name: ClassVar[str] = "shifted"
    shift: float = 0.0

    def score(self, activations: Activations) -> Tensor:
        return (activations.logits.amax(1).double() - self.fitted("mean") - self.shift).abs()


def test_the_training_split_is_left_alone_where_nothing_fits_on_it() -> None:
    panel = tuned({"ebo": {"temperature": [0.5, 1.0]}}, ["ebo"], train=None)
    assert panel.network.module.seen.total() == 70 + 60


def test_one_that_perturbs_passes_every_candidates_images() -> None:
    epsilons = [0.0, 0.002, 0.1]
    panel = tuned({"odin": {"epsilon": epsilons}}, ["odin", "msp"])
    judged, validated = 3 * 2 * (70 + 60), 2 * 70
    assert panel.network.module.seen.total() == 70 + judged + validated  # those of msp, whose outliers nobody asks for
    for epsilon, one in zip(epsilons, panel.tuned["odin"].candidates, strict=True):
        alone = Panel(network(), [ODIN(epsilon=epsilon)])
        x, y = (alone.score(given)["odin"].tolist() for given in (VAL, OUTLIERS))
        assert one.auroc == pytest.approx(slow_auroc(x, y), abs=1e-12)


@dataclass(kw_only=True)
class Memory(PostHoc):
    """Knows the validation images by heart, or looks at the largest logit."""

    name: ClassVar[str] = "memory"
    fits_on: ClassVar[Split | None] = "val"
    by_heart: bool = True
    sign: float = 1.0

    def fit(self, activations: Activations, labels: Tensor | None) -> Memory:
        self.state = {"seen": activations.logits.clone()}
        return self

    def score(self, activations: Activations) -> Tensor:
        if self.by_heart:
            return (activations.logits[:, None] - self.fitted("seen")).abs().amax(2).amin(1).gt(1e-4).double()
        return self.sign * activations.logits.amax(1).double()


def test_candidates_are_not_judged_on_the_images_they_were_fitted_on() -> None:
    """What is learned by heart is perfect on the half it has seen and worth nothing on the other."""
    sign = 1.0 if slow_auroc(largest(VAL), largest(OUTLIERS)) > 0.5 else -1.0
    panel = tuned({"memory": {"by_heart": [True, False]}}, [Memory(sign=sign)])
    record = panel.tuned["memory"]
    by_heart, honest = (one.auroc for one in record.candidates)
    assert by_heart == 0.5
    assert honest is not None
    assert honest > 0.6
    assert record.params == {"by_heart": False}
    assert (record.judged, record.inliers.total) == (35, 70)
    assert str(record) == "by_heart=False, selected among 2 by AUROC on half of val against bright, 35 + 60 images"
    assert panel.detectors["memory"].state["seen"].shape == (70, 4), "the chosen one is fitted on all"


def test_both_halves_are_random_and_the_same_every_time() -> None:
    """Two classes that alternate are in either half."""
    fits: list[list[int]] = []

    @dataclass(kw_only=True)
    class Watching(Memory):
        def fit(self, activations: Activations, labels: Tensor | None) -> Memory:
            assert labels is not None
            fits.append(labels.tolist())
            return super().fit(activations, labels)

    for _ in range(2):
        tuned({"it": {"sign": [1.0, -1.0]}}, {"it": Watching(by_heart=False)})
    assert fits[:3] == fits[3:]
    assert fits[0] == fits[1]
    assert [len(given) for given in fits[:3]] == [35, 35, 70]
    assert all(4 <= fits[0].count(label) <= 14 for label in range(4))


def test_a_candidate_that_fails_is_recorded_and_the_others_go_on() -> None:
    grid = {"knn": {"k": [131, 0, 130, 5]}, "signed": {"shift": [math.nan, 0.0]}}
    panel = tuned(grid, ["knn", Signed(sign=1.0)])
    failures = [one.failure for one in panel.tuned["knn"].candidates]
    assert "k=131 needs at least that many training images, got 130" in failures[0]
    assert failures[1] == "ValueError: k must be a whole number of at least 1, got 0"
    assert failures[2:] == ["", ""]
    assert [one.auroc is None for one in panel.tuned["knn"].candidates] == [True, True, False, False]
    assert ", selected among 4 (2 failed) by AUROC" in str(panel.tuned["knn"])
    assert panel.tuned["signed"].candidates[0].failure.startswith("NonFiniteScores: signed gave 70 NaN")
    assert panel.tuned["signed"].params == {"shift": 0.0}


def test_where_all_fail_nothing_has_run_and_nothing_changes() -> None:
    panel = Panel(network(), ["knn", "msp"])
    before = dict(panel.detectors)
    with pytest.raises(ValueError, match=r"every candidate for knn failed: \{'k': 500\}: ValueError: .*\{'k': 900\}: "):
        panel.tune({"knn": {"k": [500, 900]}}, TRAIN, VAL, outliers=OUTLIERS)
    with pytest.raises(ValueError, match=r"every candidate for knn failed: .*pass train="):
        panel.tune({"knn": {"k": [5]}}, None, VAL, outliers=OUTLIERS)
    with pytest.raises(ValueError, match="knn must be fitted on the inliers' train split: pass train="):
        Panel(network(), ["knn", "ebo"]).tune({"ebo": {"temperature": [2.0]}}, val=VAL, outliers=OUTLIERS)
    assert not panel.network.module.seen
    assert (panel.detectors, panel.tuned) == (before, {})


def test_where_all_fail_later_nothing_changes_either() -> None:
    panel = Panel(network(), {"it": Signed(), "knn": KNN(k=3)})
    before = dict(panel.detectors)
    with pytest.raises(ValueError, match=r"every candidate for it failed: .*NonFiniteScores"):
        panel.tune({"knn": {"k": [1]}, "it": {"shift": [math.nan]}}, TRAIN, VAL, outliers=OUTLIERS)
    assert (panel.detectors, panel.tuned, panel.validation) == (before, {}, {})


def test_what_was_handed_in_stays_as_it_was() -> None:
    mine = KNN(k=3)
    panel = tuned({"knn": {"k": [7]}}, [mine])
    assert (mine.k, mine.state) == (3, {})
    assert panel.detectors["knn"].params["k"] == 7


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ({"kn": {"k": [1]}}, UnknownName, r"unknown detector of this panel: 'kn'\. Did you mean 'knn'\?"),
        ({"knn": {"kk": [1]}}, UnknownName, r"unknown parameter of knn: 'kk'\. Did you mean 'k'\?"),
        ({"knn": {"state": [{}]}}, UnknownName, "unknown parameter of knn: 'state'"),
        ({"knn": {"k": []}}, ValueError, r"knn: expected a list of values to try for k, got \[\]"),
        ({"knn": {"k": 5}}, ValueError, "knn: expected a list of values to try for k, got 5"),
        ({"knn": {"k": "57"}}, ValueError, "expected a list of values to try for k, got '57'"),
        ({"knn": {}}, ValueError, r"expected values to try such as \{'knn': \{'k': \[1, 10, 50\]\}\}, got"),
        ({"knn": [1, 2]}, ValueError, "expected values to try such as"),
        ({}, ValueError, "expected values to try such as"),
        (["knn"], ValueError, "expected values to try such as"),
        ({"ebo(temperature=2.0)": {"temperature": [1.0]}}, ValueError, "names its parameters; .* another label"),
    ],
)
def test_a_grid_that_is_none_is_refused(grid: Any, error: type[Exception], message: str) -> None:
    panel = Panel(network(), ["knn", "ebo", EBO(temperature=2.0)])
    with pytest.raises(error, match=message):
        panel.tune(grid, TRAIN, VAL, outliers=OUTLIERS)
    assert not panel.network.module.seen


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val": None}, "evaluated on inliers and outliers: pass val= and outliers="),
        ({"val": VAL.subset([])}, "the val split 'val' to evaluate candidates on are an empty set"),
        ({"outliers": OUTLIERS.subset([])}, "the outliers 'bright' to evaluate candidates on are an empty set"),
        ({"val": TRAIN}, r"the val split and the train split are the same images \('train'\)"),
        ({"outliers": VAL}, "the val split and the outliers are the same images"),
    ],
)
def test_images_that_cannot_judge_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tuned({"knn": {"k": [1]}}, ["knn"], **changes)


def test_one_image_has_no_halves() -> None:
    with pytest.raises(ValueError, match="are evaluated on the other: got 1 image"):
        tuned({"memory": {"by_heart": [True]}}, [Memory()], val=VAL.limit(1))


def test_progress_counts_the_images_of_every_pass() -> None:
    listener = Counting()
    tuned({"knn": {"k": [1, 5]}}, ["knn"], progress=listener)
    assert listener.swept == 130 + 70 + 60
    listener = Counting()
    tuned({"odin": {"epsilon": [0.0, 0.1]}}, ["odin", "msp"], progress=listener)
    assert listener.swept == 70 + 60 + 2 * (70 + 60) + 70


def test_the_record_tells_the_images(tmp_path: Path) -> None:
    panel = tuned({"knn": {"k": [1, 5, 500]}}, ["knn", "msp"], outliers=bright(90, 3).limit(60))
    record = panel.tuned["knn"]
    assert record.inliers == ImagesRecord("val", 70, VAL.fingerprint, VAL.fingerprint)
    given = bright(90, 3)
    assert record.outliers == ImagesRecord("bright", 60, given.limit(60).fingerprint, given.fingerprint)
    panel.save(tmp_path / "panel")
    loaded = Panel.load(tmp_path / "panel", network())
    assert loaded.tuned == panel.tuned
    assert loaded.detectors["knn"].params == panel.detectors["knn"].params
    assert isinstance(loaded.tuned["knn"].candidates[2], Candidate)
    assert record.as_json()["candidates"][2]["auroc"] is None
    np.testing.assert_array_equal(loaded.score(pixels(9, 5))["knn"], panel.score(pixels(9, 5))["knn"])


def test_values_that_json_has_no_form_for_are_kept_as_text(tmp_path: Path) -> None:
    panel = tuned({"knn": {"k": [5, np.int64(6), torch.float32]}}, ["knn"])
    assert [one.auroc is None for one in panel.tuned["knn"].candidates] == [False, True, True]
    panel.save(tmp_path / "panel")
    loaded = Panel.load(tmp_path / "panel", network()).tuned["knn"]
    assert [one.params["k"] for one in loaded.candidates] == [5, "6", "torch.float32"]
    assert loaded.params == {"k": 5}


def test_the_record_outlives_another_fit_and_goes_with_its_member() -> None:
    panel = tuned({"knn": {"k": [1, 5]}}, ["knn", "ebo"])
    record = panel.tuned["knn"]
    panel.fit(images(130, 6), VAL)
    panel.tune({"ebo": {"temperature": [1.0, 2.0]}}, TRAIN, VAL, outliers=OUTLIERS)
    assert panel.tuned["knn"] == record
    assert set(panel.tuned) == {"knn", "ebo"}
    assert panel.only("knn").tuned == {"knn": record}
    assert list(panel.only("knn").validation) == ["knn"]
    with pytest.raises(UnknownName, match="unknown detector of this panel: 'kn'"):
        panel.only("kn")


def record(inliers: ImageSet, outliers: ImageSet) -> Tuned:
    candidates = (Candidate({"k": 5}, 0.75), Candidate({"k": 10}, 0.5), Candidate({"k": 50}, 0.25))
    return Tuned({"k": 5}, candidates, ImagesRecord.of(inliers), ImagesRecord.of(outliers), len(inliers))


KNOWN = "knn: k=5, selected among 3 by AUROC on val against bright, 70 + 60 images"
BEFORE = "tested on the outliers it was tuned on (far)"
MAYBE = "tested on outliers (far) from the set it was tuned on, maybe the same images"


@pytest.mark.parametrize(
    ("outliers", "tested", "expected"),
    [
        (OUTLIERS, bright(60, 4), ""),
        (OUTLIERS, bright(), BEFORE),
        (OUTLIERS, OUTLIERS.limit(10), BEFORE),
        (bright(90).limit(60), bright(90).limit(60), BEFORE),
        (bright(90).limit(60), bright(90), MAYBE),
        (bright(90).limit(60), bright(90).subset(range(60, 90)), MAYBE),
    ],
)
def test_a_note_says_plainly_what_was_met_before(outliers: ImageSet, tested: ImageSet, expected: str) -> None:
    said = note("knn", record(VAL, outliers), images(20, 7, "test"), {"near": bright(20, 8), "far": tested})
    assert said == (f"{KNOWN}; {expected}" if expected else KNOWN)


def test_images_that_two_sets_share_are_counted() -> None:
    whole, other = images(100, 2), images(100, 3)
    some, part = whole.subset([9, 3, 50, 60]), whole.subset(range(10, 60)).subset([0, 40, 41])
    assert [count_shared(some, one) for one in (some, whole, part, other, whole.limit(9))] == [4, 4, 1, 0, 1]
    smaller = match(whole.limit(10), (1, 4, 4))
    assert (count_shared(some, smaller), count_shared(smaller, match(some, (3, 5, 5)))) == (2, 2)


def test_a_note_tells_of_inliers_too() -> None:
    """Parts of one set are as they should be; the same images are not."""
    whole = images(100, 2, "val")
    val, rest = whole.limit(70), whole.subset(range(70, 100))
    assert note("knn", record(val, OUTLIERS), rest, {}) == KNOWN
    assert note("knn", record(val, OUTLIERS), val, {}) == f"{KNOWN}; tested on the inliers it was tuned on (val)"
