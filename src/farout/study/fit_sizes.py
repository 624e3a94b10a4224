"""Fit sizes: the number of images that networks are trained on and detectors fitted on, of how many available."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farout.study.cells.cell import Cell
from farout.study.cells.train import TrainCell
from farout.study.sources.images import ImageSource, SubsetImages

if TYPE_CHECKING:
    from farout.study.study import Trial

SPLITS = {"train": "training", "val": "validation", "outliers": "outlier", "auxiliary_outliers": "auxiliary"}
"""Splits used for fitting, and the adjective for their images in text."""
Line = dict[str, Any]
"""Table row: the fitted thing (`fitted`, `network`, `seed`), per split the images used and, as of_…, available, and the
outlier sets that it learned from (`extra_data`)."""


def fit_lines(trials: Sequence[Trial]) -> list[Line]:
    """Return a line per trained network, and one per group of a network's detectors fitted on the same images."""
    lines = [line for trial in trials for line in (*_networks(trial), *_detectors(trial))]
    return lines if any(line[kind] for line in lines for kind in SPLITS.values()) else []


def fit_cuts(trials: Sequence[Trial]) -> list[str]:
    """Return a text per split that the budget cuts: how many images are left out of training and fitting."""
    lines, texts = fit_lines(trials), []
    for kind in SPLITS.values():
        for line in lines:
            used, available = line[kind], line[f"of_{kind}"]
            if 0 < used < available:
                use = f"{_fitted(lines)} on the other {used:,}" if kind == SPLITS["train"] else f"{used:,} are used"
                texts.append(f"{available - used:,} of {available:,} {kind} images: {use}")
    return list(dict.fromkeys(texts))


def fit_text(lines: Iterable[Line]) -> list[str]:
    """Return a line of text per group of networks and detectors that were fitted on the same numbers of images."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        sizes = [_size(line, kind) for kind in SPLITS.values() if line.get(kind)]
        if sizes:
            groups.setdefault(" and ".join(sizes), []).append(line["fitted"])
    return [f"fitted on {sizes}: {', '.join(dict.fromkeys(names))}" for sizes, names in groups.items()]


def _size(line: Line, kind: str) -> str:
    used, available = line[kind], line[f"of_{kind}"]
    return f"{used:,} of {available:,} {kind} images" if used < available else f"all {available:,} {kind} images"


def _fitted(lines: Iterable[Line]) -> str:
    trained = any(line["fitted"].startswith("network ") for line in lines)
    return "networks are trained and detectors fitted" if trained else "detectors are fitted"


def _networks(trial: Trial) -> Iterator[Line]:
    """Yield a line per network that the study trains."""
    cells = {cell.id: cell for subject in trial.subjects for cell in _with_required(subject.requires)}
    for cell in cells.values():
        if isinstance(cell, TrainCell):
            splits = {"train": cell.train, "val": cell.val}
            yield _line(f"network {cell.label}", cell.label, trial.seed, splits)


def _with_required(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells, each after all cells that it requires."""
    for cell in cells:
        yield from _with_required(cell.requires)
        yield cell


def _detectors(trial: Trial) -> Iterator[Line]:
    """Yield a line per group of detectors that share the network and the splits they are fitted on."""
    groups: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for subject in trial.subjects:
        groups.setdefault((subject.network, (*subject.learns, subject.extra_data)), []).append(subject)
    for (network, _), subjects in groups.items():
        names = ", ".join(subject.label for subject in subjects)
        yield _line(names, network, trial.seed, subjects[0].learns, subjects[0].extra_data)


def _line(fitted: str, network: str, seed: int, splits: Mapping[str, ImageSource], extra: str = "") -> Line:
    line: Line = {"fitted": fitted, "network": network, "seed": str(seed), "extra_data": extra}
    for split, kind in SPLITS.items():
        used, available = _sizes(splits[split]) if split in splits else (0, 0)
        line |= {kind: used, f"of_{kind}": available}
    return line


def _sizes(images: ImageSource) -> tuple[int, int]:
    """Return the number of images of a source, and of the source it is a subset of."""
    total = images.about.total
    return total, len(images.source.preview()) if isinstance(images, SubsetImages) else total
