"""The protocol `clean`: which cells it asks for, and what it makes of stored scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from farout import Detector, ImageSet, load, metrics
from farout.protocols import Clean, plan
from farout.report.content import Densities, Gallery, Summary
from farout.study.cells.score import ScoreCell
from farout.study.results import Results
from farout.study.sources.images import LiveImages
from farout.study.spec import Budget, StudySpec
from farout.study.study import Inliers, Study, Trial, from_spec
from farout.study.subjects.images import ImageSubject
from helpers.written_runs import INLIERS, Outcome, Subject, lenet_weights, write_run

A, B = ("net", "0", "a"), ("net", "0", "b")


def normal(seed: int, size: int, shift: float = 0.0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(shift, 1, size).round(2)  # rounded, so that there are ties


SCORES: dict[Subject, dict[str, Outcome]] = {
    A: {INLIERS: normal(0, 60), "near": normal(1, 50, 0.3), "far": normal(2, 40, 2)},
    B: {INLIERS: normal(3, 60), "near": normal(4, 50, 0.6), "far": normal(5, 40, 1)},
}


def summary(results: Results) -> Summary:
    return Clean().summarize(results)


def table(results: Results, name: str) -> pd.DataFrame:
    (frame,) = [table.frame for table in summary(results).tables if table.name == name]
    return frame


def line(frame: pd.DataFrame, **where: str) -> pd.Series[Any]:
    """The one line with these values."""
    (place,) = np.flatnonzero(np.logical_and.reduce([frame[key] == value for key, value in where.items()]))
    return frame.iloc[int(place)]


def test_the_plan_names_every_set_by_every_detector(tmp_path: Path) -> None:
    spec = {
        "name": "small",
        "inliers": {"train": "toy:val", "test": {"name": "toy", "limit": 30}},
        "outliers": [{"name": "noise", "limit": 20, "options": {"side": 16}}, {"name": "toy", "split": "test/ood_cls"}],
        "networks": [{"name": "lenet", "weights": str(lenet_weights(tmp_path))}],
        "detectors": ["msp", {"name": "knn", "k": 3}],
        "seeds": [7],
    }
    entries = [entry for entry in plan(from_spec(StudySpec.model_validate(spec))) if isinstance(entry.cell, ScoreCell)]
    assert [dict(entry.tags) for entry in entries] == [
        {"network": "lenet", "seed": "7", "detector": detector, "outliers": outliers}
        for outliers in ("", "noise", "toy:ood_cls")
        for detector in ("msp", "knn")
    ]
    assert {entry.protocol for entry in entries} == {"clean"}
    assert len({entry.cell.id for entry in entries}) == 6
    images = [entry.cell.images.preview() for entry in entries if isinstance(entry.cell, ScoreCell)]
    assert [len(part) for part in images] == [30, 30, 20, 20, 1000, 1000]
    assert images[0].fingerprint == load("toy", limit=30).fingerprint
    assert images[2].shape == (3, 32, 32)  # brought to the inliers' shape
    assert images[4].fingerprint == load("toy", "test/ood_cls").fingerprint


class Nothing(Detector):
    """Finds nothing odd."""


@pytest.mark.parametrize(("budget", "count"), [("quick", 2000), ("standard", 2500), ("full", 2500)])
def test_a_budget_limits_the_images_of_every_set(budget: Budget, count: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2500, 4, 4), dtype=np.uint8)
    images = ImageSet.from_arrays(pixels)
    source = LiveImages(images)
    subject = ImageSubject("nothing", Nothing(), None)
    study = Study("s", [Trial(0, Inliers(None, None, source), {"odd": source}, [subject])], [], budget)
    for entry in plan(study):
        assert isinstance(entry.cell, ScoreCell)
        chosen = entry.cell.images.preview()
        kept = {image.tobytes() for image in chosen.batch(range(len(chosen))).numpy()}
        assert len(chosen) == len(kept) == count
        assert kept <= {image.tobytes() for image in images.batch(range(2500)).numpy()}


@pytest.mark.parametrize("subject", [A, B])
@pytest.mark.parametrize("outliers", ["near", "far"])
def test_every_figure_is_the_metrics_own(tmp_path: Path, subject: Subject, outliers: str) -> None:
    frame = table(write_run(tmp_path, SCORES), "clean")
    found = line(frame, detector=subject[2], outliers=outliers)
    x, y = SCORES[subject][INLIERS], SCORES[subject][outliers]
    assert isinstance(x, np.ndarray)
    assert isinstance(y, np.ndarray)
    assert (found["network"], found["seed"]) == ("net", "0")
    assert (found["n_inliers"], found["n_outliers"]) == (len(x), len(y))
    assert tuple(found[["auroc", "auroc_low", "auroc_high"]]) == metrics.auroc_interval(x, y)
    figures: dict[str, Callable[..., float]] = {
        "fpr_at_95_id_recall": metrics.fpr_at_95_id_recall,
        "fpr_at_95_ood_recall": metrics.fpr_at_95_ood_recall,
        "aupr_out": partial(metrics.aupr, positive="outlier"),
        "aupr_in": partial(metrics.aupr, positive="inlier"),
        "detection_accuracy": metrics.detection_accuracy,
    }
    for name, metric in figures.items():
        interval = metrics.bootstrap_interval(metric, x, y, resamples=1000)
        assert tuple(found[[name, f"{name}_low", f"{name}_high"]]) == interval
        assert found[name] == metric(x, y)


def test_every_line_is_compared_with_the_best_of_its_set(tmp_path: Path) -> None:
    frame = table(write_run(tmp_path, SCORES), "clean")
    best = {"near": B, "far": A}
    assert frame.groupby("outliers")["auroc"].idxmax().map(frame["detector"]).to_dict() == {"near": "b", "far": "a"}
    for outliers, first in best.items():
        for subject in (A, B):
            both = [SCORES[who][images] for who in (first, subject) for images in (INLIERS, outliers)]
            expected = 1.0 if subject == first else metrics.paired_test(*both).p_value  # type: ignore[arg-type]
            assert line(frame, detector=subject[2], outliers=outliers)["p_vs_best"] == expected
            assert (expected == 1.0) == (subject == first)


def test_a_comparison_stays_within_network_and_seed(tmp_path: Path) -> None:
    others: dict[Subject, dict[str, Outcome]] = {
        ("other", "0", "a"): {INLIERS: normal(6, 60), "near": normal(7, 50, 3), "far": normal(8, 40, 3)},
        ("net", "1", "a"): {INLIERS: normal(9, 60), "near": normal(10, 50, 3), "far": normal(11, 40, 3)},
    }
    alone = table(write_run(tmp_path / "alone", SCORES), "clean")
    among = table(write_run(tmp_path / "among", {**SCORES, **others}), "clean")
    for place in range(len(alone)):
        here = alone.iloc[place]
        there = line(among, network="net", seed="0", detector=here["detector"], outliers=here["outliers"])
        pd.testing.assert_series_equal(here, there, check_names=False)
    for network, seed, detector in others:
        mine = line(among, network=network, seed=seed, detector=detector, outliers="near")
        assert mine["p_vs_best"] == 1.0


def test_no_figure_is_ever_missing(tmp_path: Path) -> None:
    """Not even where scores tie, separate or are single."""
    edges: dict[Subject, dict[str, Outcome]] = {
        ("", "0", "constant"): {INLIERS: np.zeros(5), "odd": np.zeros(4)},
        ("", "0", "perfect"): {INLIERS: np.zeros(5), "odd": np.ones(4)},
        ("", "0", "reversed"): {INLIERS: np.ones(5), "odd": np.zeros(4)},
        ("", "0", "vast"): {INLIERS: np.linspace(-1e300, 0, 5), "odd": np.linspace(-1e299, 1e300, 4)},
    }
    frame = table(write_run(tmp_path / "many", edges), "clean")
    assert frame.notna().all(axis=None)
    assert dict(zip(frame["detector"], frame["auroc"], strict=True)) == {
        "constant": 0.5, "perfect": 1.0, "reversed": 0.0, "vast": 19 / 20,
    }  # fmt: skip
    single: dict[Subject, dict[str, Outcome]] = {A: {INLIERS: np.array([1.0]), "odd": np.array([2.0])}}
    assert table(write_run(tmp_path / "single", single), "clean").notna().all(axis=None)


def test_the_overview_has_the_auroc_of_every_set_best_first(tmp_path: Path) -> None:
    frame = table(write_run(tmp_path, SCORES), "clean_auroc")
    columns = [f"{outliers}{end}" for outliers in ("near", "far") for end in ("", "_low", "_high")]
    assert list(frame) == ["network", "detector", *columns, "mean"]
    for subject in (A, B):
        found = line(frame, detector=subject[2])
        x = SCORES[subject][INLIERS]
        intervals = {name: metrics.auroc_interval(x, SCORES[subject][name]) for name in ("near", "far")}  # type: ignore[arg-type]
        for name, interval in intervals.items():
            assert tuple(found[[name, f"{name}_low", f"{name}_high"]]) == interval
        assert found["mean"] == pytest.approx((intervals["near"].value + intervals["far"].value) / 2, rel=1e-15)
    assert frame["mean"].is_monotonic_decreasing
    assert frame["mean"].nunique() == 2


def test_the_overview_is_a_mean_over_seeds(tmp_path: Path) -> None:
    again: dict[Subject, dict[str, Outcome]] = {
        ("net", "1", "a"): {INLIERS: normal(6, 60), "near": normal(7, 50, 1), "far": normal(8, 40, 3)}
    }
    both = {A: SCORES[A], **again}
    results = write_run(tmp_path, both)
    frame = table(results, "clean_auroc")
    assert list(frame) == ["network", "detector", "near", "far", "mean"]
    for name in ("near", "far"):
        expected = np.mean([metrics.auroc(sets[INLIERS], sets[name]) for sets in both.values()])  # type: ignore[arg-type]
        assert frame[name].item() == pytest.approx(expected, rel=1e-15)
    captions = [table.caption for table in summary(results).tables]
    assert "Mean over 2 seeds." in captions[0]
    titles = [figure.title for figure in summary(results).figures if isinstance(figure, Densities)]
    assert titles == ["Score distributions, net, seed 0", "Score distributions, net, seed 1"]


def test_a_run_that_is_not_finished_is_summarized_as_far_as_it_is(tmp_path: Path) -> None:
    partly: dict[Subject, dict[str, Outcome]] = {
        A: {**SCORES[A], "near": None},
        B: SCORES[B],
        ("net", "0", "c"): {**SCORES[A], INLIERS: None},
        ("net", "0", "d"): {**SCORES[A], "near": "Traceback: oh", "far": None},
    }
    results = write_run(tmp_path, partly)
    whole = table(write_run(tmp_path / "whole", SCORES), "clean")
    frame = table(results, "clean")
    assert list(zip(frame["detector"], frame["outliers"], strict=True)) == [("b", "near"), ("a", "far"), ("b", "far")]
    for detector, outliers in (("a", "far"), ("b", "far")):
        where = {"detector": detector, "outliers": outliers}
        pd.testing.assert_series_equal(line(frame, **where), line(whole, **where), check_names=False)
    assert frame.notna().all(axis=None)


def test_a_mean_over_fewer_sets_is_no_mean(tmp_path: Path) -> None:
    """A detector that lacks the hard set must not look better for it."""
    frame = table(write_run(tmp_path, {A: {**SCORES[A], "near": None}, B: SCORES[B]}), "clean_auroc")
    assert list(frame["detector"]) == ["b", "a"]
    assert frame[["near", "mean"]].isna().to_numpy().tolist() == [[False, False], [True, True]]
    assert line(frame, detector="a")["far"] == metrics.auroc(SCORES[A][INLIERS], SCORES[A]["far"])  # type: ignore[arg-type]


def test_a_run_without_results(tmp_path: Path) -> None:
    nothing: dict[Subject, dict[str, Outcome]] = {A: {INLIERS: None, "near": None}}
    assert summary(write_run(tmp_path, nothing)) == Summary("Clean evaluation", [], [])


def test_figures_hold_the_scores(tmp_path: Path) -> None:
    (densities,) = [f for f in summary(write_run(tmp_path, SCORES)).figures if isinstance(f, Densities)]
    assert densities.title == "Score distributions, net"
    assert list(densities.panels) == ["a", "b"]
    for subject in (A, B):
        panel = densities.panels[subject[2]]
        assert list(panel.outliers) == ["near", "far"]
        for name, scores in {INLIERS: panel.inliers, **panel.outliers}.items():
            np.testing.assert_array_equal(scores, SCORES[subject][name])


def test_the_gallery_shows_what_the_best_detector_gets_most_wrong(tmp_path: Path) -> None:
    (gallery,) = [f for f in summary(write_run(tmp_path, SCORES)).figures if isinstance(f, Gallery)]
    titles = [strip.title for strip in gallery.strips]
    assert titles[:2] == ["outliers of near with the lowest scores of b", "outliers of far with the lowest scores of a"]
    assert titles[2].startswith("inliers with the highest scores of a")
    inliers, outliers = SCORES[B][INLIERS], SCORES[B]["near"]
    assert isinstance(inliers, np.ndarray)
    assert isinstance(outliers, np.ndarray)
    lowest = np.argsort(outliers, kind="stable")[:8]
    below = [np.mean(inliers < outliers[place]) for place in lowest]
    assert gallery.strips[0].words == [f"rank {share:.1%}" for share in below]
    assert gallery.strips[0].images[:, 0, 0, 0].tolist() == lowest.tolist()
    highest = np.argsort(SCORES[A][INLIERS], kind="stable")[::-1][:8]  # type: ignore[arg-type]
    assert gallery.strips[2].words == [f"image {place}" for place in highest]
    assert gallery.strips[2].images[:, 0, 0, 0].tolist() == highest.tolist()
