"""What `evg` makes of stored searches, counted by hand."""

from __future__ import annotations

from html import unescape
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from farout import metrics
from farout.protocols import Evg
from farout.protocols.document import document
from farout.protocols.evg.tables import TITLE, min_ranks
from farout.report.content import Curves, HeatMap, Sheet, Shown, Summary
from farout.report.html import render
from farout.report.tables import text
from farout.study.results import Results
from helpers.evg_runs import Written

A, B, C = ("net", "0", "a"), ("net", "0", "b"), ("net", "0", "c")
INLIERS = np.arange(10.0)
CLEAN = [9.5, 8.5, 9.5, 9.5, 9.5, 9.5, 9.5]
FOUND = [4.5, 2.5, 7.5, 9.5, 0.5, -1.0, 3.0]
"""Inliers below them: 5, 3, 8, 10, 1, 0, and 3 with a tie."""
AUROC = 30.5 / 70
STARTED = [9.5] * 7
LAST = [5.5, 3.5, 8.5, 10.5, 1.5, 0.0, 4.0]
"""Inliers below them: 6, 4, 9, 10, 2, none with a tie, 4 with a tie."""


def one_search(root: Path, who: tuple[str, str, str] = A) -> Written:
    run = Written(root).scored(who, "inliers", INLIERS).scored(who, "outliers", CLEAN, outliers="odd")
    told: dict[str, Any] = {
        "start": STARTED, "last": LAST, "accepted": [0.5] * 6 + [1], "exploration": [0.25] * 7,
        "stuck": [1, 0, 0, 0, 0, 0, 0], "queries": (1, 2, 11),
    }  # fmt: skip
    return run.searched(who, "odd", "affine, nearest", "mh", FOUND, **told)


def summary(results: Results) -> Summary:
    return Evg().summarize(results)


def table(results: Results, name: str) -> pd.DataFrame:
    (frame,) = [table.frame for table in summary(results).tables if table.name == name]
    return frame


def figures(results: Results, kind: type[Shown]) -> list[Any]:
    return [figure for figure in summary(results).figures if isinstance(figure, kind)]


def test_all_figures_of_a_search(tmp_path: Path) -> None:
    run = one_search(tmp_path).searched(A, "", "affine, nearest", "mh", [0.5, 3.5])
    line = table(run.results(), "evg").iloc[0]
    names = ["network", "seed", "detector", "outliers", "variation", "method", "standardized_on"]
    assert list(line[names]) == ["net", "0", "a", "odd", "affine, nearest", "mh", "val"]
    assert list(line[["chains", "queries", "n_inliers", "chains_per_run"]]) == [7, 11, 10, 1]
    assert line["auroc"] == pytest.approx(AUROC)
    assert tuple(line[["auroc", "auroc_low", "auroc_high"]]) == metrics.auroc_interval(INLIERS, FOUND)
    assert line["auroc_clean"] == pytest.approx(69 / 70)
    fair = [f"auroc_control{end}" for end in ("", "_low", "_high")]
    assert line[fair[0]] == pytest.approx((2 + 1 + 2 + 2 + 0.5 + 0 + 1) / 14)
    assert tuple(line[fair]) == metrics.auroc_interval([0.5, 3.5], FOUND)
    assert line["auroc_start"] == 1
    assert line["auroc_last"] == pytest.approx((6 + 4 + 9 + 10 + 2 + 0.5 + 4.5) / 70)
    assert line["min_rank"] == pytest.approx((5 + 3 + 8 + 10 + 1) / 5)  # the last two chains are left over
    assert line["min_rank_se"] == pytest.approx(sqrt((0.16 + 5.76 + 6.76 + 21.16 + 19.36) / 4 / 5))
    assert line["min_rank_share"] == pytest.approx(0.54)
    assert line["min_rank_clean"] == 9  # of all seven outliers at once, as in the paper
    assert line["accepted"] == pytest.approx(4 / 7)
    assert line["exploration"] == 0.25
    assert line["stuck"] == pytest.approx(1 / 7)


def test_min_rank_over_runs_of_neighbors() -> None:
    found = [9.5, 3.5, 7.5, 7.5, 6.5, 9.5, 0.5, 1.5, 2.5, 2.5, -1, -1]  # two each, two left over
    mean, error, size = min_ranks(INLIERS, np.array(found))
    assert size == 2
    assert mean == pytest.approx((4 + 8 + 7 + 1 + 3) / 5)
    assert error == pytest.approx(sqrt(((0.6**2) + 3.4**2 + 2.4**2 + 3.6**2 + 1.6**2) / 4 / 5))


@pytest.mark.parametrize("count", [1, 4])
def test_few_chains_are_one_run(count: int) -> None:
    mean, error, size = min_ranks(INLIERS, np.array([6.5, 4.5, 4.5, 8.5])[-count:])
    assert (mean, size) == ({1: 9, 4: 5}[count], count)
    assert isnan(error)


def test_the_drop_has_two_parts(tmp_path: Path) -> None:
    run = one_search(tmp_path).searched(A, "", "affine, nearest", "mh", [0.5, 3.5])
    run.searched(A, "odd", "color", "mh", FOUND)  # without a control
    (line,) = table(run.results(), "evg_drop").to_dict("records")
    clean, fair = 69 / 70, 8.5 / 14
    assert (line["clean"], line["found"], line["control"]) == pytest.approx((clean, AUROC, fair))
    assert line["drop"] == pytest.approx(clean - AUROC)
    assert line["n_outliers"] == 7
    parts = line["drop_by_search"], line["drop_by_outliers"]
    assert parts == pytest.approx((fair - AUROC, clean - fair))
    assert sum(parts) == pytest.approx(line["drop"])


def test_the_overview_has_a_column_per_variation_and_the_best_worst_case_first(tmp_path: Path) -> None:
    run = Written(tmp_path)
    worst = {A: (9.5, 2.5), B: (5.5, 6.5), C: (9.5, 4.5)}
    for who, (pixel, affine) in worst.items():
        run.scored(who, "inliers", INLIERS).scored(who, "outliers", [9.5] * 5, outliers="odd")
        run.searched(who, "odd", "pixel", "zeroth_order", [pixel] * 5, queries=(1, 21))
        run.searched(who, "odd", "affine, nearest", "mh", [affine] * 5)
    (shown, *_) = summary(run.results()).tables
    frame = shown.frame
    assert shown.name == "evg_auroc"
    assert list(frame)[:4] == ["network", "seed", "detector", "outliers"]
    assert [name for name in map(str, list(frame)[4:]) if not name.endswith(("_low", "_high"))] == [
        "n_outliers", "clean", "pixel (l_inf)", "affine, nearest", "worst_case",
    ]  # fmt: skip
    assert set(frame["n_outliers"]) == {5}
    assert list(frame["detector"]) == ["b", "c", "a"]
    assert list(frame["pixel (l_inf)"]) == pytest.approx([0.6, 1, 1])
    assert list(frame["affine, nearest"]) == pytest.approx([0.7, 0.5, 0.3])
    assert list(frame["worst_case"]) == pytest.approx([0.6, 0.5, 0.3])
    assert list(frame["clean"]) == [1, 1, 1]
    bounds = metrics.auroc_interval(INLIERS, [4.5] * 5)
    assert tuple(frame.iloc[1][[f"affine, nearest{end}" for end in ("", "_low", "_high")]]) == bounds
    facts = (
        "10 unchanged inliers",
        "5 chains",
        "pixel (l_inf): 21 by zeroth_order; affine, nearest: 11 by mh",
        "0.5 is chance",
    )
    assert [fact for fact in facts if fact not in shown.caption] == []
    assert "0.600" in text(document(run.results()))


def test_methods_have_lines_and_share_what_only_one_of_them_searched(tmp_path: Path) -> None:
    run = Written(tmp_path)
    for who, random in ((A, 2.5), (B, 3.5)):
        run.scored(who, "inliers", INLIERS).scored(who, "outliers", [9.5] * 5, outliers="odd")
        run.searched(who, "odd", "pixel", "zeroth_order", [8.5] * 5)
        run.searched(who, "odd", "color", "mh", [7.5] * 5).searched(who, "odd", "color", "random", [random] * 5)
    frame = table(run.results(), "evg_auroc")
    assert list(zip(frame["detector"], frame["method"], strict=True)) == [
        ("b", "random"), ("b", "mh"), ("a", "random"), ("a", "mh"),
    ]  # fmt: skip
    assert list(frame["color"]) == pytest.approx([0.4, 0.8, 0.3, 0.8])
    assert list(frame["pixel (l_inf)"]) == pytest.approx([0.9] * 4)
    assert list(frame["worst_case"]) == pytest.approx([0.4, 0.8, 0.3, 0.8])


def test_what_is_less_normal_than_clean_is_not_the_worst(tmp_path: Path) -> None:
    """Chains that begin at random need not come as low as the outlier was."""
    run = Written(tmp_path)
    run.scored(A, "inliers", INLIERS).scored(A, "outliers", [2.5] * 5, outliers="odd")
    run.searched(A, "odd", "affine, nearest", "mh", [6.5] * 5)
    frame = table(run.results(), "evg_auroc")
    assert list(frame[["clean", "affine, nearest", "worst_case"]].iloc[0]) == pytest.approx([0.3, 0.7, 0.3])


def test_the_overview_shows_the_control_of_what_came_lowest(tmp_path: Path) -> None:
    run = Written(tmp_path)
    run.scored(A, "inliers", INLIERS).scored(A, "outliers", [9.5] * 5, outliers="odd")
    for variation, found, control in (("color", 4.5, [1.5, 8.5]), ("affine, nearest", 2.5, [0.5, 1.5, 2.5, 8.5])):
        run.searched(A, "odd", variation, "mh", [found] * 5)
        run.searched(A, "", variation, "mh", control)
    frame = table(run.results(), "evg_auroc")
    assert list(frame[["worst_case", "control"]].iloc[0]) == pytest.approx([0.3, (2 + 0.5) / 4])


def test_lines_of_an_outlier_set_stay_together(tmp_path: Path) -> None:
    run = Written(tmp_path)
    for who, found in ((A, {"far": 5.5, "near": 1.5}), (B, {"far": 7.5, "near": 0.5})):
        run.scored(who, "inliers", INLIERS)
        for name, score in found.items():
            run.searched(who, name, "color", "mh", [score] * 5)
    frame = table(run.results(), "evg_auroc")
    assert list(frame["outliers"]) == ["far", "far", "near", "near"]
    assert list(frame["detector"]) == ["b", "a", "a", "b"]


def test_a_variation_by_the_name_of_a_column_keeps_its_own(tmp_path: Path) -> None:
    run = one_search(tmp_path).searched(A, "odd", "clean", "mh", [4.5] * 5)
    line = table(run.results(), "evg_auroc").iloc[0]
    assert (line["clean"], line["clean (variation)"]) == pytest.approx((69 / 70, 0.5))


# Incomplete runs


def test_nothing_yet(tmp_path: Path) -> None:
    results = Written(tmp_path).scored(A, "inliers", None).results()
    assert summary(results) == Summary(TITLE)
    assert "No results yet." in render(document(results))


def test_a_search_without_inliers_is_left_out(tmp_path: Path) -> None:
    run = one_search(tmp_path).scored(B, "outliers", CLEAN, outliers="odd").searched(B, "odd", "color", "mh", FOUND)
    assert list(table(run.results(), "evg")["detector"]) == ["a"]


def test_clean_scores_alone(tmp_path: Path) -> None:
    run = Written(tmp_path).scored(A, "inliers", INLIERS).scored(A, "outliers", CLEAN, outliers="odd")
    shown = summary(run.results())
    assert [table.name for table in shown.tables] == ["evg_auroc"]
    assert shown.tables[0].frame["clean"].tolist() == pytest.approx([69 / 70])
    assert "No search has ended yet" in shown.tables[0].caption
    assert shown.figures == []


def test_what_is_missing_is_not_a_number(tmp_path: Path) -> None:
    run = Written(tmp_path).scored(A, "inliers", INLIERS).searched(A, "odd", "color", "mh", FOUND)
    run.scored(B, "inliers", INLIERS).scored(B, "outliers", CLEAN, outliers="odd")
    results = run.results()
    (line,) = table(results, "evg").to_dict("records")
    assert line["auroc"] == pytest.approx(AUROC)
    gaps = ("auroc_clean", "min_rank_clean", "auroc_control", "auroc_control_low")
    assert all(isnan(line[name]) for name in gaps)
    assert [table.name for table in summary(results).tables] == ["evg_auroc", "evg"]
    frame = table(results, "evg_auroc")
    assert dict(zip(frame["detector"], frame["color"], strict=True)) == {
        "a": pytest.approx(AUROC), "b": pytest.approx(np.nan, nan_ok=True),
    }  # fmt: skip
    assert list(frame["detector"]) == ["a", "b"]  # what is not known comes last
    page = render(document(results))
    assert "rank 0<" in page  # no clean rank to come from


# Names


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "{{ 7 * 7 }}", '"><b>&amp;'])
def test_names_are_never_markup(tmp_path: Path, name: str) -> None:
    run = Written(tmp_path)
    for who in ((name, "0", name), ("net", "0", name)):
        run.scored(who, "inliers", INLIERS).scored(who, "outliers", CLEAN, outliers=name)
        for method in (name, "mh"):
            run.searched(who, name, name, method, FOUND).searched(who, "other", name, method, FOUND)
    against = {"against": name, "against_network": name}
    run.scored(("net", "0", name), "transfer", FOUND, outliers=name, variation=name, method=name, **against)
    page = render(document(run.results()))
    assert name not in page or "<" not in name
    assert unescape(page).count(name) > 20
    assert {type(figure) for figure in summary(run.results()).figures} == {Curves, HeatMap, Sheet}
