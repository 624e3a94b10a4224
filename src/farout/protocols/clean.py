"""`clean`: inlier test images against outlier sets as they are, the baseline of every other protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.protocols.protocol import PROTOCOLS, Protocol
from farout.protocols.summary import Densities, Gallery, Strip, Summary, Table
from farout.study.cell import Entry
from farout.study.results import Results, Row
from farout.study.scoring import ScoreCell
from farout.study.spec import Budget
from farout.study.study import Study

IMAGES: dict[Budget, int | None] = {"quick": 2_000, "standard": 10_000, "full": None}
"""Images per test set, at most."""
RESAMPLES = 1000
"""Bootstrap resamples per interval."""
SIGNIFICANT = 0.05
SHOWN = 8
"""Images per strip of failures."""

Array = NDArray[np.float64]


BOOTSTRAPPED: dict[str, Callable[..., float]] = {
    "fpr_at_95_id_recall": metrics.fpr_at_95_id_recall,
    "fpr_at_95_ood_recall": metrics.fpr_at_95_ood_recall,
    "aupr_out": partial(metrics.aupr, positive="outlier"),
    "aupr_in": partial(metrics.aupr, positive="inlier"),
    "detection_accuracy": metrics.detection_accuracy,
}


class Pair(NamedTuple):
    """One detector's scores of the inliers and of one outlier set."""

    network: str
    seed: str
    detector: str
    outliers: str
    inlier_row: Row
    outlier_row: Row


@PROTOCOLS.register("clean")
class Clean(Protocol):
    """Every detector scores the inlier test images and every outlier set."""

    name: ClassVar[str] = "clean"

    def plan(self, study: Study) -> list[Entry]:
        count = IMAGES[study.budget]
        sets = {"": study.inliers.test, **study.outliers}
        entries = []
        for outliers, source in sets.items():
            images = study.stressed(source, count)
            for subject, seed in study.subjects:
                tags = {"network": subject.network, "seed": str(seed), "detector": subject.label, "outliers": outliers}
                entries.append(Entry(self.name, ScoreCell(subject, images), tags))
        return entries

    def summarise(self, results: Results) -> Summary:
        pairs = list(_pairs(results))
        if not pairs:
            return Summary("Clean evaluation")
        frame = _frame(results, pairs)
        return Summary(
            "Clean evaluation",
            [_overview(frame), *_networks(results, pairs), _details(frame)],
            [*_densities(results, pairs), _failures(results, frame, pairs)],
        )


def _networks(results: Results, pairs: list[Pair]) -> list[Table]:
    """The networks' accuracy: a detector can do no better than the network it reads."""
    found: dict[tuple[str, str], float] = {}
    for pair in pairs:
        for cell in pair.inlier_row.requires:
            accuracy = results.store.facts(cell).get("accuracy")
            if accuracy is not None:
                found[pair.network, pair.seed] = accuracy
    if not found:
        return []
    frame = pd.DataFrame([{"classifier": n, "seed": s, "accuracy": value} for (n, s), value in found.items()])
    caption = (
        "Accuracy on the inliers' validation images (flattered where those were cut from images that the network was "
        "trained on). If it is not what you expect, check mean and std."
    )
    return [Table("clean_networks", "Networks", caption, frame)]


def _pairs(results: Results) -> Iterable[Pair]:
    rows = results.done(Clean.name)
    inliers = {_subject(row): row for row in rows if not row.tags["outliers"]}
    for row in rows:
        if row.tags["outliers"] and _subject(row) in inliers:
            network, seed, detector = _subject(row)
            yield Pair(network, seed, detector, row.tags["outliers"], inliers[_subject(row)], row)


def _subject(row: Row) -> tuple[str, str, str]:
    return row.tags["network"], row.tags["seed"], row.tags["detector"]


def _frame(results: Results, pairs: list[Pair]) -> pd.DataFrame:
    """One line per detector and outlier set, every figure with its interval."""
    scores = [(results.scores(pair.inlier_row), results.scores(pair.outlier_row)) for pair in pairs]
    lines = [_line(pair, *both) for pair, both in zip(pairs, scores, strict=True)]
    frame = pd.DataFrame(lines)
    for places in frame.groupby(["network", "seed", "outliers"], sort=False).indices.values():
        best = scores[_best(frame, places)]
        tests = [metrics.paired_test(*best, *scores[place]) for place in places]
        frame.loc[places, "p_vs_best"] = [test.p_value for test in tests]
    return frame


def _best(frame: pd.DataFrame, places: Any) -> int:
    """The place, among these, of the highest AUROC."""
    places = np.asarray(places)
    return int(places[frame["auroc"].to_numpy()[places].argmax()])


def _line(pair: Pair, inliers: Array, outliers: Array) -> dict[str, Any]:
    line: dict[str, Any] = {"network": pair.network, "seed": pair.seed, "detector": pair.detector}
    line |= {"outliers": pair.outliers, "n_inliers": len(inliers), "n_outliers": len(outliers)}
    intervals = {"auroc": metrics.auroc_interval(inliers, outliers)}
    intervals |= metrics.bootstrap_intervals(BOOTSTRAPPED, inliers, outliers, resamples=RESAMPLES)
    for name, interval in intervals.items():
        line |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return line


def _overview(frame: pd.DataFrame) -> Table:
    """AUROC by detector and outlier set with its interval, or its mean over seeds; best first."""
    value, low, high = (_wide(frame, name) for name in ("auroc", "auroc_low", "auroc_high"))
    columns = [(name, value[name]) for name in value]
    seeds = frame["seed"].nunique()
    if seeds == 1:
        bounds = (((f"{name}_low", low[name]), (f"{name}_high", high[name])) for name in value)
        columns = [column for pair, both in zip(columns, bounds, strict=True) for column in (pair, *both)]
    wide = pd.DataFrame({**dict(columns), "mean": value.mean(axis=1, skipna=False)})
    wide = wide.sort_values("mean", ascending=False, kind="stable").reset_index()
    caption = "AUROC by outlier set; 0.5 is chance, below 0.5 outliers look more normal than inliers."
    caption += f" Mean over {seeds} seeds." if seeds > 1 else " In brackets its 95 % interval (DeLong)."
    return Table("clean_auroc", "AUROC at a glance", caption, wide)


def _wide(frame: pd.DataFrame, values: str) -> pd.DataFrame:
    """One line per detector, one column per outlier set."""
    return frame.pivot_table(index=["network", "detector"], columns="outliers", values=values, sort=False)


def _details(frame: pd.DataFrame) -> Table:
    caption = (
        "Every figure with its 95 % interval (AUROC: DeLong; others: bootstrap). fpr_at_95_id_recall: share of "
        "outliers accepted where 95 % of inliers are; fpr_at_95_ood_recall: share of inliers flagged where 95 % of "
        "outliers are. p_vs_best: DeLong's paired test against the best detector of the same network and outlier "
        f"set; from {SIGNIFICANT} on the two cannot be told apart on these images."
    )
    return Table("clean", "All figures", caption, frame)


def _densities(results: Results, pairs: list[Pair]) -> list[Densities]:
    figures = []
    caption = (
        "Scores of inliers and outliers; a good detector keeps them apart, outliers to the right. Heights are square "
        "roots of shares, so that small groups show; the outer half percents lie in the first and last bins."
    )
    seeds = {pair.seed for pair in pairs}
    for network, seed in dict.fromkeys((pair.network, pair.seed) for pair in pairs):
        panels: dict[str, dict[str, Array]] = {}
        for pair in pairs:
            if (pair.network, pair.seed) == (network, seed):
                curves = panels.setdefault(pair.detector, {"inliers": results.scores(pair.inlier_row)})
                curves[pair.outliers] = results.scores(pair.outlier_row)
        title = f"Scores, {network or 'own networks'}" + (f", seed {seed}" if len(seeds) > 1 else "")
        figures.append(Densities(f"densities_{network}_{seed}", title, caption, panels))
    return figures


def _failures(results: Results, frame: pd.DataFrame, pairs: list[Pair]) -> Gallery:
    """For every outlier set, the best detector's worst failures of both kinds."""
    strips = []
    several = frame["network"].nunique() > 1
    for places in frame.groupby("outliers", sort=False).indices.values():
        pair = pairs[_best(frame, places)]
        inliers, outliers = results.scores(pair.inlier_row), results.scores(pair.outlier_row)
        missed = results.store.arrays(pair.outlier_row.cell, "examples.safetensors")
        below = [(inliers < outliers[place]).mean() for place in missed["lowest"][:SHOWN]]
        title = f"{pair.outliers}: the most normal to {_called(pair, several)}"
        words = [f"rank {share:.1%}" for share in below]
        strips.append(Strip(title, missed["lowest_images"][:SHOWN], words))
    means = frame.groupby(["network", "detector"], sort=False)["auroc"].transform("mean")
    pair = pairs[int(means.to_numpy().argmax())]
    alarms = results.store.arrays(pair.inlier_row.cell, "examples.safetensors")
    words = [f"image {place}" for place in alarms["highest"][:SHOWN]]
    title = f"inliers: the least normal to {_called(pair, several)}"
    strips.append(Strip(title, alarms["highest_images"][:SHOWN], words))
    caption = (
        "The images that the best detector gets most wrong, or comes closest to. Rank: the share of inliers that score "
        "below the outlier; 0 % means that no inlier looks more normal, 100 % that all do."
    )
    return Gallery("failures", "Worst failures", caption, strips)


def _called(pair: Pair, several: bool) -> str:
    """The detector, with its network where there are several."""
    return f"{pair.detector} on {pair.network}" if several and pair.network else pair.detector
