"""Classes of `rood` that are the inliers in turn (one_class)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from farout.core import ImageSet, PostHoc
from farout.data.arrays import OUTLIER
from farout.detectors.catalog import catalog, names_of
from farout.detectors.fitted_state import has_fit
from farout.detectors.trained.detector import TrainedDetector
from farout.study.subjects.images import ImageSubject
from farout.study.subjects.posthoc import PostHocSubject
from farout.study.subjects.subject import Subject


def no_one_class(alone: Sequence[Subject], others: Sequence[Subject]) -> str | None:
    """Return the reason why a detector of `alone` cannot be fitted on one class; None if all can."""
    unable = list(dict.fromkeys(subject.label for subject in alone if not _learns(subject)))
    if not unable:
        return None
    able = dict.fromkeys(subject.label for subject in (*alone, *others) if _learns(subject))
    advice = f"list those that can, one_class: [{', '.join(able)}]" if able else f"take others: {', '.join(_able())}"
    return (
        f"one_class fits detectors on the training images of one class, and {', '.join(unable)} cannot learn from them "
        f"(fitted on nothing, on the val split, or on several classes): {advice}"
    )


def _learns(subject: Subject) -> bool:
    """Return True if it can be fitted on one class; for one that comes fitted, `fitted_on` raises later."""
    if isinstance(subject, PostHocSubject):
        return _fits_on_one(subject.fit.detector)
    if not isinstance(subject, ImageSubject):
        return True
    detector = subject.make()
    return has_fit(detector) and not (isinstance(detector, TrainedDetector) and detector.labeled)


def _fits_on_one(detector: PostHoc | type[PostHoc]) -> bool:
    return detector.fits_on == "train" and not detector.compares_classes


def _able() -> list[str]:
    """Return the names of the detectors that can be fitted on one class."""
    makers: Iterable[Any] = map(catalog.__getitem__, names_of(PostHoc))
    trained: Iterable[Any] = map(catalog.__getitem__, names_of(TrainedDetector))
    able = [*filter(_fits_on_one, makers), *(maker for maker in trained if not maker.labeled)]
    return [maker.name for maker in able]


def one_class_names(whole: ImageSet, test: ImageSet, train: ImageSet) -> dict[int, str]:
    """Return the names of the classes by label; raise if a class has no images to test or to fit on."""
    names = class_names(np.unique(_labels(whole)).tolist(), whole.classes)
    for label, name in names.items():
        if lack := _lacking(test, label):
            raise ValueError(
                f"protocol rood: {lack} of the class {name} among the {len(test):,} test images, and one_class makes "
                "every class the inlier: take more images (images:, limit:, budget:), or leave out one_class"
            )
        if label not in _labels(train):
            raise ValueError(
                f"protocol rood: none of the {len(train):,} training images is of the class {name}, and one_class fits "
                "detectors on every class: take more training images, or leave that class out of the test images"
            )
    return names


def class_names(labels: Sequence[int], classes: Sequence[str]) -> dict[int, str]:
    """Return the classes' names in tables, with the label if two classes have the same name."""
    known = [classes[label] if 0 <= label < len(classes) else "" for label in labels]
    return {
        label: (name if known.count(name) == 1 else f"{name} ({label})") if name else str(label)
        for label, name in zip(labels, known, strict=True)
    }


def _lacking(test: ImageSet, label: int) -> str:
    """Return what the class lacks, as text; empty if it lacks nothing."""
    mine = _labels(test) == label
    defective = test.attributes.get(OUTLIER)
    if defective is None:
        return "" if mine.any() else "no image"
    return "" if set(defective[mine]) == {0, 1} else "no inlier or no outlier"


def _labels(images: ImageSet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.empty(0, np.int64) if images.labels is None else images.labels
