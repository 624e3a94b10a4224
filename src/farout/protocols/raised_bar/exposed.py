"""Table of outlier exposure (Table 2): networks trained with outliers, on sets that they have not been trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from farout import metrics
from farout.metrics import Interval
from farout.metrics.intervals import clopper_pearson_bounds
from farout.protocols.raised_bar.exposure import NONE
from farout.protocols.raised_bar.results import BarResults
from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED, SEEDS
from farout.report.content import INTERVAL, LABEL, VALUE, Column, Line, Table
from farout.study.results import Row

EXPOSED_TO = Column("exposed_to", LABEL)
ACCURACY = Column("test_accuracy", INTERVAL, better="higher")
AUPR_OUT = Column("aupr_out", INTERVAL, better="higher")
AREA = {AUPR_OUT: partial(metrics.aupr, positive="outlier")}
GAIN = Column("gain", INTERVAL, better="higher")
P_VALUE = Column("p_value", VALUE, powers=True)
GROUP = (NETWORK, EXPOSED_TO, DETECTOR, OUTLIERS)
MEANS = {
    column: Column(f"mean_{name}", VALUE, better="higher")
    for column, name in ((ACCURACY, "accuracy"), (AUROC, "auroc"), (AUPR_OUT, "aupr_out"))
}
MEAN_GAIN = Column("mean_gain", INTERVAL, better="higher")
Key = tuple[str, str, str, str]
"""Network, seed, exposure and detector."""


def exposure_tables(bar: BarResults) -> list[Table]:
    """Return the tables of exposure: means over seeds if there are several, and every seed; empty without results."""
    rows = bar.rows("exposed")
    inliers = {_key(row): row for row in rows if not row.tags["outliers"]}
    scored = {(_key(row), row.tags["outliers"]): row for row in rows if row.tags["outliers"]}
    lines = [_line(bar, key, name, inliers, scored) for key, name in scored if key in inliers]
    if not lines:
        return []
    caption = (
        "Outlier exposure: networks trained on the inliers, and to be undecided on outliers (exposed_to: the set; "
        f"{NONE}: without), tested on sets that they have not been trained on. test_accuracy: fraction of inlier test "
        "images classified correctly, in brackets its 95 % interval (Clopper-Pearson). auroc (0.5 is chance) and "
        "aupr_out (area under the precision-recall curve, outliers positive): 95 % intervals by DeLong and by "
        "bootstrap. Higher is better for all. gain: AUROC minus that of the same detector, network and seed without "
        "exposure, with its interval and p_value by DeLong's paired test; exposure has helped where the whole interval "
        "is above 0. A set on which a network was trained is not tested."
    )
    return [*_over_seeds(lines), Table("raised_bar_exposure", "Outlier exposure by seed", caption, lines)]


def _over_seeds(lines: Sequence[Line]) -> list[Table]:
    """Return the table of means over seeds; empty if there is one seed."""
    if len({line[SEED] for line in lines}) == 1:
        return []
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[column] for column in GROUP), []).append(line)
    means = [{**dict(zip(GROUP, key, strict=True)), **_means(part)} for key, part in groups.items()]
    caption = (
        "Outlier exposure, mean over seeds: networks trained on the inliers, and to be undecided on outliers "
        f"(exposed_to: the set; {NONE}: without), tested on sets that they have not been trained on. Higher is better "
        "for all. mean_accuracy: on inlier test images; mean_auroc (0.5 is chance), mean_aupr_out (outliers positive). "
        "mean_gain: AUROC minus that without exposure, seed by seed, in brackets its 95 % interval over seeds "
        "(Student's t); exposure has helped where the whole interval is above 0."
    )
    return [Table("raised_bar_exposure_mean", "Outlier exposure, mean over seeds", caption, means)]


def _means(lines: Sequence[Line]) -> dict[Column, Any]:
    """Return the means over seeds, and that of the gain with its interval."""
    line: dict[Column, Any] = {
        mean: float(np.mean([one[column][0] for one in lines if column in one])) for column, mean in MEANS.items()
    }
    gains = [one[GAIN][0] for one in lines if GAIN in one]
    return {**line, SEEDS: len(lines), **({MEAN_GAIN: metrics.mean_interval(gains)} if gains else {})}


def _key(row: Row) -> Key:
    network, seed, exposure, detector = (row.tags[name] for name in ("network", "seed", "exposure", "detector"))
    return network, seed, exposure, detector


def _line(bar: BarResults, key: Key, name: str, inliers: dict[Key, Row], scored: dict[tuple[Key, str], Row]) -> Line:
    network, seed, exposure, detector = key
    ours = bar.results.scores(inliers[key]), bar.results.scores(scored[key, name])
    line: dict[Column, Any] = {NETWORK: network, SEED: seed, EXPOSED_TO: bar.title(exposure), **_accuracy(bar, key)}
    line |= {DETECTOR: detector, OUTLIERS: bar.title(name), N_INLIERS: len(ours[0]), N_OUTLIERS: len(ours[1])}
    line |= {AUROC: metrics.auroc_interval(*ours), **bar.results.intervals.bootstrap(AREA, *ours)}
    plain = (network, seed, NONE, detector)
    if exposure != NONE and plain in inliers and (plain, name) in scored:
        theirs = bar.results.scores(inliers[plain]), bar.results.scores(scored[plain, name])
        found = metrics.paired_test(*ours, *theirs)
        line |= {GAIN: Interval(found.difference, found.low, found.high), P_VALUE: found.p_value}
    return line


def _accuracy(bar: BarResults, key: Key) -> dict[Column, Any]:
    network, seed, exposure, _ = key
    for row in bar.rows("exposed_prediction", network=network, seed=seed, exposure=exposure):
        correct = bar.predictions(row) == bar.results.labels(row)
        fraction = float(np.mean(correct))
        return {ACCURACY: Interval(fraction, *clopper_pearson_bounds(fraction, len(correct), 0.025))}
    return {}
