"""Calibration of networks on Shifted sets beside corruptions: ECE (Tables 3, 11, Fig. 12), reliability (Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from farout.metrics import Interval, ece, ece_interval, reliability
from farout.metrics.calibration import BINS
from farout.metrics.intervals import clopper_pearson_bounds
from farout.protocols.raised_bar.entries import CONVENTIONAL, CORRUPTION, SHIFTED, TEST
from farout.protocols.raised_bar.results import BarResults, Predicted
from farout.protocols.shared.columns import IMAGES, NETWORK, SEEDS
from farout.report.content import INTERVAL, LABEL, VALUE, Bars, Calibrations, Column, Curve, Line, Table

MEAN, MOST, WORST = "corruptions, mean", "corruptions, maximum", Column("worst_corruption", LABEL)
RESAMPLES = 500
"""Bootstrap resamples of the interval of an ECE."""


class Calibrated(NamedTuple):
    """Predictions of one network with one seed, by image set."""

    network: str
    seed: str
    sets: dict[str, tuple[str, Predicted]]
    """Kind and predictions of every set, in the order planned."""
    logits: dict[str, str]
    """Number of classes of the sets that have some of the inliers' only; the softmax is over these."""

    def of_kind(self, kind: str) -> dict[str, Predicted]:
        """Return the predictions on the sets of a kind."""
        return {name: found for name, (own, found) in self.sets.items() if own == kind}

    def values(self) -> dict[str, float]:
        """Return the ECE on test images and further sets, its mean and maximum over corruptions, and on Shifted."""
        over = [ece(*found) for found in self.of_kind(CORRUPTION).values()]
        corrupted = {MEAN: float(np.mean(over)), MOST: float(np.max(over))} if over else {}
        before, after = (
            {name: ece(*found) for kind in kinds for name, found in self.of_kind(kind).items()}
            for kinds in ((TEST, CONVENTIONAL), (SHIFTED,))
        )
        return {**before, **corrupted, **after}

    @property
    def single(self) -> dict[str, Predicted]:
        """Predictions on all sets but corruptions, which are summarized."""
        return {name: found for name, (kind, found) in self.sets.items() if kind != CORRUPTION}

    @property
    def worst(self) -> str:
        """Corruption with the largest ECE."""
        over = {name: ece(*found) for name, found in self.of_kind(CORRUPTION).items()}
        return max(over, key=lambda name: over[name]) if over else ""


def calibrated(bar: BarResults) -> list[Calibrated]:
    """Return the predictions of every network and seed that are stored."""
    found: dict[tuple[str, str], Calibrated] = {}
    for row in bar.rows("prediction"):
        network, seed, of, kind = (row.tags[name] for name in ("network", "seed", "of", "kind"))
        predicted = bar.predicted(network=network, seed=seed, of=of, kind=kind)
        if predicted is not None:
            name = bar.title(of) if kind == SHIFTED else of
            one = found.setdefault((network, seed), Calibrated(network, seed, {}, {}))
            one.sets[name] = kind, predicted
            one.logits.update({name: row.tags["logits"]} if "logits" in row.tags else {})
    return list(found.values())


def further_sets(found: Sequence[Calibrated]) -> str:
    """Return a sentence on the further sets of a study, for captions; empty if there are none."""
    parts = [
        f"{name} ({len(predicted.correct):,} images"
        + (f"; softmax over its {one.logits[name]} classes alone)" if name in one.logits else ")")
        for one in found[:1]
        for name, predicted in one.of_kind(CONVENTIONAL).items()
    ]
    return f" Further sets, with images of their own: {', '.join(parts)}." if parts else ""


def ece_values(found: Sequence[Calibrated]) -> dict[str, dict[str, float]]:
    """Return the mean ECE over seeds of every network, by image set."""
    values: dict[str, dict[str, list[float]]] = {}
    for one in found:
        for name, value in one.values().items():
            values.setdefault(name, {}).setdefault(one.network, []).append(value)
    return {name: {key: float(np.mean(part)) for key, part in by.items()} for name, by in values.items()}


def ece_table(found: Sequence[Calibrated], notes: str = "") -> list[Table]:
    """Return the table of ECE by network; empty if there is no result. notes: sentences to add to the caption."""
    if not found:
        return []
    seeds = len({one.seed for one in found})
    by_network: dict[str, list[Calibrated]] = {}
    for one in found:
        by_network.setdefault(one.network, []).append(one)
    lines = [_line(network, part, seeds) for network, part in by_network.items()]
    types = max(len(one.of_kind(CORRUPTION)) for one in found)
    caption = (
        "Expected calibration error (ECE) of every network: the mean difference of confidence and accuracy over "
        f"{BINS} bins of equal width, from 0 to 1; lower is better, 0 is ideal. These are the same test images: "
        f"unchanged (test), under {types} corruptions (mean and maximum over their types, at the severity that "
        "the study names, 5 by default), and changed by the generator of a Shifted set."
    )
    spread = f" Mean over {seeds} seeds, and beside it the standard deviation." if seeds > 1 else ""
    caption += spread or " In brackets 95 % intervals (bootstrap over images)."
    caption += notes
    return [Table("raised_bar_ece", "Calibration error on Shifted sets and corruptions", caption, lines)]


def _line(network: str, found: Sequence[Calibrated], seeds: int) -> Line:
    images = len(next(iter(found[0].sets.values()))[1].correct)
    line: dict[Column, Any] = {NETWORK: network, IMAGES: images}
    by_seed = [one.values() for one in found]
    intervals = found[0].single
    for name in by_seed[0]:
        values = [one[name] for one in by_seed if name in one]
        if seeds == 1 and name in intervals:
            line[Column(name, INTERVAL, of="image set", better="lower")] = _ece_interval(intervals[name])
        else:
            line[Column(name, VALUE, of="image set", better="lower")] = float(np.mean(values))
        if seeds > 1:
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
            line[Column(f"{name} s.d.", VALUE, of="standard deviation")] = deviation
    return {**line, WORST: found[0].worst, **({SEEDS: len(found)} if seeds > 1 else {})}


def _ece_interval(found: Predicted) -> Interval:
    return ece_interval(*found, resamples=RESAMPLES)


def ece_bars(found: Sequence[Calibrated], notes: str = "") -> list[Bars]:
    """Return the ECE on every image set, a panel per network, of the first seed."""
    shown = [one for one in found if one.seed == found[0].seed]
    if not shown:
        return []
    panels = {one.network: _frame(one.sets) for one in shown}
    caption = (
        "Expected calibration error of every network (panel) on unchanged test images (the first bar and the solid "
        "line), on their copies under every corruption, and on Shifted images; lower is better, 0 is ideal. Whiskers: "
        f"95 % intervals. Numbers of images: see the table. Of several seeds the first is shown.{notes}"
    )
    return [
        Bars(
            "raised_bar_ece_bars", "Calibration error by image set", caption, panels, "ECE", _limit(panels), chance=None
        )
    ]


def _frame(sets: Mapping[str, tuple[str, Predicted]]) -> pd.DataFrame:
    rows = [(name, kind, *_ece_interval(found)) for name, (kind, found) in sets.items()]
    return pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])


def _limit(panels: Mapping[str, pd.DataFrame]) -> float:
    """Return the end of the value axis: a little beyond the longest whisker."""
    return min(1.0, 1.05 * max(float(frame["high"].max()) for frame in panels.values()) or 1.0)


def reliability_plots(found: Sequence[Calibrated], notes: str = "") -> list[Calibrations]:
    """Return the reliability of every network on test, on the worst corruption and on Shifted, of the first seed."""
    shown = [one for one in found if one.seed == found[0].seed]
    if not shown:
        return []
    panels = {one.network: {name: _curve(sets) for name, sets in _selected(one).items()} for one in shown}
    caption = (
        f"Reliability of every network (panel): the accuracy (vertical) of the images in each of {BINS} bins of "
        "confidence (horizontal), on unchanged test images, on the corruption with the largest calibration error, and "
        "on Shifted images. The closer to the diagonal, the better; below it the network is overconfident. Vertical "
        "lines: 95 % intervals (Clopper-Pearson). Empty bins are left out. Of several seeds the first is shown."
        f"{notes}"
    )
    return [Calibrations("raised_bar_reliability", "Reliability on Shifted sets and corruptions", caption, panels)]


def _selected(one: Calibrated) -> dict[str, Predicted]:
    worst = {"worst corruption": one.of_kind(CORRUPTION)[one.worst]} if one.worst else {}
    return {**one.of_kind(TEST), **one.of_kind(CONVENTIONAL), **worst, **one.of_kind(SHIFTED)}


def _curve(found: Predicted) -> Curve:
    bins = reliability(*found)
    bounds = [
        clopper_pearson_bounds(value, int(count), 0.025) if count else (np.nan, np.nan)
        for value, count in zip(bins.accuracy, bins.counts, strict=True)
    ]
    low, high = np.array(bounds).T
    return Curve(bins.confidence, bins.accuracy, low, high)
