"""`clean`: inlier test images against outlier sets as they are, the baseline of every other protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from farout import metrics
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.shared.best import SIGNIFICANT, marked, versus_best
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import Array, Pair, densities, failures, inlier_rows, pairs, scored, span
from farout.protocols.summary import Summary, Table
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.spec import Budget
from farout.study.study import Study

IMAGES: dict[Budget, int | None] = {"quick": 2_000, "standard": 10_000, "full": None}
"""Images per test set, at most."""
RESAMPLES = 1000
"""Bootstrap resamples per interval."""

BOOTSTRAPPED: dict[str, Callable[..., float]] = {
    "fpr_at_95_id_recall": metrics.fpr_at_95_id_recall,
    "fpr_at_95_ood_recall": metrics.fpr_at_95_ood_recall,
    "aupr_out": partial(metrics.aupr, positive="outlier"),
    "aupr_in": partial(metrics.aupr, positive="inlier"),
    "detection_accuracy": metrics.detection_accuracy,
}


@PROTOCOLS.register("clean")
class Clean(Protocol):
    """Every detector scores the inlier test images and every outlier set."""

    name = "clean"

    def plan(self, study: Study) -> list[Entry]:
        return [
            entry for trial in study.trials for entry in scored(self.name, trial, trial.outliers, IMAGES[study.budget])
        ]

    @classmethod
    def summarise(cls, results: Results) -> Summary:
        found = list(pairs(results, cls.name))
        if not found:
            return Summary("Clean evaluation")
        frame, marks = _frame(results, found)
        return Summary(
            "Clean evaluation",
            [_overview(frame, marks), *networks(results, cls.name, inlier_rows(found)), _details(frame, marks)],
            [*densities(found, results.scores), failures(results, frame, found)],
        )


def _frame(results: Results, found: list[Pair]) -> tuple[pd.DataFrame, pd.Series[str]]:
    """One line per detector and outlier set, every figure with its interval; and which are the best of their group."""
    scores = [(results.scores(pair.inlier_row), results.scores(pair.outlier_row)) for pair in found]
    lines = [_line(pair, *both) for pair, both in zip(found, scores, strict=True)]
    frame = pd.DataFrame(lines)
    frame["p_vs_best"], marks = versus_best(frame, scores)
    return frame, marks


def _line(pair: Pair, inliers: Array, outliers: Array) -> dict[str, Any]:
    line: dict[str, Any] = {"network": pair.network, "seed": pair.seed, "detector": pair.detector}
    line |= {"outliers": pair.outliers, "n_inliers": len(inliers), "n_outliers": len(outliers)}
    intervals = {"auroc": metrics.auroc_interval(inliers, outliers)}
    intervals |= metrics.bootstrap_intervals(BOOTSTRAPPED, inliers, outliers, resamples=RESAMPLES)
    for name, interval in intervals.items():
        line |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return line


def _overview(frame: pd.DataFrame, marks: pd.Series[str]) -> Table:
    """AUROC by detector and outlier set with its interval, or its mean over seeds; best first."""
    value, low, high = (_wide(frame, name) for name in ("auroc", "auroc_low", "auroc_high"))
    columns = [(name, value[name]) for name in value]
    seeds = frame["seed"].nunique()
    if seeds == 1:
        bounds = (((f"{name}_low", low[name]), (f"{name}_high", high[name])) for name in value)
        columns = [column for pair, both in zip(columns, bounds, strict=True) for column in (pair, *both)]
    wide = pd.DataFrame({**dict(columns), "mean": value.mean(axis=1, skipna=False)})
    wide = wide.sort_values("mean", ascending=False, kind="stable")
    counts = f"{span(frame['n_inliers'])} inliers against {span(frame['n_outliers'])} outliers of each set"
    caption = f"{counts}; 1 is ideal, 0.5 is chance, below 0.5 outliers look more normal than inliers."
    caption += f" Mean over {seeds} seeds." if seeds > 1 else " In brackets its 95 % interval (DeLong)."
    shown = marked(frame, marks, wide) if seeds == 1 else None
    return Table("clean_auroc", "AUROC by outlier set", caption, wide.reset_index(), shown)


def _wide(frame: pd.DataFrame, values: str) -> pd.DataFrame:
    """One line per detector, one column per outlier set."""
    return frame.pivot_table(index=["network", "detector"], columns="outliers", values=values, sort=False)


def _details(frame: pd.DataFrame, marks: pd.Series[str]) -> Table:
    caption = (
        "Every figure with its 95 % interval (AUROC: DeLong; others: bootstrap). fpr_at_95_id_recall: share of "
        "outliers accepted where 95 % of inliers are; fpr_at_95_ood_recall: share of inliers flagged where 95 % of "
        "outliers are. p_vs_best: DeLong's paired test against the best detector of the same network and outlier "
        f"set; from {SIGNIFICANT} on the two cannot be told apart on these images."
    )
    return Table("clean", "All figures", caption, frame, pd.DataFrame({"auroc": marks}))
