"""Outlier exposure (the paper's Table 2): networks trained with outliers, tested on sets that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from farout.detectors.panel.provenance import count_shared
from farout.protocols.raised_bar.settings import ExposureSpec
from farout.registry import unknown
from farout.study.cells.cell import Cell
from farout.study.cells.exposed import ExposedCell
from farout.study.cells.fit_perturbed import build_posthoc_fit_cell
from farout.study.cells.predict import PredictCell
from farout.study.cells.score import ScoreCell
from farout.study.cells.train import TrainCell, TrainedNetwork
from farout.study.sources.images import ImageSource, MatchedImages, NamedImages
from farout.study.study import Trial
from farout.study.subjects.posthoc import PostHocSubject
from farout.study.subjects.subject import Subject

if TYPE_CHECKING:
    from farout.protocols.raised_bar.entries import TrialPlan

NONE = "none"
"""Name of the exposure without outliers."""


def exposed_networks(spec: ExposureSpec, trial: Trial) -> dict[str, TrainedNetwork]:
    """Return the networks to train with outliers, by label. Raise if the study does not train them."""
    trained = {
        subject.network: subject.classifier
        for subject in trial.subjects
        if isinstance(subject, PostHocSubject) and isinstance(subject.classifier, TrainedNetwork)
    }
    for label in spec.networks or ():
        if label not in trained:
            raise unknown("exposure: network that the study trains:", label, trained)
    if not trained:
        raise ValueError("exposure: it trains a network of the study anew, and the study trains none (train: {…})")
    return {label: trained[label] for label in spec.networks or list(trained)[:1]}


def check_unseen(spec: ExposureSpec, tested: Mapping[str, ImageSource]) -> None:
    """Raise if a network would be tested on outliers that it has been trained on."""
    for label, data in spec.outliers.items():
        learned = NamedImages(data).preview()
        for name, images in tested.items():
            if name != label and (count := count_shared(learned, images.preview())):
                raise ValueError(
                    f"exposure: {count:,} of the outliers {label} are in the outlier set {name!r}, on which the "
                    f"network would be tested; give other images, or the same label: outliers: {{{name}: …}}"
                )


def exposure_entries(
    spec: ExposureSpec,
    trial: Trial,
    subjects: Sequence[Subject],
    outliers: Mapping[str, ImageSource],
    plan: TrialPlan,
) -> Iterator[tuple[dict[str, str], Cell]]:
    """Yield the tags and cells of every exposed network: predictions of test images, scores of inliers and outliers.

    outliers: the tested sets; a set that a network has been trained on is not tested.
    """
    test = trial.stressed(trial.inliers.test, plan.images)
    tested = {name: trial.stressed(source, plan.images) for name, source in outliers.items()}
    for label, network in exposed_networks(spec, trial).items():
        for exposure, learned in _learned(spec, trial, plan.sets.near).items():
            exposed = (
                network if learned is None else replace(network, cell=_exposed(network.cell, exposure, learned, spec))
            )
            tags = {"network": label, "exposure": exposure}
            yield {**tags, "role": "exposed_prediction"}, PredictCell(exposed, test)
            for subject in (one for one in subjects if one.network == label and isinstance(one, PostHocSubject)):
                assert isinstance(subject, PostHocSubject)
                own = _on(subject, exposed, trial)
                named = {**tags, "detector": subject.label, "role": "exposed"}
                yield named, ScoreCell(own, test)
                for name, images in tested.items():
                    if name != exposure:
                        yield {**named, "outliers": name}, ScoreCell(own, images)


def _learned(spec: ExposureSpec, trial: Trial, near: Mapping[str, ImageSource]) -> dict[str, ImageSource | None]:
    """Return the outliers that networks are trained on, by the label of the set that is then not tested."""
    named: dict[str, ImageSource | None] = {name: NamedImages(data) for name, data in spec.outliers.items()}
    shape = trial.inliers.test.about.shape
    sources = {**named, **near}
    return {NONE: None} | {name: source and MatchedImages(source, shape) for name, source in sources.items()}


def _exposed(cell: TrainCell, exposure: str, outliers: ImageSource, spec: ExposureSpec) -> ExposedCell:
    own = {field.name: getattr(cell, field.name) for field in fields(TrainCell)}
    return ExposedCell(**{**own, "label": f"{cell.label} exposed to {exposure}"}, outliers=outliers, weight=spec.weight)


def _on(subject: PostHocSubject, network: TrainedNetwork, trial: Trial) -> PostHocSubject:
    """Return the detector on another network."""
    splits = trial.inliers
    fit = build_posthoc_fit_cell(network, subject.fit.detector, splits.train, splits.val, splits.outliers)
    return replace(subject, fit=fit)
