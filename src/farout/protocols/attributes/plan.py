"""`attributes`: SHAPES and CHARS with one attribute shifted at a time: which one fools the detector?

"In the known, out of the ordinary: probing OOD detection with synthetic datasets". Inlier test images against images
whose color, class or both are new (the paper's scenarios), or whose size, rotation, position or lighting is (ours).
30 % of every test split carries a light corruption; uncorrupted inliers are compared with uncorrupted outliers, and
corrupted with corrupted ones (the paper's "with and without image corruption"). Overlaps are those of every seed, where
the paper's Fig. 4 has one per network and detector. The gallery of failures shows all images, corrupted or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.data.scenes.worlds import ATTRIBUTES, WORLDS
from farout.data.shapes_chars import split_name
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.shared.best import best_first, marked, versus_best
from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED, SEEDS
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import OWN, Array, Pair, densities, failures, inlier_rows, pairs, scored, span
from farout.registry import unknown
from farout.report.content import (
    LABEL,
    VALUE,
    Column,
    Densities,
    HeatMap,
    Histograms,
    Line,
    Lines,
    Shown,
    Summary,
    Table,
    frame_of,
)
from farout.study.cells.cell import Entry
from farout.study.results import Results, Row
from farout.study.sources.images import NamedImages
from farout.study.spec import Budget
from farout.study.study import Study, Trial

IMAGES: dict[Budget, int | None] = {"quick": 2_000, "standard": None, "full": None}
"""Images per test split, at most."""
SCENARIOS = ("hue", "class", "hue+class")
"""The paper's: OOD in color, in class, and across both."""
CONDITIONS = ("clean", "corrupted")
SUBJECT = ["network", "detector"]
CONDITION = Column("condition", LABEL)
OVERLAP = Column("overlap", VALUE, better="lower")
MEDIANS = {
    "auroc": (Column("auroc", VALUE, better="higher"), Column("auroc_mad", VALUE)),
    "overlap": (Column("overlap", VALUE, better="lower"), Column("overlap_mad", VALUE)),
}
"""Columns of a median over seeds, and of the median absolute deviation from it."""

Shift = str | Sequence[str]


@PROTOCOLS.register("attributes")
class Attributes(Protocol):
    """SHAPES or CHARS with one attribute shifted at a time: which one fools the detector?"""

    name = "attributes"

    def __init__(self, shift: Sequence[Shift] = SCENARIOS) -> None:
        """`shift`: the scenarios, each an attribute or several: [hue, size, [hue, class]]."""
        if isinstance(shift, str) or not shift:
            raise ValueError(f"shift must list scenarios, such as [hue, size, [hue, class]], got {shift!r}")
        self.shifts = list(dict.fromkeys(map(_shifted, shift)))

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            test = trial.inliers.test
            if not isinstance(test, NamedImages) or test.spec.name not in WORLDS:
                got = test.spec.name if isinstance(test, NamedImages) else test.about.name
                return f"it needs inliers drawn with attributes, by the name {' or '.join(WORLDS)}, got {got}"
            if test.spec.split not in ("test", "test/id"):
                return f"the inliers' test split must be test/id, got {test.spec.split}"
        return None

    def plan(self, study: Study) -> list[Entry]:
        return [entry for trial in study.trials for entry in self._scored(trial, IMAGES[study.budget])]

    def _scored(self, trial: Trial, count: int | None) -> list[Entry]:
        test = trial.inliers.test
        assert isinstance(test, NamedImages)
        shifted = {
            _label(shift): NamedImages(test.spec.model_copy(update={"split": split_name(shift)}))
            for shift in self.shifts
        }
        return scored(self.name, trial, shifted, count)

    @classmethod
    def summarise(cls, results: Results) -> Summary:
        found = list(pairs(results, cls.name))
        if not found:
            return Summary("Attributes")
        lines = [line for pair in found for line in _lines(results, pair)]
        frame = frame_of(lines)
        medians = _over_seeds(frame)
        middle = frame_of(medians)
        clean = frame[frame["condition"] == CONDITIONS[0]].reset_index(drop=True)
        first = [pair for pair in found if pair.seed == found[0].seed]
        return Summary(
            "Attributes",
            [
                _overview(middle, clean, _marks(results, found, clean)),
                *networks(results, cls.name, inlier_rows(found)),
                *_medians(medians),
                _details(lines),
            ],
            [
                *_heat_maps(middle),
                *(figure for condition in CONDITIONS for figure in _densities(results, first, condition)),
                _overlaps(frame),
                failures(results, clean, found),
            ],
        )


def _shifted(shift: Shift) -> frozenset[str]:
    if not isinstance(shift, str | list | tuple):
        raise ValueError(f"a scenario is an attribute or a list of them, got {shift!r}")
    names = shift.split("+") if isinstance(shift, str) else list(shift)
    for name in names:
        if name not in ATTRIBUTES:
            raise unknown("attribute to shift:", name, ATTRIBUTES)
    if not names:
        raise ValueError(f"a scenario must shift something; give one or more of {', '.join(ATTRIBUTES)}")
    return frozenset(names)


def _label(shift: frozenset[str]) -> str:
    return "+".join(name for name in ATTRIBUTES if name in shift)


def _lines(results: Results, pair: Pair) -> list[Line]:
    """AUROC with its interval, and the overlap, of one detector under one scenario: clean and corrupted."""
    scores = [results.scores(row) for row in (pair.inlier_row, pair.outlier_row)]
    clean = [_uncorrupted(results, row) for row in (pair.inlier_row, pair.outlier_row)]
    lines: list[Line] = []
    for condition in CONDITIONS:
        wanted = condition == CONDITIONS[0]
        inliers, outliers = (values[mask == wanted] for values, mask in zip(scores, clean, strict=True))
        lines.append({**_tags(pair), CONDITION: condition, **_figures(inliers, outliers)})
    return lines


def _densities(results: Results, found: list[Pair], condition: str) -> list[Densities]:
    wanted = condition == CONDITIONS[0]
    return densities(
        found, lambda row: results.scores(row)[_uncorrupted(results, row) == wanted], f"{condition} images"
    )


def _uncorrupted(results: Results, row: Row) -> NDArray[np.bool_]:
    return np.asarray(results.attribute(row, "severity") == 0)


def _tags(pair: Pair) -> Line:
    return {NETWORK: pair.network or OWN, SEED: pair.seed, DETECTOR: pair.detector, OUTLIERS: pair.outliers}


def _figures(inliers: Array, outliers: Array) -> Line:
    counts = {N_INLIERS: len(inliers), N_OUTLIERS: len(outliers)}
    if not len(inliers) or not len(outliers):  # a small limit may leave no corrupted images
        return {**counts, AUROC: (np.nan, np.nan, np.nan), OVERLAP: np.nan}
    interval = metrics.auroc_interval(inliers, outliers)
    return {**counts, AUROC: interval, OVERLAP: metrics.overlap(inliers, outliers)}


def _over_seeds(frame: pd.DataFrame) -> list[Line]:
    """Median over seeds, and the median absolute deviation from it."""
    lines: list[Line] = []
    for key, group in frame.groupby([*SUBJECT, "condition", "outliers"], sort=False):
        line: dict[Column, Any] = dict(zip((NETWORK, DETECTOR, CONDITION, OUTLIERS), key, strict=True))
        for figure, (median, deviation) in MEDIANS.items():
            middle = group[figure].median()
            line |= {median: middle, deviation: (group[figure] - middle).abs().median()}
        lines.append({**line, SEEDS: len(group)})
    return lines


def _marks(results: Results, found: Sequence[Pair], clean: pd.DataFrame) -> pd.Series[str]:
    """Which lines of uncorrupted images are the best of their scenario."""

    def scores(row: Row) -> Array:
        return results.scores(row)[_uncorrupted(results, row)]

    return versus_best(clean, [(scores(pair.inlier_row), scores(pair.outlier_row)) for pair in found])[1]


def _overview(middle: pd.DataFrame, every: pd.DataFrame, marks: pd.Series[str]) -> Table:
    """AUROC by detector and scenario on uncorrupted images, best first; `every`: those of every seed."""
    clean = middle[middle["condition"] == CONDITIONS[0]]
    scenarios = list(dict.fromkeys(middle["outliers"]))
    wide = clean.pivot(index=SUBJECT, columns="outliers", values="auroc")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(clean[SUBJECT].drop_duplicates()), columns=scenarios)
    seeds = int(middle["seeds"].max())
    columns = {name: Column(name, VALUE, of="scenario", better="higher") for name in scenarios}
    lines = best_first(wide, columns, lambda who, name: wide.at[who, name])
    shown = marked(every, marks, lines, columns) if seeds == 1 else {}
    caption = (
        f"AUROC of {span(every['n_inliers'])} uncorrupted inliers against {span(every['n_outliers'])} uncorrupted "
        f"outliers{f', median over {seeds} seeds' if seeds > 1 else ''}; 1 is ideal, 0.5 is chance, below 0.5 images "
    )
    caption += "with the shifted attribute look more normal than inliers. Intervals: see all figures."
    if any("rotation" in scenario for scenario in scenarios):
        caption += (
            " Rotation: solids and letters turn further than inliers; flat shapes, which take all angles, do not."
        )
    return Table("attributes_auroc", "AUROC by shifted attribute, clean images", caption, lines, shown)


def _medians(lines: Lines) -> list[Table]:
    if max(line[SEEDS] for line in lines) == 1:
        return []
    caption = (
        "Median over seeds and, as _mad, the median absolute deviation from it. Overlap: the area that the smoothed "
        "densities of inlier and outlier scores share; 1 means that the two look alike."
    )
    return [Table("attributes_median", "Median over seeds", caption, lines)]


def _details(lines: Lines) -> Table:
    caption = (
        "Every seed by itself. AUROC with its 95 % interval (DeLong). Overlap: the area that the smoothed densities of "
        "inlier and outlier scores share; 1 means that the two look alike."
    )
    return Table("attributes", "All figures", caption, lines)


def _heat_maps(middle: pd.DataFrame) -> list[Shown]:
    """By attribute for every network; and, where there are several, by network for every attribute as in the paper."""
    title = "Which attribute breaks the detector"
    parts = {f"{condition} images": middle[middle["condition"] == condition] for condition in CONDITIONS}
    if middle["network"].nunique() == 1:
        panels = {name: _wide(part, "outliers") for name, part in parts.items()}
        return [HeatMap("attributes_auroc", title, _HEAT, panels)]
    figures: list[Shown] = []
    for name, part in parts.items():
        for panel, columns, what in (("outliers", "network", "AUROC by network"), ("network", "outliers", title)):
            panels = {str(value): _wide(group, columns) for value, group in part.groupby(panel, sort=False)}
            figures.append(HeatMap(f"by_{columns}_{name.split()[0]}", f"{what}, {name}", _HEAT, panels))
    return figures


_HEAT = (
    "AUROC (over several seeds, their median); red: below chance, images with the shifted attribute look more normal "
    "than inliers."
)


def _wide(part: pd.DataFrame, columns: str) -> pd.DataFrame:
    """AUROC of detectors by `columns`, in the order of the study."""
    detectors, names = (list(dict.fromkeys(part[key])) for key in ("detector", columns))
    wide = part.pivot_table(index="detector", columns=columns, values="auroc", sort=False)
    return wide.reindex(index=detectors, columns=names)


def _overlaps(frame: pd.DataFrame) -> Histograms:
    """How much the scores of inliers and outliers overlap, over all detectors, networks and seeds (Fig. 4)."""
    panels = {
        scenario: {
            condition: group[group["condition"] == condition]["overlap"].dropna().to_numpy() for condition in CONDITIONS
        }
        for scenario, group in frame.groupby("outliers", sort=False)
    }
    caption = (
        "Overlap coefficients of all detectors, networks and seeds, without and with corruption of the images; 0: the "
        "scores of inliers and outliers are apart, 1: they look alike."
    )
    return Histograms("overlaps", "Overlap of scores", caption, {str(k): v for k, v in panels.items()}, (0.0, 1.0))
