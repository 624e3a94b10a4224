"""The tables of `rood`: setups and generalizability scores, by class, by shift and by severity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

import pandas as pd

from farout.metrics.setups import Estimate
from farout.protocols.rood_figures import bars, false_alarms, scatters
from farout.protocols.rood_tests import UNSHIFTED, Test, Tests, bounds, read, setups_of, shifts_of
from farout.protocols.summary import Shown, Summary, Table
from farout.study.results import Results

MISSING = (nan, nan, nan)
TITLE = "Realistic shifts"


def summarise(results: Results, protocol: str) -> Summary:
    """What is there so far."""
    lines = read(results, protocol)
    if not lines:
        return Summary(TITLE)
    tables = [_overview(lines), *_by_class(lines), *_by_shift(lines)]
    figures: list[Shown] = [*bars(lines), *scatters(lines), *false_alarms(results, lines)]
    return Summary(TITLE, tables, figures)


def _overview(lines: Sequence[Tests]) -> Table:
    """A line per detector and outlier set; of every set the highest AUROC without shifts first."""
    frame = pd.DataFrame([_line(line, setups_of(lines)) for line in lines])
    seeds = frame["seed"].nunique()
    if seeds > 1:
        keys = ["network", "detector", "outliers"]
        figures = [
            name for name in map(str, frame) if name not in (*keys, "seed") and not name.endswith(("_low", "_high"))
        ]
        frame = frame.groupby(keys, sort=False)[figures].mean().reset_index()
    sets, _ = pd.factorize(frame["outliers"])
    frame = frame.assign(_set=sets).sort_values(["_set", UNSHIFTED], ascending=[True, False], kind="stable")
    caption = (
        "AUROC of the outliers against inliers as they are (U) and with all their shifted copies among the inliers (A: "
        "augmentations, C: corruptions of five severities, or setups of the study's own). GS: the generalizability "
        "score, AUROC of the setup minus that of U, in points; below 0 shifted inliers are taken for outliers. "
    )
    caption += (
        f"Mean over {seeds} seeds."
        if seeds > 1
        else "In brackets 95 % intervals; an image and its copies count as one."
    )
    if any(line.one_class for line in lines):
        caption += " Mean of …: every class in turn is the inlier, and detectors are fitted on that class alone."
    return Table("rood", "Generalizability", caption, frame.drop(columns="_set").reset_index(drop=True))


def _line(line: Tests, setups: Sequence[str]) -> dict[str, Any]:
    plain = line.mean([test.unshifted for test in line.tests])
    found: dict[str, Any] = {**line.who._asdict(), "outliers": line.against, **_counts(line.tests)}
    found |= _share(UNSHIFTED, plain)
    together = {name: line.mean([test.setup(name) for test in line.tests]) for name in setups}
    for name, setup in together.items():
        found |= _share(name, setup)
    for name, setup in together.items():
        found |= _score(f"GS {name}", setup, plain)
    return found


def _counts(tests: Sequence[Test]) -> dict[str, int]:
    """The inliers of all classes, and the most outliers that one of them has."""
    return {
        "n_inliers": sum(len(test.inlier_scores) for test in tests),
        "n_outliers": max(len(test.outlier_scores) for test in tests),
    }


def _share(name: str, found: Estimate | None) -> dict[str, float]:
    return bounds(name, found.share() if found else MISSING)


def _score(name: str, setup: Estimate | None, plain: Estimate | None) -> dict[str, float]:
    """A generalizability score in points."""
    if setup is None or plain is None:
        return bounds(name, MISSING)
    return bounds(name, [100 * figure for figure in (setup - plain).difference()[:3]])


def _by_class(lines: Sequence[Tests]) -> list[Table]:
    """AUROC by class in the form of the paper's Tables 1 and 3, every setup with a line per detector."""
    single = [line for line in lines if line.one_class]
    if not single:
        return []
    frame = pd.DataFrame([_class_line(line, setup) for setup in (UNSHIFTED, *setups_of(single)) for line in single])
    caption = (
        "AUROC where that class is the inlier; the mean over classes and, against the setup U, the generalizability "
        "score in points. Intervals of every class: see the table of single classes."
    )
    details = pd.DataFrame([_single(line, test) for line in single for test in line.tests])
    about = "Every class by itself: AUROC of every setup and generalizability scores in points, with 95 % intervals."
    return [
        Table("rood_classes", "AUROC by class", caption, frame),
        Table("rood_class_intervals", "Single classes", about, details),
    ]


def _class_line(line: Tests, setup: str) -> dict[str, Any]:
    found = {test.of: _setup(test, setup) for test in line.tests}
    values = {name: one.value if one else nan for name, one in found.items()}
    together, plain = line.mean(list(found.values())), line.mean([test.unshifted for test in line.tests])
    score = nan if setup == UNSHIFTED else _score("GS", together, plain)["GS"]
    return {"setup": setup, **line.who._asdict(), **values, "mean": together.value if together else nan, "GS": score}


def _single(line: Tests, test: Test) -> dict[str, Any]:
    found: dict[str, Any] = {
        **line.who._asdict(),
        "class": test.of,
        **_counts([test]),
        **_share(UNSHIFTED, test.unshifted),
    }
    for name in test.planned:
        found |= _share(name, test.setup(name)) | _score(f"GS {name}", test.setup(name), test.unshifted)
    return found


def _setup(test: Test, name: str) -> Estimate | None:
    return test.unshifted if name == UNSHIFTED else test.setup(name)


def _by_shift(lines: Sequence[Tests]) -> list[Table]:
    shifts = pd.DataFrame([row for line in lines for row in _shift_lines(line, False)])
    severities = pd.DataFrame([row for line in lines for row in _shift_lines(line, True)])
    if shifts.empty:
        return []
    caption = (
        "One shift at a time: AUROC with its copies among the inliers, the generalizability score in points, and "
        "flagged: the share of shifted inliers above the threshold that keeps 95 % of the inliers as they are. In "
        "brackets 95 % intervals; the threshold is taken as given."
    )
    tables = [Table("rood_shifts", "By shift", caption + " All severities together.", shifts)]
    if severities["severity"].nunique() > 1:
        tables.append(Table("rood_severities", "By shift and severity", caption, severities))
    return tables


def _shift_lines(line: Tests, apart: bool) -> Iterator[dict[str, Any]]:
    """A row per shift, or per shift and severity."""
    plain = line.mean([test.unshifted for test in line.tests])
    for (setup, shift), severities in shifts_of(line).items():
        for severity in severities if apart else [None]:
            copies = [test.shifted(setup, shift, severity) for test in line.tests]
            if not all(copies):
                continue
            both = list(zip(line.tests, copies, strict=True))
            auroc = line.mean([test.auroc(some) for test, some in both])
            flagged = line.mean([test.flagged(some) for test, some in both])
            found: dict[str, Any] = {**line.who._asdict(), "outliers": line.against, "setup": setup, "shift": shift}
            found |= {"severity": severity} if apart else {}
            yield found | _share("auroc", auroc) | _score("GS", auroc, plain) | _share("flagged", flagged)
