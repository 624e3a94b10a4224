"""Tables of `attributes`: AUROC and overlap by shifted attribute, on clean and on corrupted images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from farout import metrics
from farout.protocols.attributes.figures import density_figures, heat_maps, overlap_histograms
from farout.protocols.attributes.results import CONDITIONS, uncorrupted
from farout.protocols.shared.best import best_first, marked, versus_best
from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED, SEEDS
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import OWN, Array, Pair, failures, inlier_rows, pairs, span
from farout.protocols.shared.stresses import CLEAN, stress
from farout.report.content import (
    LABEL,
    VALUE,
    Column,
    Line,
    Lines,
    Stress,
    Summary,
    Table,
    frame_of,
)
from farout.study.results import Results, Row

CORRUPTED = "corrupted images"
"""Name of the stress of corrupted images in the overview."""
TITLE = "Attributes: outliers that differ from the inliers in one attribute"
ALL = "All measures by shifted attribute"
SUBJECT = ["network", "detector"]


CONDITION = Column("condition", LABEL)


OVERLAP = Column("overlap", VALUE, better="lower")


MEDIANS = {
    "auroc": (Column("auroc", VALUE, better="higher"), Column("auroc_mad", VALUE)),
    "overlap": (Column("overlap", VALUE, better="lower"), Column("overlap_mad", VALUE)),
}
"""Columns of the median over seeds and of the median absolute deviation from it."""


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    found = list(pairs(results, protocol))
    if not found:
        return Summary(TITLE)
    lines = [line for pair in found for line in _lines(results, pair)]
    frame = frame_of(lines)
    medians = _over_seeds(frame)
    middle = frame_of(medians)
    clean = frame[frame["condition"] == CONDITIONS[0]].reset_index(drop=True)
    first = [pair for pair in found if pair.seed == found[0].seed]
    return Summary(
        TITLE,
        [
            _overview(middle, clean, _marks(results, found, clean)),
            *networks(results, protocol, inlier_rows(found)),
            *_medians(medians),
            _details(lines),
        ],
        [
            *heat_maps(middle),
            *(figure for condition in CONDITIONS for figure in density_figures(results, first, condition)),
            overlap_histograms(frame),
            failures(results, clean, found),
        ],
        _stresses(lines),
    )


def _stresses(lines: Lines) -> list[Stress]:
    """Return the clean and the corrupted images as conditions; each attribute is an outlier set."""
    clean, corrupted = ([line for line in lines if line[CONDITION] == name] for name in CONDITIONS)
    one = "of images with one attribute shifted against inliers"
    return [
        *stress(CLEAN, f"{one}, both uncorrupted", clean, clean=True),
        *stress(CORRUPTED, f"{one}, both corrupted", corrupted),
    ]


def _lines(results: Results, pair: Pair) -> list[Line]:
    """Return AUROC with its interval and the overlap of one detector in one scenario, clean and corrupted."""
    scores = [results.scores(row) for row in (pair.inlier_row, pair.outlier_row)]
    clean = [uncorrupted(results, row) for row in (pair.inlier_row, pair.outlier_row)]
    lines: list[Line] = []
    for condition in CONDITIONS:
        wanted = condition == CONDITIONS[0]
        inliers, outliers = (values[mask == wanted] for values, mask in zip(scores, clean, strict=True))
        lines.append({**_tags(pair), CONDITION: condition, **_figures(inliers, outliers)})
    return lines


def _tags(pair: Pair) -> Line:
    return {NETWORK: pair.network or OWN, SEED: pair.seed, DETECTOR: pair.detector, OUTLIERS: pair.outliers}


def _figures(inliers: Array, outliers: Array) -> Line:
    counts = {N_INLIERS: len(inliers), N_OUTLIERS: len(outliers)}
    if not len(inliers) or not len(outliers):  # a small limit may leave no corrupted images
        return {**counts, AUROC: (np.nan, np.nan, np.nan), OVERLAP: np.nan}
    interval = metrics.auroc_interval(inliers, outliers)
    return {**counts, AUROC: interval, OVERLAP: metrics.overlap(inliers, outliers)}


def _over_seeds(frame: pd.DataFrame) -> list[Line]:
    """Return the median over seeds and the median absolute deviation from it."""
    lines: list[Line] = []
    for key, group in frame.groupby([*SUBJECT, "condition", "outliers"], sort=False):
        line: dict[Column, Any] = dict(zip((NETWORK, DETECTOR, CONDITION, OUTLIERS), key, strict=True))
        for figure, (median, deviation) in MEDIANS.items():
            middle = group[figure].median()
            line |= {median: middle, deviation: (group[figure] - middle).abs().median()}
        lines.append({**line, SEEDS: len(group)})
    return lines


def _marks(results: Results, found: Sequence[Pair], clean: pd.DataFrame) -> pd.Series[str]:
    """Return the marks of the lines of uncorrupted images: the best of their scenario, or tied with it."""

    def scores(row: Row) -> Array:
        return results.scores(row)[uncorrupted(results, row)]

    return versus_best(clean, lambda index: (scores(found[index].inlier_row), scores(found[index].outlier_row)))[1]


def _overview(middle: pd.DataFrame, every: pd.DataFrame, marks: pd.Series[str]) -> Table:
    """Return AUROC by detector and scenario on uncorrupted images, best first; `every` has a row per seed."""
    clean = middle[middle["condition"] == CONDITIONS[0]]
    scenarios = list(dict.fromkeys(middle["outliers"]))
    wide = clean.pivot(index=SUBJECT, columns="outliers", values="auroc")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(clean[SUBJECT].drop_duplicates()), columns=scenarios)
    seeds = int(middle["seeds"].max())
    columns = {name: Column(name, VALUE, of="scenario", better="higher") for name in scenarios}
    lines = best_first(wide, columns, lambda key, name: wide.at[key, name])
    shown = marked(every, marks, lines, columns) if seeds == 1 else {}
    caption = (
        f"AUROC of {span(every['n_inliers'])} uncorrupted inliers against {span(every['n_outliers'])} uncorrupted "
        "outliers, which have one attribute (the column) "
        f"shifted{f'; median over {seeds} seeds' if seeds > 1 else ''}. Higher is better: 1 is ideal, 0.5 is chance; "
        "below 0.5 the shifted images look more normal to the detector than inliers do. mean: over the columns. "
        f"Intervals: see the table {ALL!r}."
    )
    if any("rotation" in scenario for scenario in scenarios):
        caption += (
            " Rotation: solids and letters are rotated further than inliers; flat shapes, whose inliers take all "
            "angles, are not."
        )
    return Table("attributes_auroc", "AUROC by shifted attribute, clean images", caption, lines, shown)


_OVERLAP = (
    "overlap: the area that the smoothed densities of inlier and outlier scores share; lower is better, at 1 the two "
    "cannot be told apart."
)


def _medians(lines: Lines) -> list[Table]:
    if max(line[SEEDS] for line in lines) == 1:
        return []
    caption = (
        "Median over seeds and, as _mad, the median absolute deviation from it. auroc: higher is better, 1 is ideal, "
        f"0.5 is chance. {_OVERLAP}"
    )
    return [Table("attributes_median", "AUROC and overlap, median over seeds", caption, lines)]


def _details(lines: Lines) -> Table:
    caption = (
        "One line per detector, seed, shifted attribute (outliers) and condition of the images (clean or corrupted). "
        f"auroc: higher is better, 1 is ideal, 0.5 is chance; in brackets its 95 % interval (DeLong). {_OVERLAP}"
    )
    return Table("attributes", ALL, caption, lines)
