"""The figures of `rood`: bars by shift (the paper's Fig. 2), scores of images and their copies (Fig. 3), pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from farout.protocols.pairs import OWN, SHOWN, Array
from farout.protocols.rood_tests import Copy, Test, Tests, shifts_of
from farout.protocols.summary import Bars, Gallery, Scatter, Strip
from farout.study.results import Results

NONE = "none"
"""The bar without shifts."""
WORST = 3
"""Shifts that a scatter and a gallery show, of every setup."""
POINTS = 100
"""Images that a scatter shows, of every shift."""


def bars(lines: Sequence[Tests]) -> list[Bars]:
    """A figure per network and outlier set, of the first seed."""
    caption = (
        "AUROC of the outliers against the inliers as they are (none, the line across) and with their copies under one "
        "shift, all severities, among the inliers. Whiskers: 95 % intervals."
    )
    figures = []
    for place, (title, part) in enumerate(_by_figure(lines).items()):
        panels = {line.who.detector: _bars(line) for line in part}
        figures.append(Bars(f"rood_bars_{place}", f"AUROC by shift, {title}", caption, panels, "AUROC"))
    return figures


def _by_figure(lines: Sequence[Tests]) -> dict[str, list[Tests]]:
    parts: dict[str, list[Tests]] = {}
    for line in lines:
        if line.who.seed == lines[0].who.seed and line.whole:
            parts.setdefault(f"{line.who.network or OWN}, {line.against}", []).append(line)
    return parts


def _bars(line: Tests) -> pd.DataFrame:
    plain = line.mean([test.unshifted for test in line.tests])
    assert plain is not None  # the line is whole
    rows = [(NONE, NONE, *plain.share())]
    for setup, shift in shifts_of(line):
        copies = [test.shifted(setup, shift) for test in line.tests]
        found = line.mean([test.auroc(some) for test, some in zip(line.tests, copies, strict=True)])
        if found is not None and all(copies):
            rows.append((shift, setup, *found.share()))
    return pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])


def scatters(lines: Sequence[Tests]) -> list[Scatter]:
    """A figure per network and setup: the shifts that hurt most, at their highest severity."""
    caption = (
        f"Every point is an inlier: its score as it is, and that of its copy under one of the {WORST} shifts that "
        "lower AUROC most (mean over detectors), at the highest severity. Scores are scaled to [0, 1] over what is "
        "shown. On the diagonal the shift changes nothing; above it the copy looks more like an outlier. At the right "
        "the median of every shift's copies."
    )
    figures: list[Scatter] = []
    for title, part in _by_inliers(lines).items():
        for setup in dict.fromkeys(setup for line in part for setup, _ in shifts_of(line)):
            worst = _worst(part, setup)
            panels = {line.who.detector: _points(line, setup, worst) for line in part}
            name = f"rood_scatter_{len(figures)}"
            labels = ("score of the image", "score of its copy")
            figures.append(Scatter(name, f"Scores under shift, {title}, setup {setup}", caption, panels, labels))
    return figures


def _by_inliers(lines: Sequence[Tests]) -> dict[str, list[Tests]]:
    """The lines of a figure that shows inliers alone: of all sets of outliers the first stands for the others."""
    parts: dict[str, dict[str, Tests]] = {}
    for line in (line for part in _by_figure(lines).values() for line in part):
        title = f"{line.who.network or OWN}{', one class at a time' if line.one_class else ''}"
        parts.setdefault(title, {}).setdefault(line.who.detector, line)
    return {title: list(part.values()) for title, part in parts.items()}


def _worst(lines: Sequence[Tests], setup: str) -> list[str]:
    """The shifts of a setup with the lowest mean AUROC over detectors."""
    found: dict[str, list[float]] = {}
    for line in lines:
        for own, shift in shifts_of(line):
            copies = [test.shifted(setup, shift) for test in line.tests]
            if own == setup and all(copies):
                values = [test.auroc(some).value for test, some in zip(line.tests, copies, strict=True)]
                found.setdefault(shift, []).append(float(np.mean(values)))
    return sorted(found, key=lambda shift: np.mean(found[shift]))[:WORST]


def _points(line: Tests, setup: str, shifts: Sequence[str]) -> dict[str, Array]:
    """By shift, the scores of inliers and of their copies, each class scaled by itself: [N, 2]."""
    each = max(1, POINTS // len(line.tests))
    there = [shift for shift in shifts if all(test.shifted(setup, shift) for test in line.tests)]
    parts = [_scaled(test, {shift: test.shifted(setup, shift)[-1] for shift in there}, each) for test in line.tests]
    return {shift: np.concatenate([part[shift] for part in parts]) for shift in there}


def _scaled(test: Test, copies: dict[str, Copy], count: int) -> dict[str, Array]:
    pairs = {shift: np.stack([test.inlier_scores, copy.scores], 1)[:count] for shift, copy in copies.items()}
    low = min((both.min() for both in pairs.values()), default=0.0)
    span = max((both.max() for both in pairs.values()), default=0.0) - low
    return {shift: (both - low) / (span or 1.0) for shift, both in pairs.items()}


def false_alarms(results: Results, lines: Sequence[Tests]) -> list[Gallery]:
    """Shifted inliers that the best detector finds least normal; of one-class tests no such pictures are kept."""
    several = [line for line in lines if not line.one_class and line.who.seed == lines[0].who.seed]
    if not several:
        return []
    best = max(several, key=lambda line: line.tests[0].unshifted.value)
    test = best.tests[0]
    strips = [
        _strip(results, test, test.shifted(setup, shift)[-1])
        for setup in dict.fromkeys(setup for setup, _ in shifts_of(best))
        for shift in _worst([best], setup)
    ]
    where = f" on {best.who.network}" if best.who.network else ""
    caption = (
        f"Inliers under the {WORST} worst shifts of every setup that look least normal to {best.who.detector}{where}, "
        f"the best detector on {best.outliers} without shifts. Beyond: the share of outliers that look more normal."
    )
    return [Gallery("rood_false_alarms", "False alarms", caption, strips)]


def _strip(results: Results, test: Test, copy: Copy) -> Strip:
    kept: dict[str, Any] = results.store.arrays(copy.row.cell, "examples.safetensors")
    beyond = [(test.outlier_scores < copy.scores[place]).mean() for place in kept["highest"][:SHOWN]]
    title = f"{copy.shift} {copy.severity}".strip()
    return Strip(title, kept["highest_images"][:SHOWN], [f"beyond {share:.0%}" for share in beyond])
