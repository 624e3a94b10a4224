"""Hyper-parameter tuning on inliers and outliers that the user names, from activations computed once."""

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
from farout.detectors.panel.labels import label_with_params
from farout.detectors.panel.provenance import Candidate, ImagesRecord, Tuned
from farout.detectors.panel.sweeps import compute_activations, needs_of
from farout.metrics import auroc
from farout.progress import Listener
from farout.registry import unknown
from farout.rng import numpy_generator

if TYPE_CHECKING:
    from farout.detectors.panel.panel import Panel

Grid = Mapping[str, Mapping[str, Sequence[Any]]]
"""Values to try, by the label of a panel's member and the name of the hyper-parameter."""


class SetActivations(NamedTuple):
    """Image set with its activations."""

    images: ImageSet
    table: Activations

    def part(self, indices: NDArray[np.int64]) -> SetActivations:
        """Return a subset."""
        rows: Any = torch.from_numpy(indices)
        return SetActivations(self.images.subset(indices), self.table[rows])


@dataclass
class Attempt:
    """One combination of values, the detector with these values, and its AUROC or failure."""

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
    """Tune and fit the panel; see `Panel.tune`."""
    check_grid(panel.detectors, grid)
    val = _check_splits(train if panel.needs("train") else None, val, outliers)
    rest = {label: detector for label, detector in panel.detectors.items() if label not in grid}
    for label, detector in rest.items():
        panel.alone(label, detector).check_splits(train, val)
    attempts = {label: _build_attempts(panel, label, fields, train, val) for label, fields in grid.items()}
    candidates = [one.detector for several in attempts.values() for one in several if one.detector is not None]
    fitting = _compute_splits(panel, [*candidates, *rest.values()], train, val, progress)
    others = SetActivations(
        outliers, compute_activations(panel.network, outliers, needs_of(candidates, None), progress)
    )
    records = {label: _select(panel, label, one, fitting, others, progress) for label, one in attempts.items()}
    for label, record in records.items():
        panel.detectors[label] = dataclasses.replace(panel.detectors[label], **record.params)
        panel.tuned[label] = record
    panel.validation, panel.learned = {}, {}
    for split, computed in fitting.items():
        panel.fit_from(computed.table, computed.images.labels, split)
    panel.validate(fitting["val"].table, val.name, panel.score_perturbing_set(val, progress))


def _compute_splits(
    panel: Panel, detectors: Sequence[PostHoc], train: ImageSet | None, val: ImageSet, progress: Listener | None
) -> dict[Split, SetActivations]:
    """Return the splits to fit and evaluate on, with their activations from one pass over each."""
    computed: dict[Split, SetActivations] = {}
    if train is not None and needs_of(detectors, "train"):
        computed["train"] = SetActivations(
            train, compute_activations(panel.network, train, needs_of(detectors, "train"), progress)
        )
    needs = needs_of(detectors, "val") | needs_of(detectors, None)
    computed["val"] = SetActivations(val, compute_activations(panel.network, val, needs, progress))
    return computed


def check_grid(detectors: Mapping[str, PostHoc], grid: Grid) -> None:
    """Raise unless the grid lists values for hyper-parameters of these detectors."""
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
        if label != detectors[label].name and label == label_with_params(detectors[label]):
            raise ValueError(
                f"the label {label!r} names its parameters; to tune it, give it another label: {{'mine': …}}"
            )


def _check_splits(train: ImageSet | None, val: ImageSet | None, outliers: ImageSet) -> ImageSet:
    """Return the validation inliers; raise, before any long computation, if candidates cannot be evaluated."""
    if val is None:
        raise ValueError("candidates are evaluated on inliers and outliers: pass val= and outliers=")
    for what, images in (("val split", val), ("outliers", outliers)):
        if not len(images):
            raise ValueError(f"the {what} {images.name!r} to evaluate candidates on are an empty set")
    for what, other in (("train split", train), ("outliers", outliers)):
        if other is not None and other.fingerprint == val.fingerprint:
            raise ValueError(f"the val split and the {what} are the same images ({val.name!r}); give each its own")
    return val


def _build_attempts(
    panel: Panel, label: str, fields: Mapping[str, Sequence[Any]], train: ImageSet | None, val: ImageSet
) -> list[Attempt]:
    """Build an attempt for every combination of values, the last field varying fastest; raise if none can be fitted."""
    attempts = [Attempt(dict(zip(fields, values, strict=True))) for values in itertools.product(*fields.values())]
    for one in attempts:
        with _record_failure(one):
            detector = dataclasses.replace(panel.detectors[label], **one.params)
            panel.alone(label, detector).check_splits(train, val)
            one.detector = detector
    _check_any(label, attempts)
    return attempts


def _select(
    panel: Panel,
    label: str,
    attempts: list[Attempt],
    fitting: dict[Split, SetActivations],
    outliers: SetActivations,
    progress: Listener | None,
) -> Tuned:
    """Evaluate all candidates of one member; return the record with the first of the best."""
    val = inliers = fitting["val"]
    if any(one.detector and one.detector.fits_on == "val" for one in attempts):
        to_fit, to_judge = _split_halves(len(val.images))
        fitting, inliers = {**fitting, "val": val.part(to_fit)}, val.part(to_judge)
    for one in attempts:
        if one.detector is not None:
            with _record_failure(one):
                one.auroc = _judge(panel.alone(label, one.detector), fitting, inliers, outliers, progress)
            one.detector.state = {}  # free the large tables
    _check_any(label, attempts)
    best = max(attempts, key=lambda one: -1.0 if one.auroc is None else one.auroc)  # the first of equals
    candidates = tuple(Candidate(one.params, one.auroc, one.failure) for one in attempts)
    return Tuned(
        best.params, candidates, ImagesRecord.of(val.images), ImagesRecord.of(outliers.images), len(inliers.images)
    )


def _judge(
    alone: Panel,
    fitting: Mapping[Split, SetActivations],
    inliers: SetActivations,
    outliers: SetActivations,
    progress: Listener | None,
) -> float:
    """Return the AUROC of the only detector of a panel, fitted from tables."""
    for split, computed in fitting.items():
        alone.check_fit(split, computed.images)
        alone.fit_from(computed.table, computed.images.labels, split)
    x, y = (
        scores
        for computed in (inliers, outliers)
        for scores in alone.score_table(
            computed.table, computed.images.name, alone.score_perturbing_set(computed.images, progress)
        ).values()
    )
    return auroc(x, y)


def _split_halves(total: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of two random halves, each in order."""
    if total < 2:
        raise ValueError(
            f"candidates that fit on one half of the val split are evaluated on the other: got {total} image"
        )
    order = numpy_generator(0, "halves", total).permutation(total)
    return np.sort(order[: total // 2]), np.sort(order[total // 2 :])


@contextmanager
def _record_failure(attempt: Attempt) -> Iterator[None]:
    """Record any exception as the failure of the attempt."""
    try:
        yield
    except Exception as error:
        attempt.failure = f"{type(error).__name__}: {error}"


def _check_any(label: str, attempts: Sequence[Attempt]) -> None:
    """Raise if every attempt failed."""
    if all(one.failure for one in attempts):
        reasons = "; ".join(f"{one.params}: {one.failure}" for one in attempts)
        raise ValueError(f"every candidate for {label} failed: {reasons}")
