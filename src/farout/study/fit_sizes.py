"""Fit sizes: how many images networks are trained and detectors fitted on, of how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farout.study.cells.cell import Cell
from farout.study.cells.train import TrainCell
from farout.study.sources.images import ImageSource, SomeImages

if TYPE_CHECKING:
    from farout.study.study import Trial

SPLITS = {"train": "training", "val": "validation", "outliers": "outlier"}
"""Splits to fit on, and what people call their images."""
Line = dict[str, Any]
"""A line: what was fitted (`fitted`, `network`, `seed`); by split the number of images, and as of_… of how many."""


def fit_lines(trials: Sequence[Trial]) -> list[Line]:
    """A line per trained network, and one for all detectors of a network that are fitted on the same images."""
    lines = [line for trial in trials for line in (*_networks(trial), *_detectors(trial))]
    return lines if any(line[kind] for line in lines for kind in SPLITS.values()) else []


def fit_cuts(trials: Sequence[Trial]) -> list[str]:
    """The images that the budget takes away from training and fitting."""
    lines, told = fit_lines(trials), []
    for kind in SPLITS.values():
        for line in lines:
            used, there = line[kind], line[f"of_{kind}"]
            if 0 < used < there:
                use = f"{_fitted(lines)} on the other {used:,}" if kind == SPLITS["train"] else f"{used:,} are used"
                told.append(f"{there - used:,} of {there:,} {kind} images: {use}")
    return list(dict.fromkeys(told))


def fit_text(lines: Iterable[Line]) -> list[str]:
    """A line of text per group of things that were fitted on the same numbers of images."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        sizes = [_size(line, kind) for kind in SPLITS.values() if line[kind]]
        if sizes:
            groups.setdefault(" and ".join(sizes), []).append(line["fitted"])
    return [f"fitted on {sizes}: {', '.join(dict.fromkeys(names))}" for sizes, names in groups.items()]


def _size(line: Line, kind: str) -> str:
    used, there = line[kind], line[f"of_{kind}"]
    return f"{used:,} of {there:,} {kind} images" if used < there else f"all {there:,} {kind} images"


def _fitted(lines: Iterable[Line]) -> str:
    trained = any(line["fitted"].startswith("network ") for line in lines)
    return "networks are trained and detectors fitted" if trained else "detectors are fitted"


def _networks(trial: Trial) -> Iterator[Line]:
    """The networks that the study trains."""
    cells = {cell.id: cell for subject in trial.subjects for cell in _needs(subject.requires)}
    for cell in cells.values():
        if isinstance(cell, TrainCell):
            splits = {"train": cell.train, "val": cell.val}
            yield _line(f"network {cell.label}", cell.label, trial.seed, splits)


def _needs(cells: Iterable[Cell]) -> Iterator[Cell]:
    for cell in cells:
        yield from _needs(cell.requires)
        yield cell


def _detectors(trial: Trial) -> Iterator[Line]:
    """Those fitted on the same images of a network as one line; those that are not fitted as another."""
    groups: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for subject in trial.subjects:
        groups.setdefault((subject.network, tuple(subject.learns)), []).append(subject)
    for (network, _), subjects in groups.items():
        names = ", ".join(subject.label for subject in subjects)
        yield _line(names, network, trial.seed, subjects[0].learns)


def _line(fitted: str, network: str, seed: int, splits: Mapping[str, ImageSource]) -> Line:
    line: Line = {"fitted": fitted, "network": network, "seed": str(seed)}
    for split, kind in SPLITS.items():
        used, there = _sizes(splits[split]) if split in splits else (0, 0)
        line |= {kind: used, f"of_{kind}": there}
    return line


def _sizes(images: ImageSource) -> tuple[int, int]:
    """Count the images of a source, and those that it was drawn from."""
    total = images.about.total
    return total, len(images.source.preview()) if isinstance(images, SomeImages) else total
