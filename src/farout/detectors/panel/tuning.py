"""Choosing hyper-parameters on inliers and outliers that the user names, from activations computed once."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from farout.core import Activations, ImageSet, PostHoc, Split
from farout.detectors.panel.labels import describe
from farout.detectors.panel.provenance import Candidate, Images, Tuned
from farout.detectors.panel.sweeps import needs_of, table_of
from farout.metrics import auroc
from farout.progress import Listener
from farout.registry import unknown
from farout.rng import numpy_generator

if TYPE_CHECKING:
    from farout.detectors.panel.panel import Panel

Grid = Mapping[str, Mapping[str, Sequence[Any]]]
"""By the label of a panel's member and the name of a hyper-parameter, the values to try."""


class Seen(NamedTuple):
    """A set and its activations."""

    images: ImageSet
    table: Activations

    def part(self, places: NDArray[np.int64]) -> Seen:
        """Some of the images."""
        rows: Any = torch.from_numpy(places)
        return Seen(self.images.subset(places), self.table[rows])


@dataclass
class Attempt:
    """One combination of values, the detector that has them, and what became of it."""

    params: dict[str, Any]
    detector: PostHoc | None = None
    auroc: float | None = None
    failure: str = ""


def tune(
    panel: Panel,
    grid: Grid,
    train: ImageSet | None,
    val: ImageSet | None,
    outliers: ImageSet,
    progress: Listener | None,
) -> None:
    """What `Panel.tune` promises."""
    check_grid(panel.detectors, grid)
    val = _checked(train if panel.needs("train") else None, val, outliers)
    rest = {label: detector for label, detector in panel.detectors.items() if label not in grid}
    for label, detector in rest.items():
        panel.alone(label, detector).check_splits(train, val)
    attempts = {label: _attempts(panel, label, fields, train, val) for label, fields in grid.items()}
    made = [one.detector for several in attempts.values() for one in several if one.detector is not None]
    fitting = _seen(panel, [*made, *rest.values()], train, val, progress)
    others = Seen(outliers, table_of(panel.network, outliers, needs_of(made, None), progress))
    records = {label: _choose(panel, label, one, fitting, others, progress) for label, one in attempts.items()}
    for label, record in records.items():
        panel.detectors[label] = dataclasses.replace(panel.detectors[label], **record.params)
        panel.tuned[label] = record
    panel.validation, panel.learned = {}, {}
    for split, seen in fitting.items():
        panel.fit_from(seen.table, seen.images.labels, split)
    panel.validate(fitting["val"].table, val.name, panel.score_looking(val, progress))


def _seen(
    panel: Panel, detectors: Sequence[PostHoc], train: ImageSet | None, val: ImageSet, progress: Listener | None
) -> dict[Split, Seen]:
    """The splits that are fitted on, or judged on, after one pass over each."""
    seen: dict[Split, Seen] = {}
    if train is not None and needs_of(detectors, "train"):
        seen["train"] = Seen(train, table_of(panel.network, train, needs_of(detectors, "train"), progress))
    needs = needs_of(detectors, "val") | needs_of(detectors, None)
    seen["val"] = Seen(val, table_of(panel.network, val, needs, progress))
    return seen


def check_grid(detectors: Mapping[str, PostHoc], grid: Grid) -> None:
    """An error where the grid is not one of these detectors."""
    if not isinstance(grid, Mapping) or not grid or not all(isinstance(f, Mapping) and f for f in grid.values()):
        raise ValueError(f"expected values to try such as {{'knn': {{'k': [1, 10, 50]}}}}, got {grid!r}")
    for label, fields in grid.items():
        if label not in detectors:
            raise unknown("detector of this panel:", label, detectors)
        for name, values in fields.items():
            if name not in detectors[label].params:
                raise unknown(f"parameter of {label}:", name, detectors[label].params)
            if not isinstance(values, Sequence) or isinstance(values, str) or not len(values):
                raise ValueError(f"{label}: expected a list of values to try for {name}, got {values!r}")
        if label != detectors[label].name and label == describe(detectors[label]):
            raise ValueError(f"{label!r} says its parameters: to tune it give it a label of its own, {{'mine': …}}")


def _checked(train: ImageSet | None, val: ImageSet | None, outliers: ImageSet) -> ImageSet:
    """The validation inliers; an error before the long work where there is nothing to judge by."""
    if val is None:
        raise ValueError("candidates are judged on inliers and outliers: pass val= and outliers=")
    for what, images in (("val split", val), ("outliers", outliers)):
        if not len(images):
            raise ValueError(f"the {what} {images.name!r} to judge candidates on are an empty set")
    for what, other in (("train split", train), ("outliers", outliers)):
        if other is not None and other.fingerprint == val.fingerprint:
            raise ValueError(f"the val split and the {what} are the same images ({val.name!r}); give each its own")
    return val


def _attempts(
    panel: Panel, label: str, fields: Mapping[str, Sequence[Any]], train: ImageSet | None, val: ImageSet
) -> list[Attempt]:
    """One for every combination of values, the last field's changing first; an error where none can be fitted."""
    attempts = [Attempt(dict(zip(fields, values, strict=True))) for values in itertools.product(*fields.values())]
    for one in attempts:
        with _recording(one):
            detector = dataclasses.replace(panel.detectors[label], **one.params)
            panel.alone(label, detector).check_splits(train, val)
            one.detector = detector
    _check_any(label, attempts)
    return attempts


def _choose(
    panel: Panel,
    label: str,
    attempts: list[Attempt],
    fitting: dict[Split, Seen],
    outliers: Seen,
    progress: Listener | None,
) -> Tuned:
    """Judge all candidates for one member; the record names the first of the best."""
    val = inliers = fitting["val"]
    if any(one.detector and one.detector.fits_on == "val" for one in attempts):
        to_fit, to_judge = _halves(len(val.images))
        fitting, inliers = {**fitting, "val": val.part(to_fit)}, val.part(to_judge)
    for one in attempts:
        if one.detector is not None:
            with _recording(one):
                one.auroc = _judge(panel.alone(label, one.detector), fitting, inliers, outliers, progress)
            one.detector.state = {}  # the tables are large, and only one candidate is kept
    _check_any(label, attempts)
    best = max(attempts, key=lambda one: -1.0 if one.auroc is None else one.auroc)  # the first of equals
    candidates = tuple(Candidate(one.params, one.auroc, one.failure) for one in attempts)
    return Tuned(best.params, candidates, Images.of(val.images), Images.of(outliers.images), len(inliers.images))


def _judge(
    alone: Panel, fitting: Mapping[Split, Seen], inliers: Seen, outliers: Seen, progress: Listener | None
) -> float:
    """AUROC of the one detector of a panel, fitted from tables."""
    for split, seen in fitting.items():
        alone.check_fit(split, seen.images)
        alone.fit_from(seen.table, seen.images.labels, split)
    x, y = (
        scores
        for seen in (inliers, outliers)
        for scores in alone.score_table(
            seen.table, seen.images.name, alone.score_looking(seen.images, progress)
        ).values()
    )
    return auroc(x, y)


def _halves(total: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of two random halves, each in order."""
    if total < 2:
        raise ValueError(f"candidates that fit on one half of the val split are judged on the other: got {total} image")
    order = numpy_generator(0, "halves", total).permutation(total)
    return np.sort(order[: total // 2]), np.sort(order[total // 2 :])


@contextmanager
def _recording(attempt: Attempt) -> Iterator[None]:
    """What goes wrong is a fact about the candidate, whatever it is."""
    try:
        yield
    except Exception as error:
        attempt.failure = f"{type(error).__name__}: {error}"


def _check_any(label: str, attempts: Sequence[Attempt]) -> None:
    """Not everything failed."""
    if all(one.failure for one in attempts):
        reasons = "; ".join(f"{one.params}: {one.failure}" for one in attempts)
        raise ValueError(f"every candidate for {label} failed: {reasons}")
