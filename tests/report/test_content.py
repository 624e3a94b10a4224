"""Tables as data: columns are told apart by what they are, not by their names."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest

from farout.protocols.clean.plan import Clean
from farout.protocols.document import document
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Densities, Kind, Table, frame_of
from farout.report.html import render
from farout.report.latex import latex
from farout.report.tables import text
from helpers.written_runs import INLIERS, Outcome, Subject, write_run

DETECTOR, MEAN = Column("detector", LABEL), Column("mean", VALUE)


def of_set(name: str, kind: Kind = INTERVAL) -> Column:
    return Column(name, kind, of="outlier set")


def names(*columns: Column) -> list[str]:
    return list(Table("t", "T", "C.", [dict.fromkeys(columns, nan)]).columns.values())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["near", "far"], ["near", "far"]),
        (["mean", "detector"], ["mean (outlier set)", "detector (outlier set)"]),
        (["mean_low"], ["mean_low"]),  # the mean has no interval here
        (["near", "near_low"], ["near", "near_low (outlier set)"]),
        (["near_high", "near"], ["near_high", "near (outlier set)"]),
        (["mean", "mean (outlier set)"], ["mean (outlier set)", "mean (outlier set) (outlier set)"]),
    ],
)
def test_a_label_that_is_taken_says_what_it_is_a_label_of(labels: list[str], expected: list[str]) -> None:
    assert names(DETECTOR, *map(of_set, labels), MEAN) == ["detector", *expected, "mean"]


def test_columns_of_one_name_and_type_are_numbered() -> None:
    assert names(Column("x", VALUE), Column("x", COUNT), Column("x", LABEL)) == ["x", "x 2", "x 3"]


def test_an_interval_is_three_columns_of_the_frame() -> None:
    lines = [{DETECTOR: "a", of_set("mean"): (0.5, 0.4, 0.6), MEAN: 0.25}, {DETECTOR: "b", MEAN: 0.75}]
    frame = frame_of(lines)
    label = "mean (outlier set)"
    assert list(frame) == ["detector", label, f"{label}_low", f"{label}_high", "mean"]
    assert frame["mean"].tolist() == [0.25, 0.75]
    assert frame.iloc[0, 1:4].tolist() == [0.5, 0.4, 0.6]
    assert all(map(isnan, frame.iloc[1, 1:4]))


def test_no_label_is_forbidden_because_a_table_uses_that_word(tmp_path) -> None:
    """Detectors and outlier sets called like columns of ours: every figure is there, under its own column."""
    sets = ["mean", "inliers", "network", "detector", "auroc", "auroc_low", "p_vs_best", "best"]
    detectors = ["auroc", "best", "n", "low"]
    rng = np.random.default_rng(0)
    outcomes: dict[Subject, dict[str, Outcome]] = {}
    for place, detector in enumerate(detectors):
        scores: dict[str, Outcome] = {INLIERS: rng.normal(size=40)}
        scores |= {name: rng.normal(number / 4 + place, 1, 30) for number, name in enumerate(sets)}
        outcomes["net", "0", detector] = scores
    run = document(write_run(tmp_path, outcomes))
    overview, details = run.summaries["clean"].tables
    wide = {column.name: column for column in overview.columns if column.of}
    assert list(wide) == sets
    figures = {(line["detector"], line["outliers"]): line["auroc"] for _, line in details.frame.iterrows()}
    for line in overview.lines:
        found = [line[wide[name]][0] for name in sets]
        assert found == [figures[line[DETECTOR], name] for name in sets]
        (mean,) = [cell for column, cell in line.items() if column.name == "mean" and not column.of]
        assert mean == pytest.approx(np.mean(found), abs=1e-12)
    assert all(f" {detector} " in text(run) for detector in detectors)
    assert "auroc\\_low (outlier set)" in latex(overview)
    assert 'title="higher is better"><button type="button">mean (outlier set)</button></th>' in render(run)


def test_an_outlier_set_called_inliers_has_a_curve_of_its_own(tmp_path) -> None:
    scores: dict[str, Outcome] = {INLIERS: np.arange(10.0), "inliers": np.arange(20.0, 30)}
    results = write_run(tmp_path, {("net", "0", "a"): scores})
    (figure,) = [one for one in Clean.summarize(results).figures if isinstance(one, Densities)]
    assert figure.panels["a"].inliers.tolist() == np.arange(10.0).tolist()
    assert figure.panels["a"].outliers["inliers"].tolist() == np.arange(20.0, 30).tolist()
