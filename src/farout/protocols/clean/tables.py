"""Tables of `clean`: AUROC by outlier set, and all detection measures with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from farout import metrics
from farout.protocols.shared.best import best_first, marked, versus_best
from farout.protocols.shared.columns import (
    AUROC,
    DETECTOR,
    FPR_AT_95_ID_RECALL,
    FPR_AT_95_OOD_RECALL,
    N_INLIERS,
    N_OUTLIERS,
    NETWORK,
    OUTLIERS,
    SEED,
)
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import Array, Pair, densities, failures, inlier_rows, pairs, span
from farout.protocols.shared.stresses import CLEAN, stress
from farout.protocols.shared.threads import in_threads
from farout.report.content import INTERVAL, SIGNIFICANT, VALUE, Column, Line, Summary, Table, frame_of
from farout.study.results import Results

RESAMPLES = 1000
"""Bootstrap resamples per interval."""


BOOTSTRAPPED: dict[Column, Callable[..., float]] = {
    FPR_AT_95_ID_RECALL: metrics.fpr_at_95_id_recall,
    FPR_AT_95_OOD_RECALL: metrics.fpr_at_95_ood_recall,
    Column("aupr_out", INTERVAL, better="higher"): partial(metrics.aupr, positive="outlier"),
    Column("aupr_in", INTERVAL, better="higher"): partial(metrics.aupr, positive="inlier"),
    Column("detection_accuracy", INTERVAL, better="higher"): metrics.detection_accuracy,
}


P_VS_BEST = Column("p_vs_best", VALUE, powers=True)


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    found = list(pairs(results, protocol))
    if not found:
        return Summary("Clean evaluation")

    def scores(pair: Pair) -> tuple[Array, Array]:
        return results.scores(pair.inlier_row), results.scores(pair.outlier_row)

    lines = in_threads(lambda pair: _line(results, pair, *scores(pair)), found)
    frame = frame_of(lines)
    p_values, marks = versus_best(frame, lambda index: scores(found[index]))
    details = _details([{**line, P_VS_BEST: p} for line, p in zip(lines, p_values, strict=True)], marks)
    return Summary(
        "Clean evaluation",
        [_overview(frame, marks), *networks(results, protocol, inlier_rows(found)), details],
        [*densities(found, results.scores), failures(results, frame, found)],
        stress(CLEAN, "of unchanged outliers against unchanged inliers", lines, clean=True),
    )


def _line(results: Results, pair: Pair, inliers: Array, outliers: Array) -> dict[Column, Any]:
    """Return the measures of one detector on one outlier set, each with its interval."""
    line: dict[Column, Any] = {NETWORK: pair.network, SEED: pair.seed, DETECTOR: pair.detector}
    line |= {OUTLIERS: pair.outliers, N_INLIERS: len(inliers), N_OUTLIERS: len(outliers)}
    bootstrapped = results.intervals.bootstrap(BOOTSTRAPPED, inliers, outliers, resamples=RESAMPLES)
    return {**line, AUROC: metrics.auroc_interval(inliers, outliers), **bootstrapped}


def _overview(frame: pd.DataFrame, marks: pd.Series[str]) -> Table:
    """Return AUROC by detector and outlier set with its interval, or its mean over seeds; best first."""
    value, low, high = (_wide(frame, name) for name in ("auroc", "auroc_low", "auroc_high"))
    seeds = frame["seed"].nunique()
    kind = VALUE if seeds > 1 else INTERVAL
    columns = {str(name): Column(str(name), kind, of="outlier set", better="higher") for name in value}

    def cell(key: Any, name: str) -> Any:
        figures = tuple(part.at[key, name] for part in (value, low, high))
        return figures[0] if seeds > 1 else figures

    lines = best_first(value, columns, cell)
    counts = f"{span(frame['n_inliers'])} inliers against {span(frame['n_outliers'])} outliers of each set"
    caption = (
        f"AUROC of {counts}. Higher is better: 1 is ideal, 0.5 is chance; below 0.5 outliers look more normal to the "
        "detector than inliers do. mean: over the outlier sets."
    )
    caption += f" Mean over {seeds} seeds." if seeds > 1 else " In brackets the 95 % interval (DeLong)."
    shown = marked(frame, marks, lines, columns) if seeds == 1 else {}
    return Table("clean_auroc", "AUROC by outlier set", caption, lines, shown)


def _wide(frame: pd.DataFrame, values: str) -> pd.DataFrame:
    """Return a frame with a row per network and detector and a column per outlier set."""
    return frame.pivot_table(index=["network", "detector"], columns="outliers", values=values, sort=False)


def _details(lines: Sequence[Line], marks: pd.Series[str]) -> Table:
    caption = (
        "Detection measures of every detector and outlier set, all from 0 to 1; in brackets the 95 % interval (auroc: "
        "DeLong; others: bootstrap). Higher is better for auroc (0.5 is chance), for aupr_out and aupr_in (area under "
        "the precision-recall curve with outliers, or inliers, as the positive class) and for detection_accuracy (the "
        "best balanced accuracy over all thresholds). Lower is better for both false positive rates. "
        "fpr_at_95_id_recall: fraction of outliers that are accepted at the threshold that accepts 95 % of inliers; "
        "fpr_at_95_ood_recall: fraction of inliers that are flagged at the threshold that flags 95 % of outliers. "
        "p_vs_best: p-value of DeLong's paired test against the best detector of the same network and outlier set; "
        f"from {SIGNIFICANT} on the two cannot be told apart on these images."
    )
    return Table("clean", "All measures by outlier set", caption, lines, {AUROC: marks.tolist()})
