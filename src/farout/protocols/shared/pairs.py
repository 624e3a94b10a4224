"""Inliers paired with outlier sets: the cells that score both, their stored scores, and figures of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout.protocols.shared.best import best, largest
from farout.protocols.shared.networks import classified
from farout.protocols.shared.selection import select
from farout.report.content import Densities, Gallery, Scores, Strip
from farout.study.cells.cell import Entry
from farout.study.cells.score import ScoreCell
from farout.study.results import Results, Row
from farout.study.sources.images import ImageSource
from farout.study.study import Trial

SHOWN = 8
"""Images per strip of failures."""
OWN = "own networks"
"""Stands for the network of detectors that read images themselves."""

Array = NDArray[np.float64]


class Pair(NamedTuple):
    """One detector's scores of the inliers and of one outlier set."""

    network: str
    seed: str
    detector: str
    outliers: str
    inlier_row: Row
    outlier_row: Row


def scored(
    protocol: str,
    trial: Trial,
    outliers: Mapping[str, ImageSource],
    count: int | None,
    labels: Sequence[str] | None = None,
) -> list[Entry]:
    """Return the cells that score at most `count` images of the inlier test set and of each outlier set.

    labels: those of the detectors; all for None.
    """
    entries, subjects = [], select(trial, labels)
    for name, source in {"": trial.inliers.test, **outliers}.items():
        images = trial.stressed(source, count)
        for subject in subjects:
            tags = {"network": subject.network, "seed": str(trial.seed), "detector": subject.label, "outliers": name}
            entries.append(Entry(protocol, ScoreCell(subject, images), tags))
        if not name:
            entries += classified(protocol, trial.seed, subjects, images)
    return entries


def pairs(results: Results, protocol: str) -> Iterable[Pair]:
    """Yield the pairs whose scores are stored, of those that `scored` planned."""
    rows = [row for row in results.done(protocol) if "role" not in row.tags]
    inliers = {_subject(row): row for row in rows if not row.tags["outliers"]}
    for row in rows:
        if row.tags["outliers"] and _subject(row) in inliers:
            network, seed, detector = _subject(row)
            yield Pair(network, seed, detector, row.tags["outliers"], inliers[_subject(row)], row)


def inlier_rows(found: Iterable[Pair]) -> list[Row]:
    """Return the rows of the inliers of these pairs."""
    return [pair.inlier_row for pair in found]


def _subject(row: Row) -> tuple[str, str, str]:
    return row.tags["network"], row.tags["seed"], row.tags["detector"]


def densities(found: Sequence[Pair], scores: Callable[[Row], Array], which: str = "") -> list[Densities]:
    """Return score distributions, one figure per network and seed; `which` names the images if not all are shown."""
    figures = []
    seeds = {pair.seed for pair in found}
    for network, seed in dict.fromkeys((pair.network, pair.seed) for pair in found):
        mine = [pair for pair in found if (pair.network, pair.seed) == (network, seed)]
        parts = [f"Score distributions, {network or OWN}", which, f"seed {seed}" if len(seeds) > 1 else ""]
        name = "_".join(filter(None, ("densities", network, seed, which.split(" ")[0])))
        panels = _panels(mine, scores)
        figures.append(Densities(name, ", ".join(filter(None, parts)), _density_caption(panels), panels))
    return figures


def _density_caption(panels: Mapping[str, Scores]) -> str:
    inliers = span(len(panel.inliers) for panel in panels.values())
    outliers = span(len(scores) for panel in panels.values() for scores in panel.outliers.values())
    return (
        f"Histograms of the scores of {inliers} inliers (gray) and of {outliers} outliers of each set (colored), a "
        "panel per detector; horizontal axis: the score, larger = more outlying. The less they overlap, with outliers "
        "to the right, the better. Heights are square roots of fractions, so that small groups are visible; the lowest "
        "and the highest 0.5 % of the scores are put into the first and the last bin."
    )


def _panels(found: Sequence[Pair], scores: Callable[[Row], Array]) -> dict[str, Scores]:
    """Return the scores by detector; sets without scores are left out."""
    panels: dict[str, Scores] = {}
    for pair in found:
        panel = panels.setdefault(pair.detector, Scores(scores(pair.inlier_row), {}))
        if len(values := scores(pair.outlier_row)):
            panel.outliers[pair.outliers] = values
    return {name: panel for name, panel in panels.items() if len(panel.inliers) or panel.outliers}


def failures(results: Results, frame: pd.DataFrame, found: Sequence[Pair]) -> Gallery:
    """Return the best detector's worst failures: outliers of every set, and inliers. `frame` has a row per pair."""
    strips = []
    several = frame["network"].nunique() > 1
    for indices in frame.groupby("outliers", sort=False).indices.values():
        pair = found[best(frame, indices)]
        inliers, outliers = results.scores(pair.inlier_row), results.scores(pair.outlier_row)
        missed = results.store.arrays(pair.outlier_row.cell, "examples.safetensors")
        below = [(inliers < outliers[position]).mean() for position in missed["lowest"][:SHOWN]]
        title = f"outliers of {pair.outliers} with the lowest scores of {_title(pair, several)}"
        words = [f"rank {fraction:.1%}" for fraction in below]
        strips.append(Strip(title, missed["lowest_images"][:SHOWN], words, pair.detector, pair.outliers))
    means = frame.groupby(["network", "detector"], sort=False)["auroc"].transform("mean")
    pair = found[largest(means.to_numpy())]
    alarms = results.store.arrays(pair.inlier_row.cell, "examples.safetensors")
    index = results.index(pair.inlier_row)
    words = [f"image {index[position]}" for position in alarms["highest"][:SHOWN]]
    title = f"inliers with the highest scores of {_title(pair, several)}"
    strips.append(Strip(title, alarms["highest_images"][:SHOWN], words, pair.detector, "inliers"))
    caption = (
        f"Images that the best detector (highest AUROC) misjudges most, at most {SHOWN} of each kind: outliers that "
        "look normal to it, and inliers that look outlying. rank: the fraction of inliers that score below the "
        "outlier; higher is better: at 100 % every inlier looks more normal than the outlier, at 0 % none does. image: "
        "the inlier's index in its set. Corrupted images are included if the set has any."
    )
    return Gallery("failures", "Worst failures of the best detector", caption, strips)


def span(numbers: Iterable[int]) -> str:
    """Return a number as text, or the range of several: "5" or "5 to 9"; "no" if there are none."""
    known = sorted(set(numbers))
    if not known:
        return "no"
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def _title(pair: Pair, several: bool) -> str:
    """Return the name of the pair's detector, with its network if there are several."""
    return f"{pair.detector} on {pair.network}" if several and pair.network else pair.detector
