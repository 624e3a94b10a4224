"""Tables and bars of AUROC and AUPRC: Near-OoD beside conventional sets (Tables 1, 4–10, 12–15, Figs. 6 and 11)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from farout import metrics
from farout.protocols.raised_bar.entries import CONVENTIONAL, NEAR, PLAIN
from farout.protocols.raised_bar.results import UNDERTRAINED, BarResults
from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED, SEEDS
from farout.protocols.shared.pairs import OWN, Pair, pairs, span
from farout.protocols.shared.stresses import CLEAN, stress
from farout.protocols.shared.threads import in_threads
from farout.report.content import INTERVAL, LABEL, VALUE, Bars, Column, Line, Stress, Table, frame_of

RESAMPLES = 1000
"""Bootstrap resamples per interval."""
GENERATED = "generated"
KIND = Column("kind", LABEL)
AUPR_OUT, AUPR_IN = (Column(f"aupr_{side}", INTERVAL, better="higher") for side in ("out", "in"))
AREAS = {AUPR_OUT: partial(metrics.aupr, positive="outlier"), AUPR_IN: partial(metrics.aupr, positive="inlier")}


class Measure(NamedTuple):
    """Measure of detection, with the words that captions need."""

    column: Column
    title: str
    chance: str
    interval: str


MEASURES = (
    Measure(AUROC, "AUROC", "0.5 is chance", "DeLong"),
    Measure(AUPR_OUT, "AUPRC of outliers", "chance is the fraction of outliers among all images", "bootstrap"),
    Measure(AUPR_IN, "AUPRC of inliers", "chance is the fraction of inliers among all images", "bootstrap"),
)


def detection_lines(bar: BarResults) -> list[Line]:
    """Return a line of all measures per detector, seed and outlier set; the generated sets come first."""
    near, of = {label: place for place, label in enumerate(bar.labels(NEAR))}, kinds(bar)
    found = sorted(pairs(bar.results, bar.protocol), key=lambda pair: near.get(pair.outliers, len(near)))
    return in_threads(lambda pair: _line(bar, pair, of.get(pair.outliers, CONVENTIONAL)), found)


def kinds(bar: BarResults) -> dict[str, str]:
    """Return the kind of every set of generated images by its label; all others are conventional."""
    return dict.fromkeys(bar.labels(PLAIN), PLAIN) | dict.fromkeys(bar.labels(NEAR), GENERATED)


def generated_name(label: str) -> str:
    """Return the name of a generated set as a stress."""
    return f"generated: {label}"


def _line(bar: BarResults, pair: Pair, kind: str) -> Line:
    inliers, outliers = bar.results.scores(pair.inlier_row), bar.results.scores(pair.outlier_row)
    return {
        NETWORK: pair.network or OWN,
        SEED: pair.seed,
        DETECTOR: pair.detector,
        OUTLIERS: bar.title(pair.outliers) if kind == GENERATED else pair.outliers,
        KIND: kind,
        N_INLIERS: len(inliers),
        N_OUTLIERS: len(outliers),
        AUROC: metrics.auroc_interval(inliers, outliers),
        **bar.results.intervals.bootstrap(AREAS, inliers, outliers, resamples=RESAMPLES),
    }


def stresses(lines: Sequence[Line]) -> list[Stress]:
    """Return conventional outliers as the clean condition, and every Near-OoD set as a stress.

    Undertrained sets and plain samples of a generator enter no verdict.
    """
    about = "of images between the classes, made by a generator, against inliers"
    names = dict.fromkeys(line[OUTLIERS] for line in lines if line[KIND] == GENERATED)
    generated = [name for name in names if not name.endswith(UNDERTRAINED)]
    conventional = [line for line in lines if line[KIND] == CONVENTIONAL]
    found = stress(CLEAN, "of conventional outliers against inliers", conventional, clean=True)
    for name in generated:
        found += stress(generated_name(name), about, [line for line in lines if line[OUTLIERS] == name])
    return found


def overviews(lines: Sequence[Line]) -> list[Table]:
    """Return a table per measure: a line per network and detector, a column per outlier set."""
    return [_overview(lines, measure) for measure in MEASURES] if lines else []


def _overview(lines: Sequence[Line], measure: Measure) -> Table:
    seeds = len({line[SEED] for line in lines})
    by_subject: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for line in lines:
        sets = by_subject.setdefault((line[NETWORK], line[DETECTOR]), {})
        sets.setdefault(line[OUTLIERS], []).append(line[measure.column])
    names = list(dict.fromkeys(line[OUTLIERS] for line in lines))
    made = [
        {NETWORK: network, DETECTOR: detector, **_cells(sets, names, seeds), **({SEEDS: seeds} if seeds > 1 else {})}
        for (network, detector), sets in by_subject.items()
    ]
    frame = frame_of(lines)
    generated, plain = (list(dict.fromkeys(frame[frame["kind"] == kind]["outliers"])) for kind in (GENERATED, PLAIN))
    caption = (
        f"{measure.title} of {span(frame['n_inliers'])} inliers against {span(frame['n_outliers'])} outliers of each "
        f"set, a column per set. {_which(generated, plain)} Higher is better: 1 is ideal, {measure.chance}."
    )
    spread = f" Mean over {seeds} seeds, and beside it the standard deviation." if seeds > 1 else ""
    caption += spread or f" In brackets the 95 % interval ({measure.interval})."
    name = f"raised_bar_{measure.column.name}"
    return Table(name, f"{measure.title}: generated and conventional outliers", caption, made)


def _cells(sets: dict[str, list[Any]], names: Sequence[str], seeds: int) -> dict[Column, Any]:
    """Return the interval of a single seed, or mean and sample standard deviation over seeds."""
    cells: dict[Column, Any] = {}
    for name in names:
        found = sets.get(name, [])
        if seeds == 1:
            cells[Column(name, INTERVAL, of="outlier set", better="higher")] = found[0] if found else (np.nan,) * 3
            continue
        values = [one[0] for one in found]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
        cells[Column(name, VALUE, of="outlier set", better="higher")] = float(np.mean(values)) if values else np.nan
        cells[Column(f"{name} s.d.", VALUE, of="standard deviation")] = deviation
    return cells


def _which(generated: Sequence[str], plain: Sequence[str]) -> str:
    """Return the sentence that names the generated sets, and those of plain samples."""
    samples = f" plain samples of a generator: {', '.join(plain)};" if plain else ""
    if not generated:
        return f"The scores of generated sets are missing;{samples} the others are conventional sets."
    words = f"Generated from the inliers alone: {', '.join(generated)};{samples} the others are conventional sets."
    if any(name.endswith(UNDERTRAINED) for name in generated):
        words += " undertrained: the generated images are nearer to uniform noise than to training images (FID)."
    return words


def details(lines: Sequence[Line]) -> Table:
    """Return the table of all measures by seed."""
    caption = (
        "Detection measures of every detector, seed and outlier set, all from 0 to 1, higher is better; in brackets "
        "the 95 % interval (auroc: DeLong; others: bootstrap). kind: generated from the inliers alone, plain samples "
        "of a generator, or a conventional set. aupr_out and aupr_in: area under the precision-recall curve with "
        "outliers, or inliers, as the positive class; they depend on the numbers of both."
    )
    return Table("raised_bar_details", "All detection measures by seed and outlier set", caption, list(lines))


def detection_bars(lines: Sequence[Line]) -> list[Bars]:
    """Return bars of AUROC and of AUPRC by detector and outlier set, a panel per network, of the first seed."""
    shown = [line for line in lines if line[SEED] == lines[0][SEED]]
    return [_bars(shown, measure) for measure in MEASURES[:2]] if shown else []


def _bars(lines: Sequence[Line], measure: Measure) -> Bars:
    panels: dict[str, pd.DataFrame] = {}
    for network in dict.fromkeys(line[NETWORK] for line in lines):
        rows = [
            (f"{line[DETECTOR]}, {line[OUTLIERS]}", line[OUTLIERS], *line[measure.column])
            for line in lines
            if line[NETWORK] == network
        ]
        panels[network] = pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])
    caption = (
        f"{measure.title} by detector and outlier set, a panel per network. Sets generated from the inliers come "
        "first; the lower their bars beside the conventional sets', the harder they are. Higher is better for the "
        f"detector: 1 is ideal, {measure.chance}. AUPRC is the area under the precision-recall curve "
        "with the named side as the positive class. Whiskers: 95 % intervals. Numbers of images: see the table of all "
        "measures. Of several seeds the first is shown."
    )
    chance = 0.5 if measure.column is AUROC else None
    name = f"raised_bar_bars_{measure.column.name}"
    return Bars(name, f"{measure.title} by outlier set", caption, panels, measure.title, chance=chance)
