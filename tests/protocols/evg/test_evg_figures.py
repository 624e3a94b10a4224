"""Curves, transfer and pictures of `evg`, from searches written by hand."""

from __future__ import annotations

from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farout import metrics
from farout.protocols import Evg
from farout.report.content import Curves, HeatMap, Sheet, Shown
from farout.study.results import Results
from helpers.evg_runs import Written
from helpers.written_runs import Subject

A, B = ("net", "0", "a"), ("net", "0", "b")
INLIERS = np.arange(10.0)
MEAN, STD = 4.5, sqrt(8.25)
FOUND = [4.5, 2.5, 7.5, 9.5, 0.5]


def figures(results: Results, kind: type[Shown]) -> dict[str, Any]:
    return {figure.title: figure for figure in Evg().summarize(results).figures if isinstance(figure, kind)}


def with_inliers(root: Path, *whos: Subject) -> Written:
    run = Written(root)
    for who in whos:
        run.scored(who, "inliers", INLIERS).scored(who, "outliers", [9.5] * 5, outliers="odd")
    return run


# Curves


def test_a_curve_is_the_mean_over_chains_within_the_lowest_and_the_highest(tmp_path: Path) -> None:
    trace = np.stack([np.arange(11) ** 2, np.arange(11), np.zeros(11)], axis=1)[::-1] + MEAN
    run = Written(tmp_path).scored(A, "inliers", INLIERS)
    run.searched(A, "odd", "color", "mh", trace[:, 2], trace=trace, queries=(1, 3, 9))
    (figure,) = figures(run.results(), Curves).values()
    curve = figure.panels["a"]["color"]
    assert curve.x.tolist() == [1, 3, 9]
    np.testing.assert_allclose(curve.y, np.array([35, 5, 0]) / STD)  # the mean of 0, 1, 4, …, 100 is 35
    np.testing.assert_allclose(curve.low, np.array([0, 0, 0]), atol=1e-15)
    np.testing.assert_allclose(curve.high, np.array([100, 10, 0]) / STD, atol=1e-15)


def test_one_method_has_a_line_per_variation(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A, B)
    for who in (A, B):
        run.searched(who, "odd", "pixel", "zeroth_order", FOUND).searched(who, "odd", "color", "mh", FOUND)
    panels = {title: figure.panels for title, figure in figures(run.results(), Curves).items()}
    assert list(panels) == ["Search progress"]
    assert {name: list(lines) for name, lines in panels["Search progress"].items()} == {
        "a": ["pixel (l_inf)", "color"], "b": ["pixel (l_inf)", "color"],
    }  # fmt: skip


def test_several_methods_have_a_figure_per_variation_and_outlier_set(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A)
    for name in ("odd", "odder"):
        run.searched(A, name, "pixel", "zeroth_order", FOUND)
        run.searched(A, name, "color", "mh", FOUND).searched(A, name, "color", "random", [1, 2])
    shown = figures(run.results(), Curves)
    assert {title: list(figure.panels["a"]) for title, figure in shown.items()} == {
        "Search progress, odd, pixel (l_inf)": ["zeroth_order"],
        "Search progress, odd, color": ["mh", "random"],
        "Search progress, odder, pixel (l_inf)": ["zeroth_order"],
        "Search progress, odder, color": ["mh", "random"],
    }
    assert shown["Search progress, odd, color"].panels["a"]["random"].y == pytest.approx((1.5 - MEAN) / STD)


def test_curves_and_pictures_are_of_the_first_seed(tmp_path: Path) -> None:
    late = ("net", "1", "a")
    run = with_inliers(tmp_path, A, late).searched(A, "odd", "color", "mh", [3.5] * 5)
    results = run.searched(late, "odd", "color", "mh", [0.5] * 5).results()
    (curves,) = figures(results, Curves).values()
    assert curves.panels["a"]["color"].y == pytest.approx((3.5 - MEAN) / STD)
    assert figures(results, Sheet)["Worst cases with the lowest scores, color"].strips[0].words == ["10 → 4"] * 5


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_scores_of_any_size_have_the_same_curve(tmp_path: Path, size: float) -> None:
    run = Written(tmp_path).scored(A, "inliers", INLIERS * size)
    run.searched(A, "odd", "color", "mh", [2.5 * size] * 5, trace=np.full((5, 2), 2.5 * size))
    (figure,) = figures(run.results(), Curves).values()
    np.testing.assert_allclose(figure.panels["a"]["color"].y, (2.5 - MEAN) / STD)


# Transfer


def transferred(run: Written, by: Subject, against: Subject, scores: list[float], **what: str) -> Written:
    tags = {"outliers": "odd", "variation": "color", "method": "mh", **what}
    return run.scored(by, "transfer", scores, **tags, against=against[2], against_network=against[0])


def test_transfer_by_hand(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A, B)
    run.searched(A, "odd", "color", "mh", [4.5, 2.5]).searched(B, "odd", "color", "mh", [0.5, 1.5])
    transferred(run, B, A, [8.5, 9.5])
    transferred(run, A, B, [6.5, 5.5])
    results = run.results()
    (figure,) = figures(results, HeatMap).values()
    assert figure.title == "Transfer of worst cases between detectors"
    matrix = figure.panels["color"]
    assert (list(matrix.index), list(matrix.columns)) == (["a", "b"], ["a", "b"])
    np.testing.assert_allclose(matrix, [[0.4, 0.95], [0.65, 0.15]])  # rows: found against
    (long,) = [table.frame for table in Evg().summarize(results).tables if table.name == "evg_transfer"]
    lines = {(line["detector"], line["found_against"]): line for line in long.to_dict("records")}
    assert {key: line["auroc"] for key, line in lines.items()} == pytest.approx(
        {("a", "a"): 0.4, ("b", "a"): 0.95, ("a", "b"): 0.65, ("b", "b"): 0.15}
    )
    one = lines["a", "b"]
    interval = metrics.auroc_interval(INLIERS, [6.5, 5.5])
    assert (one["auroc"], one["auroc_low"], one["auroc_high"]) == interval
    assert one["auroc_clean"] == 1


def test_transfer_between_networks_methods_and_sets(tmp_path: Path) -> None:
    own, other = ("", "0", "c"), ("wide", "0", "a")
    run = with_inliers(tmp_path, A, other, own)
    for who in (A, other, own):
        for method in ("mh", "random"):
            run.searched(who, "odd", "color", method, [4.5]).searched(who, "odder", "color", method, [4.5])
    transferred(run, other, A, [7.5], method="random")
    transferred(run, A, own, [6.5], outliers="odder")
    maps = figures(run.results(), HeatMap)
    assert {title: list(figure.panels) for title, figure in maps.items()} == {
        "Transfer of worst cases between detectors, odd": ["color · random"],
        "Transfer of worst cases between detectors, odder": ["color · mh"],
    }
    matrix = maps["Transfer of worst cases between detectors, odd"].panels["color · random"]
    assert list(matrix.index) == list(matrix.columns) == ["a on net", "a on wide", "c"]
    nan = np.nan
    np.testing.assert_allclose(matrix, [[0.5, 0.8, nan], [nan, 0.5, nan], [nan, nan, 0.5]])
    assert maps["Transfer of worst cases between detectors, odder"].panels["color · mh"].loc[
        "c", "a on net"
    ] == pytest.approx(0.7)


def test_transfer_is_a_mean_over_seeds(tmp_path: Path) -> None:
    run = Written(tmp_path)
    for seed, score in (("0", 2.5), ("1", 7.5)):
        a, b = ("net", seed, "a"), ("net", seed, "b")
        for who in (a, b):
            run.scored(who, "inliers", INLIERS).searched(who, "odd", "color", "mh", [score])
        transferred(run, b, a, [score + 1])
    (figure,) = figures(run.results(), HeatMap).values()
    np.testing.assert_allclose(figure.panels["color"], [[0.55, 0.65], [np.nan, 0.55]])
    assert "Mean over seeds" in figure.caption


def test_one_detector_or_none_transferred_has_no_map(tmp_path: Path) -> None:
    alone = with_inliers(tmp_path / "one", A).searched(A, "odd", "color", "mh", FOUND)
    off = with_inliers(tmp_path / "two", A, B)
    off.searched(A, "odd", "color", "mh", FOUND).searched(B, "odd", "color", "mh", FOUND)
    for run in (alone, off):
        results = run.results()
        assert figures(results, HeatMap) == {}
        assert "evg_transfer" not in [table.name for table in Evg().summarize(results).tables]


def test_what_was_transferred_from_a_search_whose_detector_has_no_inlier_scores(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A).searched(A, "odd", "color", "mh", [4.5])
    (figure,) = figures(transferred(run, A, B, [6.5]).results(), HeatMap).values()
    matrix = figure.panels["color"]
    assert matrix.loc["b", "a"] == pytest.approx(0.7)
    assert isnan(matrix.loc["b", "b"])


# Pictures


def test_worst_cases_beside_their_originals_with_ranks(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A).searched(A, "odd", "color", "mh", FOUND)
    sheet = figures(run.results(), Sheet)["Worst cases with the lowest scores, color"]
    (strip,) = sheet.strips
    assert strip.title == "a"
    assert strip.words == ["10 → 1", "10 → 3", "10 → 5", "10 → 8", "10 → 10"]
    assert strip.images.shape == (5, 4, 4 + 2 + 4, 3)
    for picture, chain in zip(strip.images, [4, 1, 0, 2, 3], strict=True):
        assert np.unique(picture[:, :4]).tolist() == [chain]
        assert np.unique(picture[:, 4:6]).tolist() == [255]
        assert np.unique(picture[:, 6:]).tolist() == [chain + 100]
    assert "of the 10 inliers" in sheet.caption


def test_the_same_outliers_against_every_detector(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A, B).searched(A, "odd", "color", "mh", FOUND)
    run.searched(B, "odd", "color", "mh", [0.5, -1, 3, 3.5, 9])
    sheet = figures(run.results(), Sheet)["Worst cases of the same outliers against every detector, color"]
    assert [(strip.title, strip.words) for strip in sheet.strips] == [
        ("original", ["image 0", "image 1", "image 2", "image 3", "image 4"]),
        ("a", ["10 → 5", "10 → 3", "10 → 8", "10 → 10", "10 → 1"]),
        ("b", ["10 → 1", "10 → 0", "10 → 3", "10 → 4", "10 → 9"]),
    ]
    grays = [[int(picture.mean()) for picture in strip.images] for strip in sheet.strips]
    assert grays == [[0, 1, 2, 3, 4], [100, 101, 102, 103, 104], [100, 101, 102, 103, 104]]


def test_pictures_are_those_of_the_method_that_came_lowest(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A, B)
    for who, mh, random in ((A, 3.5, 2.5), (B, 1.5, 6.5)):
        run.searched(who, "odd", "color", "mh", [mh] * 5).searched(who, "odd", "color", "random", [random] * 5)
    for sheet in figures(run.results(), Sheet).values():
        rows = {strip.title: strip.words[0] for strip in sheet.strips if strip.title != "original"}
        assert rows == {"a · random": "10 → 3", "b · mh": "10 → 2"}


def test_a_variation_without_bases_shows_what_was_found_alone(tmp_path: Path) -> None:
    run = with_inliers(tmp_path, A).searched(A, "odd", "latent", "mh", FOUND, bases=False)
    (sheet,) = figures(run.results(), Sheet).values()
    (strip,) = sheet.strips
    assert sheet.title == "Worst cases with the lowest scores, latent"
    assert strip.words == ["rank 1", "rank 3", "rank 5", "rank 8", "rank 10"]
    assert [int(picture.mean()) for picture in strip.images] == [104, 101, 100, 102, 103]
    assert "before →" not in sheet.caption
