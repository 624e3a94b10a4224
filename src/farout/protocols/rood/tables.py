"""The tables of `rood`: setups and generalizability scores, by class, by shift and by severity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from farout.metrics.intervals import Interval
from farout.protocols.rood.figures import bars, false_alarms, scatters
from farout.protocols.rood.measures import MISSING, Measure, Measured, measured
from farout.protocols.rood.results import PLAIN, UNSHIFTED, Key, Line, Test, read
from farout.protocols.summary import Shown, Summary, Table
from farout.study.results import Results

TITLE = "Realistic shifts"
Lines = Sequence[tuple[Line, Measured]]


def summarise(results: Results, protocol: str) -> Summary:
    """What is there so far."""
    lines = [(line, measured(line)) for line in read(results, protocol)]
    if not lines:
        return Summary(TITLE)
    tables = [_overview(lines), *_by_class(lines), *_by_shift(lines)]
    figures: list[Shown] = [*bars(lines), *scatters(lines), *false_alarms(lines)]
    return Summary(TITLE, tables, figures)


def _overview(lines: Lines) -> Table:
    """A line per detector and outlier set; of every set the highest AUROC without shifts first."""
    frame = pd.DataFrame([_line(line, found) for line, found in lines])
    several = frame["seed"].nunique() > 1
    if several:
        frame = _over_seeds(frame)
    sets, _ = pd.factorize(frame["outliers"])
    frame = frame.iloc[np.lexsort([-frame[UNSHIFTED].to_numpy(float), sets])]
    caption = (
        "AUROC of the outliers against inliers as they are (U) and with all their shifted copies among the inliers (A: "
        "augmentations, C: corruptions of five severities, or setups of the study's own). GS: the generalizability "
        "score, AUROC of the setup minus that of U, in points; below 0 shifted inliers are taken for outliers. "
    )
    caption += (
        "Mean over so many seeds." if several else "In brackets 95 % intervals; an image and its copies count as one."
    )
    if any(line.one_class for line, _ in lines):
        caption += (
            " Mean of …: every class in turn is the inlier, and detectors are fitted on that class alone; n_inliers "
            "and n_outliers count the images that are so for at least one class. The training of the network is not "
            "part of this: one that was trained on these classes has seen the outliers' classes too."
        )
    return Table("rood", "Generalizability", caption, frame.reset_index(drop=True))


def _over_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """Means, without intervals; none where a seed lacks the figure."""
    keys, counts = ["network", "detector", "outliers"], ["n_inliers", "n_outliers"]
    left_out = (*keys, *counts, "seed")
    figures = [name for name in map(str, frame) if name not in left_out and not name.endswith(("_low", "_high"))]
    groups = frame.groupby(keys, sort=False)
    means = groups[figures].mean(skipna=False)
    return pd.concat([groups.size().rename("seeds"), groups[counts].first(), means], axis=1).reset_index()


def _line(line: Line, found: Measured) -> dict[str, Any]:
    about = {**line.who._asdict(), "outliers": line.against}
    return about | _setups(line, found.together, found.inliers, found.outliers)


def _setups(line: Line, found: Mapping[Key, Measure], inliers: int, outliers: int) -> dict[str, Any]:
    """AUROC of all setups, then all generalizability scores."""
    measures = {name: found.get(Key(name), MISSING) for name in line.setups}
    columns = {"n_inliers": inliers, "n_outliers": outliers, **_bounds(UNSHIFTED, found.get(PLAIN, MISSING).auroc)}
    for name, measure in measures.items():
        columns |= _bounds(name, measure.auroc)
    for name, measure in measures.items():
        columns |= _bounds(f"GS {name}", measure.score)
    return columns


def _bounds(name: str, found: Interval) -> dict[str, Any]:
    """A figure with its interval as three columns."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _by_class(lines: Lines) -> list[Table]:
    """AUROC by class in the form of the paper's Tables 1 and 3, every setup with a line per detector."""
    single = [(line, found) for line, found in lines if line.one_class]
    if not single:
        return []
    setups = dict.fromkeys([UNSHIFTED, *(name for line, _ in single for name in line.setups)])
    frame = pd.DataFrame([_class_line(*one, setup) for setup in setups for one in single])
    caption = (
        "AUROC where that class is the inlier; the mean over classes and, against the setup U, the generalizability "
        "score in points. Intervals of every class: see the table of single classes."
    )
    details = pd.DataFrame(
        [
            _single(line, test, *figures)
            for line, found in single
            for test, figures in zip(line.tests, found.tests, strict=True)
        ]
    )
    about = (
        "Every class by itself: AUROC of every setup and generalizability scores in points, with 95 % intervals, which "
        "are rough where there are fewer than about 30 inliers. n_train: the images of the class that the detector is "
        "fitted on."
    )
    return [
        Table("rood_classes", "AUROC by class", caption, _last(frame, ["mean", "GS"])),
        Table("rood_class_intervals", "Single classes", about, details),
    ]


def _class_line(line: Line, found: Measured, setup: str) -> dict[str, Any]:
    key = Key(setup)
    values = {
        test.of: figures.get(key, MISSING).auroc.value
        for test, (_, _, figures) in zip(line.tests, found.tests, strict=True)
    }
    score = nan if setup == UNSHIFTED else found.of(key).score.value
    return {"setup": setup, **line.who._asdict(), **values, "mean": found.of(key).auroc.value, "GS": score}


def _last(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """These columns behind the others: a class that the first detector lacks comes after them."""
    return frame[[*(name for name in frame if name not in columns), *columns]]


def _single(line: Line, test: Test, inliers: int, outliers: int, found: Mapping[Key, Measure]) -> dict[str, Any]:
    about = {**line.who._asdict(), "class": test.of, "n_train": test.n_train}
    return about | _setups(line, found, inliers, outliers)


def _by_shift(lines: Lines) -> list[Table]:
    shifts = pd.DataFrame([row for one in lines for row in _shift_lines(*one, False)])
    severities = pd.DataFrame([row for one in lines for row in _shift_lines(*one, True)])
    caption = (
        "One shift at a time: AUROC with its copies among the inliers, the generalizability score in points, and "
        "flagged: the share of shifted inliers above the threshold that keeps 95 % of the inliers as they are. In "
        "brackets 95 % intervals; the threshold is taken as given."
    )
    tables = [Table("rood_shifts", "By shift", caption + " All severities together.", shifts)]
    if not severities.empty and severities["severity"].nunique() > 1:
        tables.append(Table("rood_severities", "By shift and severity", caption, severities))
    return [table for table in tables if not table.frame.empty]


def _shift_lines(line: Line, found: Measured, apart: bool) -> Iterator[dict[str, Any]]:
    """A row per shift, or per shift and severity, of what is there."""
    for (setup, shift), severities in line.planned.items():
        for severity in severities if apart else [""]:
            measure = found.of(Key(setup, shift, severity))
            if measure is not MISSING:
                row: dict[str, Any] = {**line.who._asdict(), "outliers": line.against, "setup": setup, "shift": shift}
                row |= {"severity": severity} if apart else {}
                row |= _bounds("auroc", measure.auroc) | _bounds("GS", measure.score)
                yield row | _bounds("flagged", measure.flagged)
