"""Tables of `rood`: setups and generalizability scores, by class, by shift and by severity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan

import numpy as np
import pandas as pd

from farout.protocols.rood.figures import bars, false_alarms, scatters
from farout.protocols.rood.measures import MISSING, Measure, Measured, measured
from farout.protocols.rood.results import PLAIN, UNSHIFTED, Key, Line, Test, read
from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED, SEEDS
from farout.protocols.shared.stresses import CLEAN, stress
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Shown, Stress, Summary, Table, columns_of
from farout.report.content import Line as TableLine
from farout.study.results import Results

TITLE = "Realistic shifts: inliers that are corrupted or augmented and should stay inliers"
SINGLE = "AUROC by inlier class, with intervals"
U = Column(UNSHIFTED, INTERVAL, better="higher")
SETUP, SHIFT, SEVERITY, CLASS = (Column(name, LABEL) for name in ("setup", "shift", "severity", "class"))
N_TRAIN = Column("n_train", COUNT)
MEAN = Column("mean", VALUE, better="higher")
GS = Column("GS", INTERVAL, better="higher")
MEAN_GS = Column("GS", VALUE, better="higher")
FLAGGED = Column("flagged", INTERVAL, better="lower")
Lines = Sequence[tuple[Line, Measured]]


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    lines = [(line, measured(line)) for line in read(results, protocol)]
    if not lines:
        return Summary(TITLE)
    tables = [_overview(lines), *_by_class(lines), *_by_shift(lines)]
    figures: list[Shown] = [*bars(lines), *scatters(lines), *false_alarms(lines)]
    return Summary(TITLE, tables, figures, _stresses(lines))


def _stresses(lines: Lines) -> list[Stress]:
    """Return the unshifted inliers as the clean condition, and every setup as a stress."""
    table = [_line(line, found) for line, found in lines]
    setups = dict.fromkeys(name for line, _ in lines for name in line.setups)
    about = "of outliers against inliers together with their shifted copies, setup"
    found = stress(CLEAN, "of outliers against unshifted inliers", table, U, clean=True)
    for name in setups:
        found += stress(setup_name(name), f"{about} {name}", table, _auroc(name))
    return found


def setup_name(setup: str) -> str:
    """Return the name of a setup as a stress."""
    return {"A": "augmented inliers (A)", "C": "corrupted inliers (C)"}.get(setup, setup)


def _overview(lines: Lines) -> Table:
    """Return a line per detector and outlier set; the highest AUROC without shifts of each set first."""
    table = [_line(line, found) for line, found in lines]
    several = len({line[SEED] for line in table}) > 1
    unshifted = [line[U][0] for line in table]
    if several:
        table = _over_seeds(table)
        unshifted = [line[MEAN_U] for line in table]
    sets, _ = pd.factorize(np.array([line[OUTLIERS] for line in table], object))
    table = [table[index] for index in np.lexsort([-np.array(unshifted), sets])]
    caption = (
        "AUROC of the outliers against unchanged inliers (U), and against the inliers together with all their shifted "
        "copies (A: augmentations, C: corruptions of five severities, or setups of the study's own). Higher is better: "
        "1 is ideal, 0.5 is chance. GS: the generalizability score, AUROC of the setup minus AUROC of U, in points "
        "(hundredths of AUROC); 0 or above is good, below 0 the detector takes shifted inliers for outliers. "
        "n_inliers and n_outliers count unshifted images. "
    )
    caption += (
        "Means over the seeds (seeds: how many)."
        if several
        else "In brackets 95 % intervals, in which an image and its copies count as one cluster."
    )
    if any(line.one_class for line, _ in lines):
        caption += (
            " Mean of …: every class in turn is the inlier, detectors are fitted on that class alone, and the mean "
            "over classes is given; n_inliers and n_outliers count the images that are so for at least one class. The "
            "network is not trained anew: one that was trained on these classes has seen the outliers' classes too."
        )
    return Table("rood", "AUROC and generalizability score (GS) by setup", caption, table)


def _over_seeds(lines: Sequence[TableLine]) -> list[TableLine]:
    """Return means over seeds, without intervals; NaN if a seed lacks the value."""
    keys = (NETWORK, DETECTOR, OUTLIERS)
    figures = [column for column in columns_of(lines) if column.kind is INTERVAL]
    values = pd.DataFrame([[line.get(column, MISSING.auroc)[0] for column in figures] for line in lines])
    groups = values.groupby([[line[key] for line in lines] for key in keys], sort=False)
    means, merged = groups.mean(skipna=False), list[TableLine]()
    for key in means.index:
        indices = groups.indices[key]
        first = lines[indices[0]]
        counts = {SEEDS: len(indices), N_INLIERS: first[N_INLIERS], N_OUTLIERS: first[N_OUTLIERS]}
        mean = {_mean(column): means.at[key, number] for number, column in enumerate(figures)}
        merged.append({**{column: first[column] for column in keys}, **counts, **mean})
    return merged


def _mean(column: Column) -> Column:
    """Return the column of means over seeds, which have no interval."""
    return replace(column, kind=VALUE)


MEAN_U = _mean(U)


def _line(line: Line, found: Measured) -> TableLine:
    return {**line.subject.line, OUTLIERS: line.against, **_setups(line, found.together, found.inliers, found.outliers)}


def _setups(line: Line, found: Mapping[Key, Measure], inliers: int, outliers: int) -> TableLine:
    """Return AUROC of all setups, then all generalizability scores."""
    measures = {name: found.get(Key(name), MISSING) for name in line.setups}
    return {
        N_INLIERS: inliers,
        N_OUTLIERS: outliers,
        U: found.get(PLAIN, MISSING).auroc,
        **{_auroc(name): measure.auroc for name, measure in measures.items()},
        **{_score(name): measure.score for name, measure in measures.items()},
    }


def _auroc(setup: str) -> Column:
    return Column(setup, INTERVAL, of="setup", better="higher")


def _score(setup: str) -> Column:
    return Column(f"GS {setup}", INTERVAL, of="generalizability score", better="higher")


def _by_class(lines: Lines) -> list[Table]:
    """Return AUROC by class in the form of the paper's Tables 1 and 3, and a table with intervals."""
    single = [(line, found) for line, found in lines if line.one_class]
    if not single:
        return []
    setups = dict.fromkeys([UNSHIFTED, *(name for line, _ in single for name in line.setups)])
    table = [_class_line(*one, setup, _classes(single)) for setup in setups for one in single]
    caption = (
        "AUROC with one class (the column) as the inlier and all others, or defects, as outliers; a line per setup (U: "
        "without shifts) and detector. Higher is better: 1 is ideal, 0.5 is chance. mean: over the classes. GS: the "
        "generalizability score, mean minus that of the setup U, in points; 0 or above is good. Intervals: see the "
        f"table {SINGLE!r}."
    )
    details = [
        _single(line, test, *figures)
        for line, found in single
        for test, figures in zip(line.tests, found.tests, strict=True)
    ]
    about = (
        "A line per detector and class (the inlier): AUROC of every setup (higher is better, 0.5 is chance) and "
        "generalizability scores GS in points (0 or above is good). In brackets 95 % intervals, which are rough where "
        "there are fewer than about 30 inliers. n_train: number of training images of the class that the detector is "
        "fitted on."
    )
    return [
        Table("rood_classes", "AUROC by inlier class", caption, table),
        Table("rood_class_intervals", SINGLE, about, details),
    ]


def _classes(lines: Lines) -> dict[str, Column]:
    """Return the columns of the classes of all detectors."""
    names = dict.fromkeys(test.of for line, _ in lines for test in line.tests)
    return {name: Column(name, VALUE, of="class", better="higher") for name in names}


def _class_line(line: Line, found: Measured, setup: str, classes: Mapping[str, Column]) -> TableLine:
    key = Key(setup)
    values = {
        test.of: figures.get(key, MISSING).auroc.value
        for test, (_, _, figures) in zip(line.tests, found.tests, strict=True)
    }
    score = nan if setup == UNSHIFTED else found.of(key).score.value
    return {
        SETUP: setup,
        **line.subject.line,
        **{column: values.get(name, nan) for name, column in classes.items()},
        MEAN: found.of(key).auroc.value,
        MEAN_GS: score,
    }


def _single(line: Line, test: Test, inliers: int, outliers: int, found: Mapping[Key, Measure]) -> TableLine:
    return {**line.subject.line, CLASS: test.of, N_TRAIN: test.n_train, **_setups(line, found, inliers, outliers)}


def _by_shift(lines: Lines) -> list[Table]:
    shifts = [row for one in lines for row in _shift_lines(*one, False)]
    severities = [row for one in lines for row in _shift_lines(*one, True)]
    caption = (
        "One shift at a time. auroc: of the outliers against the inliers together with their copies under this shift; "
        "higher is better, 1 is ideal, 0.5 is chance. GS: the generalizability score, auroc minus AUROC without "
        "shifts, in points; 0 or above is good. flagged: fraction of shifted inliers above the threshold that accepts "
        "95 % of unchanged inliers; lower is better, 0.05 is the share of unchanged inliers above it. In brackets 95 % "
        "intervals; those of flagged treat the threshold as fixed."
    )
    tables = [
        Table("rood_shifts", "AUROC, GS and false alarms by shift", caption + " All severities together.", shifts)
    ]
    if len({row[SEVERITY] for row in severities}) > 1:
        tables.append(Table("rood_severities", "AUROC, GS and false alarms by shift and severity", caption, severities))
    return [table for table in tables if table.lines]


def _shift_lines(line: Line, found: Measured, apart: bool) -> Iterator[TableLine]:
    """Yield a line per shift, or per shift and severity (apart), whose results are stored."""
    for (setup, shift), severities in line.planned.items():
        for severity in severities if apart else [""]:
            measure = found.of(Key(setup, shift, severity))
            if measure is not MISSING:
                about = {**line.subject.line, OUTLIERS: line.against, SETUP: setup, SHIFT: shift}
                about |= {SEVERITY: severity} if apart else {}
                yield {**about, AUROC: measure.auroc, GS: measure.score, FLAGGED: measure.flagged}
