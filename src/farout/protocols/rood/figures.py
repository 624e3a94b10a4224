"""Figures of `rood`: bars by shift (the paper's Fig. 2), scores of images and their copies (Fig. 3), false alarms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from farout import rng
from farout.protocols.rood.measures import Measured
from farout.protocols.rood.results import PLAIN, Key, Line, Scores, Test
from farout.protocols.shared.pairs import OWN, SHOWN, Array
from farout.report.content import Bars, Gallery, Scatter, Strip

NONE = "none"
"""Label of the bar without shifts."""
WORST = 3
"""Shifts per setup that a scatter and a gallery show."""
POINTS = 100
"""Images per shift that a scatter shows."""

Lines = Sequence[tuple[Line, Measured]]


def bars(lines: Lines) -> list[Bars]:
    """Return a figure per network and outlier set, of the first seed."""
    caption = (
        "AUROC of the outliers against the inliers: unchanged inliers alone (none, the first bar and the solid line), "
        "or together with their copies under one shift at all severities, which also count as inliers. Higher is "
        "better: 1 is ideal, 0.5 (dotted) is chance; a bar left of the solid line: the detector takes shifted inliers "
        "for outliers. An augmentation adds one copy of every inlier, a corruption one per severity, so that unchanged "
        "inliers weigh more in the former. Whiskers: 95 % intervals. Numbers of images: see the first table. Of "
        "several seeds the first is shown."
    )
    figures = []
    for number, (title, part) in enumerate(_by_figure(lines).items()):
        panels = {line.subject.detector: _bars(line, found) for line, found in part}
        figures.append(
            Bars(f"rood_bars_{number}", f"AUROC with shifted inliers, by shift, {title}", caption, panels, "AUROC")
        )
    return figures


def _by_figure(lines: Lines) -> dict[str, Lines]:
    parts: dict[str, list[tuple[Line, Measured]]] = {}
    for line, found in lines:
        if line.subject.seed == lines[0][0].subject.seed and line.whole:
            parts.setdefault(f"{line.subject.network or OWN}, {line.against}", []).append((line, found))
    return dict(parts)


def _bars(line: Line, found: Measured) -> pd.DataFrame:
    shifts = [(shift, setup, *found.of(Key(setup, shift)).auroc) for setup, shift in _there(line, found)]
    rows = [(NONE, NONE, *found.of(PLAIN).auroc), *shifts]
    return pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])


def _there(line: Line, found: Measured) -> list[tuple[str, str]]:
    """Return the setups and shifts whose results are complete."""
    return [(setup, shift) for setup, shift in line.planned if Key(setup, shift) in found.together]


def scatters(lines: Lines) -> list[Scatter]:
    """Return a figure per network and setup, of the first seed: the shifts that lower AUROC most, at full severity."""
    figures: list[Scatter] = []
    for title, part in _by_inliers(lines).items():
        for setup in dict.fromkeys(setup for one in part for setup, _ in _there(*one)):
            worst = _worst(part, setup)
            panels = {line.subject.detector: _points(line, found, setup, worst) for line, found in part}
            caption, name = _scatter_caption(worst, part[0][0].one_class), f"rood_scatter_{len(figures)}"
            labels = ("score of the inlier", "score of its shifted copy")
            figures.append(
                Scatter(
                    name,
                    f"Scores of inliers and of their shifted copies, {title}, setup {setup}",
                    caption,
                    panels,
                    labels,
                )
            )
    return figures


def _scatter_caption(shifts: Sequence[str], one_class: bool) -> str:
    which = shifts[0] if len(shifts) == 1 else f"one of the {len(shifts)} shifts that lower AUROC most"
    several = " (mean over detectors)" if len(shifts) > 1 else ""
    over = "over the images shown, each class by itself" if one_class else "over the images shown"
    return (
        f"Every point is an inlier, at most {POINTS} per shift: its score unchanged, and the score of its copy under "
        f"{which}{several}, at the highest severity. Scores are scaled to [0, 1] {over}; larger = more outlying. The "
        "closer to the diagonal, where the shift changes nothing, the better; above it the copy looks more like an "
        "outlier. At the right: the median score of every shift's copies. Of several seeds the first is shown."
    )


def _by_inliers(lines: Lines) -> dict[str, Lines]:
    """Return the lines of figures that show inliers alone: of several outlier sets the first stands for all."""
    parts: dict[str, dict[str, tuple[Line, Measured]]] = {}
    for line, found in (one for part in _by_figure(lines).values() for one in part):
        title = f"{line.subject.network or OWN}{', one class at a time' if line.one_class else ''}"
        parts.setdefault(title, {}).setdefault(line.subject.detector, (line, found))
    return {title: list(part.values()) for title, part in parts.items()}


def _worst(lines: Lines, setup: str) -> list[str]:
    """Return the shifts of a setup with the lowest mean AUROC over detectors."""
    values: dict[str, list[float]] = {}
    for line, found in lines:
        for own, shift in _there(line, found):
            if own == setup:
                values.setdefault(shift, []).append(found.of(Key(setup, shift)).auroc.value)
    return sorted(values, key=lambda shift: np.mean(values[shift]))[:WORST]


def _points(line: Line, found: Measured, setup: str, shifts: Sequence[str]) -> dict[str, Array]:
    """Return, by shift, the scores of inliers and of their copies [N, 2], each class scaled by itself."""
    there = {shift: line.strongest(setup, shift) for shift in shifts if (setup, shift) in _there(line, found)}
    parts = [_scaled(test, there, max(1, POINTS // len(line.tests))) for test in line.tests]
    return {shift: np.concatenate([part[shift] for part in parts]) for shift in there}


def _scaled(test: Test, copies: dict[str, Key], count: int) -> dict[str, Array]:
    scores = Scores(test)
    selected = rng.subset_indices(len(scores.inliers), count)
    pairs = {
        shift: np.stack([scores.inliers, scores.shifted(test.copies[key])], 1)[selected]
        for shift, key in copies.items()
    }
    low = min((both.min() for both in pairs.values()), default=0.0)
    span = max((both.max() for both in pairs.values()), default=0.0) - low
    return {shift: (both - low) / (span or 1.0) for shift, both in pairs.items()}


def false_alarms(lines: Lines) -> list[Gallery]:
    """Return the shifted inliers with the highest scores of the best detector, of the first seed.

    Pictures of one-class tests are not shown: those stored are mostly of other classes than the inlier class.
    """
    first = lines[0][0].subject.seed
    several = [(line, found) for line, found in lines if not line.one_class and line.subject.seed == first]
    if not several:
        return []
    line, found = max(several, key=lambda one: one[1].of(PLAIN).auroc.value)
    setups = dict.fromkeys(setup for setup, _ in _there(line, found))
    worst = [line.strongest(setup, shift) for setup in setups for shift in _worst([(line, found)], setup)]
    strips = [_strip(line.subject.detector, line.tests[0], key) for key in worst]
    where = f" on {line.subject.network}" if line.subject.network else ""
    caption = (
        f"Shifted inliers with the highest scores of {line.subject.detector}{where}, the best detector on "
        f"{line.outliers} without shifts; a row per shift, for at most {WORST} shifts of every setup that lower AUROC "
        "most. beyond: the fraction of outliers that score lower; lower is better, at 100 % the shifted inlier looks "
        "more outlying than every outlier. Of several seeds the first is shown."
    )
    return (
        [Gallery("rood_false_alarms", "False alarms: shifted inliers that look outlying", caption, strips)]
        if strips
        else []
    )


def _strip(detector: str, test: Test, key: Key) -> Strip:
    row, scores = test.copies[key], Scores(test)
    kept, values = test.results.store.arrays(row.cell, "examples.safetensors"), test.results.scores(row)
    beyond = [(scores.outliers < values[position]).mean() for position in kept["highest"][:SHOWN]]
    title = f"{key.shift} {key.severity}".strip()
    words = [f"beyond {fraction:.0%}" for fraction in beyond]
    return Strip(title, kept["highest_images"][:SHOWN], words, detector, key.shift)
