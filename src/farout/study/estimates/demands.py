"""Demands: how much of each part a piece of work needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from farout.core import PostHoc, Shift
from farout.detectors.trained.detector import TrainedDetector
from farout.study.cells.attack import AttackWork
from farout.study.cells.cell import Cell, Work
from farout.study.cells.cost import CostWork
from farout.study.cells.fit import FitWork
from farout.study.cells.fit_detector import DetectorFitWork
from farout.study.cells.score import ScoreWork
from farout.study.cells.search import SearchWork
from farout.study.cells.train import TrainCell, TrainedNetwork, TrainWork
from farout.study.estimates.parts import (
    Architecture,
    Part,
    architecture,
    decode_part,
    fit_part,
    gradient_part,
    other_part,
    pass_part,
    score_part,
    shift_part,
)
from farout.study.estimates.trainings import detector_part, training_part
from farout.study.sources.images import DerivedImages, ImageSource, ShiftedImages
from farout.study.sources.networks import JoinedNetworks, NetworkSource, RestrictedNetwork
from farout.study.subjects.posthoc import PostHocSubject
from farout.study.subjects.subject import Subject

RESULT = Part("result", "writing a result", 0.02)


class Demand(NamedTuple):
    """Units of a part, of a detector that is fitted on `fitted` images."""

    part: Part
    units: float
    fitted: int = 0


def demands(work: Work) -> Iterator[Demand]:
    """Yield what a piece of work needs."""
    of = next((of for kind, of in _BY_WORK.items() if isinstance(work, kind)), _other)
    yield from of(work)
    yield Demand(RESULT, len(work.cells))


def architectures(network: NetworkSource | None, images: ImageSource) -> list[Architecture]:
    """Return the architecture of a network, or those of an ensemble's members."""
    if network is None:
        return []
    if isinstance(network, JoinedNetworks):
        return [one for member in network.members for one in architectures(member, images)]
    inner = network.source if isinstance(network, RestrictedNetwork) else network
    return [architecture(inner, images.about.shape)]


def _passes(
    network: NetworkSource | None, images: ImageSource, units: float, needs: frozenset[str]
) -> Iterator[Demand]:
    """Yield the passes of the images through a network, and the shift that makes the images."""
    if units and (shift := _shift(images)) is not None:
        yield Demand(shift_part(shift, images.about.shape), units)
    for one in architectures(network, images):
        yield Demand(pass_part(one, needs), units)


def _shift(images: ImageSource) -> Shift | None:
    """Return the shift under which images are read; None if there is none."""
    while isinstance(images, DerivedImages):
        if isinstance(images, ShiftedImages):
            return images.shift
        images = images.source
    return None


def _train(work: TrainWork) -> Iterator[Demand]:
    cell, images = work.cells[0], work.total_cost
    yield Demand(training_part(cell), images)
    if type(cell) is TrainCell:  # validated after every epoch
        epochs = math.ceil(images / max(1, cell.train.about.total))
        yield from _passes(TrainedNetwork(cell), cell.val, epochs * cell.val.about.total, frozenset())


def _fit(work: FitWork) -> Iterator[Demand]:
    cell = work.cells[0]
    needs = frozenset().union(*(one.detector.needs for one in work.cells))
    for source in (cell.train, cell.val):
        if source is not None and (source is cell.val or "train" in work.roles):
            yield from _passes(cell.network, source, source.about.total, needs)
    for one in work.cells:
        for source in one.learns.values():
            yield from (Demand(part, 1, source.about.total) for part in _of_detector(one, one.detector, fit_part))
        if one.detector.perturbs and one.detector.fits_on is None and one.val:
            yield from (Demand(part, one.val.about.total) for part in _of_detector(one, one.detector, score_part))


def _of_detector(fit: Any, detector: PostHoc, part: Callable[[Architecture, PostHoc], Part]) -> Iterator[Part]:
    images = fit.train or fit.val
    if images is not None:
        found = architectures(fit.network, images)
        yield part(found[0], detector) if len(found) == 1 else other_part("detectors on ensembles", 0.2, images)


def _judged(subject: Subject, images: ImageSource, units: float) -> Iterator[Demand]:
    """Yield one detector's own share of scoring images."""
    if isinstance(subject, PostHocSubject):
        fitted = sum(source.about.total for source in subject.fit.learns.values())
        for part in _of_detector(subject.fit, subject.fit.detector, score_part):
            yield Demand(part, units, fitted)
    elif not subject.network:
        yield Demand(other_part(f"scores of {subject.label}", 2, images), units)


def _score(work: ScoreWork) -> Iterator[Demand]:
    images, subjects = work.cells[0].images, [cell.subject for cell in work.cells]
    units = images.about.total
    shared = [one for one in subjects if one.shares or not isinstance(one, PostHocSubject)]
    if shared:
        read = (one.fit.detector.needs for one in shared if isinstance(one, PostHocSubject))
        yield from _passes(shared[0].classifier or _source(shared[0]), images, units, frozenset().union(*read))
    for subject in subjects:
        yield from _judged(subject, images, units)


def _source(subject: Subject) -> NetworkSource | None:
    """Return the network of a classifier that is asked for its classes."""
    found: NetworkSource | None = getattr(subject, "source", None) if subject.network else None
    return found


def _search(work: SearchWork) -> Iterator[Demand]:
    cell = work.cell
    images = cell.images or cell.reference.images
    if isinstance(cell.subject, PostHocSubject) and cell.subject.shares:
        yield from _passes(cell.subject.classifier, images, work.total_cost, cell.subject.fit.detector.needs)
    yield from _judged(cell.subject, images, work.total_cost)
    yield Demand(decode_part(cell.variation, images.about.shape), work.total_cost)


def _attack(work: AttackWork) -> Iterator[Demand]:
    cell = work.cell
    network = cell.network or (cell.subject.classifier if cell.subject else None)
    found = architectures(network, cell.images)
    for one in found:
        yield Demand(gradient_part(one), work.total_cost)
    if not found:
        yield Demand(other_part("attacks on detectors without a known network", 3, cell.images), work.total_cost)


def _fit_detector(work: DetectorFitWork) -> Iterator[Demand]:
    cell = work.cells[0]
    images = dict(cell.splits).get("train")
    detector = cell.make()
    if isinstance(detector, TrainedDetector) and images is not None:
        recipe, about = detector.changed_recipe(cell.seed or 0), images.about
        units = recipe.total_steps(about.total) if recipe.steps is None else recipe.steps * recipe.batch
        classes = len(about.classes) if about.labeled else 0
        yield Demand(detector_part(cell, detector, about.shape, classes), units)
    else:
        yield Demand(other_part("fits of detectors that read images", 6, images), work.total_cost)


def _cost(work: CostWork) -> Iterator[Demand]:
    cell = work.cells[0]
    if isinstance(cell.subject, PostHocSubject) and cell.subject.shares:
        yield from _passes(cell.subject.classifier, cell.images, work.total_cost, cell.subject.fit.detector.needs)
    yield from _judged(cell.subject, cell.images, work.total_cost)


def _other(work: Work) -> Iterator[Demand]:
    """Yield the passes through the network of a cell, if it has one."""
    cell: Cell = work.cells[0]
    network, images = getattr(cell, "network", None), getattr(cell, "images", None)
    if isinstance(network, NetworkSource) and isinstance(images, ImageSource):
        yield from _passes(network, images, work.total_cost, frozenset())
    else:
        found = next((value for value in vars(cell).values() if isinstance(value, ImageSource)), None)
        yield Demand(other_part(f"{type(cell).__name__.removesuffix('Cell')} and the like", 1, found), work.total_cost)


_BY_WORK: dict[type[Work], Callable[[Any], Iterator[Demand]]] = {
    TrainWork: _train, FitWork: _fit, ScoreWork: _score, SearchWork: _search, AttackWork: _attack,
    DetectorFitWork: _fit_detector, CostWork: _cost,
}  # fmt: skip
"""Function of each kind of work; of a kind that is not among them, `_other`."""
