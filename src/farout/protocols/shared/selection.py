"""Detectors of a study that a protocol is asked to test."""

from __future__ import annotations

from collections.abc import Sequence

from farout.registry import unknown
from farout.study.study import Study, Trial
from farout.study.subjects.subject import Subject


def check_labels(what: str, labels: Sequence[str] | None) -> None:
    """Raise if these are not a list of labels."""
    if labels is None:
        return
    proper = isinstance(labels, Sequence) and not isinstance(labels, str)
    if not proper or not labels or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{what} must list the labels of one or more detectors, got {labels!r}")
    if repeated := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise ValueError(f"{what}: {repeated[0]!r} is listed more than once; list each label only once")


def check_selected(labels: Sequence[str] | None, study: Study) -> None:
    """Raise if the study has no detector of one of these labels."""
    known = {subject.label for trial in study.trials for subject in trial.subjects}
    for label in labels or ():
        if label not in known:
            raise unknown("detector of the study:", label, known)


def select(trial: Trial, labels: Sequence[str] | None) -> list[Subject]:
    """Return the trial's detectors of these labels; all of them for None."""
    return [subject for subject in trial.subjects if labels is None or subject.label in labels]
