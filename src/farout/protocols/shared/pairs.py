"""What several protocols do with inliers and outliers: have both scored, pair the scores, show what they look like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout.protocols.shared.best import best, largest
from farout.protocols.shared.networks import classified
from farout.report.content import Densities, Gallery, Scores, Strip
from farout.study.cells.cell import Entry
from farout.study.cells.score import ScoreCell
from farout.study.results import Results, Row
from farout.study.sources.images import ImageSource
from farout.study.study import Trial

SHOWN = 8
"""Images per strip of failures."""
OWN = "own networks"
"""What stands for the network of detectors that read images."""

Array = NDArray[np.float64]


class Pair(NamedTuple):
    """One detector's scores of the inliers and of one outlier set."""

    network: str
    seed: str
    detector: str
    outliers: str
    inlier_row: Row
    outlier_row: Row


def scored(protocol: str, trial: Trial, outliers: Mapping[str, ImageSource], count: int | None) -> list[Entry]:
    """The cells that score at most `count` images of the inlier test set and of each outlier set."""
    entries = []
    for name, source in {"": trial.inliers.test, **outliers}.items():
        images = trial.stressed(source, count)
        for subject in trial.subjects:
            tags = {"network": subject.network, "seed": str(trial.seed), "detector": subject.label, "outliers": name}
            entries.append(Entry(protocol, ScoreCell(subject, images), tags))
        if not name:
            entries += classified(protocol, trial.seed, trial.subjects, images)
    return entries


def pairs(results: Results, protocol: str) -> Iterable[Pair]:
    """What is there so far of what `scored` planned."""
    rows = results.done(protocol)
    inliers = {_subject(row): row for row in rows if not row.tags["outliers"]}
    for row in rows:
        if row.tags["outliers"] and _subject(row) in inliers:
            network, seed, detector = _subject(row)
            yield Pair(network, seed, detector, row.tags["outliers"], inliers[_subject(row)], row)


def inlier_rows(found: Iterable[Pair]) -> list[Row]:
    """The inliers' rows of these pairs."""
    return [pair.inlier_row for pair in found]


def _subject(row: Row) -> tuple[str, str, str]:
    return row.tags["network"], row.tags["seed"], row.tags["detector"]


def densities(found: Sequence[Pair], scores: Callable[[Row], Array], which: str = "") -> list[Densities]:
    """Score distributions, one figure per network and seed; `which` says of which images, where not of all."""
    figures = []
    caption = (
        "Scores of inliers and outliers; a good detector keeps them apart, outliers to the right. Heights are square "
        "roots of shares, so that small groups show; the outer half percents lie in the first and last bins."
    )
    seeds = {pair.seed for pair in found}
    for network, seed in dict.fromkeys((pair.network, pair.seed) for pair in found):
        mine = [pair for pair in found if (pair.network, pair.seed) == (network, seed)]
        parts = [f"Scores, {network or OWN}", which, f"seed {seed}" if len(seeds) > 1 else ""]
        name = "_".join(filter(None, ("densities", network, seed, which.split(" ")[0])))
        figures.append(Densities(name, ", ".join(filter(None, parts)), caption, _panels(mine, scores)))
    return figures


def _panels(found: Sequence[Pair], scores: Callable[[Row], Array]) -> dict[str, Scores]:
    """Curves by detector; what has no scores has no curve."""
    panels: dict[str, Scores] = {}
    for pair in found:
        panel = panels.setdefault(pair.detector, Scores(scores(pair.inlier_row), {}))
        if len(values := scores(pair.outlier_row)):
            panel.outliers[pair.outliers] = values
    return {name: panel for name, panel in panels.items() if len(panel.inliers) or panel.outliers}


def failures(results: Results, frame: pd.DataFrame, found: Sequence[Pair]) -> Gallery:
    """For every outlier set, the best detector's worst failures of both kinds; `frame` has a row per pair."""
    strips = []
    several = frame["network"].nunique() > 1
    for places in frame.groupby("outliers", sort=False).indices.values():
        pair = found[best(frame, places)]
        inliers, outliers = results.scores(pair.inlier_row), results.scores(pair.outlier_row)
        missed = results.store.arrays(pair.outlier_row.cell, "examples.safetensors")
        below = [(inliers < outliers[place]).mean() for place in missed["lowest"][:SHOWN]]
        title = f"{pair.outliers}: the most normal to {_called(pair, several)}"
        words = [f"rank {share:.1%}" for share in below]
        strips.append(Strip(title, missed["lowest_images"][:SHOWN], words))
    means = frame.groupby(["network", "detector"], sort=False)["auroc"].transform("mean")
    pair = found[largest(means.to_numpy())]
    alarms = results.store.arrays(pair.inlier_row.cell, "examples.safetensors")
    index = results.index(pair.inlier_row)
    words = [f"image {index[place]}" for place in alarms["highest"][:SHOWN]]
    title = f"inliers: the least normal to {_called(pair, several)}"
    strips.append(Strip(title, alarms["highest_images"][:SHOWN], words))
    caption = (
        "The images that the best detector gets most wrong, or comes closest to. Rank: the share of inliers that score "
        "below the outlier; 0 % means that no inlier looks more normal, 100 % that all do. Corrupted images take part, "
        "where there are some."
    )
    return Gallery("failures", "Worst failures", caption, strips)


def span(numbers: Iterable[int]) -> str:
    """A number, or the smallest and the largest of several."""
    known = sorted(set(numbers))
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def _called(pair: Pair, several: bool) -> str:
    """The detector, with its network where there are several."""
    return f"{pair.detector} on {pair.network}" if several and pair.network else pair.detector
