"""Fit of trained detectors: images that do not fit, and trainings that end early."""

from __future__ import annotations

import numpy as np
import pytest

import farout
from farout.core import NotFitted
from helpers.tiny_detectors import Tiny

TRAIN, OUTLIERS = farout.load("toy", "train", limit=48), farout.load("noise", limit=32)
IMAGES = TRAIN.batch(range(6))


def gray() -> farout.ImageSet:
    return farout.ImageSet.from_arrays(np.zeros((8, 28, 28, 1), np.uint8))


class Stopped(Exception):
    pass


def stop(done: int, total: int, message: str) -> None:
    raise Stopped


def test_validation_images_of_another_shape_are_refused_before_training() -> None:
    calls: list[int] = []
    with pytest.raises(ValueError, match=r"tiny: validation images have shape .*32.*, the training images .*28.*"):
        Tiny().fit(
            gray(),
            val=TRAIN,
            auxiliary_outliers=gray(),
            progress=lambda done, total, message: calls.append(done),
        )
    assert not calls


def test_no_outliers_are_none() -> None:
    with pytest.raises(ValueError, match="tiny learns from outliers and got none"):
        Tiny().fit(TRAIN, auxiliary_outliers=OUTLIERS.subset([]))


def test_after_a_training_that_did_not_end_the_detector_is_not_fitted() -> None:
    for detector in (Tiny(), Tiny().fit(TRAIN, auxiliary_outliers=OUTLIERS)):
        with pytest.raises(Stopped):
            detector.fit(TRAIN, auxiliary_outliers=OUTLIERS, progress=stop)
        with pytest.raises(NotFitted, match="tiny is not fitted: call fit"):
            detector.score(IMAGES)
        assert "recipe" in detector.identity()
        assert detector.state_dict() == {}
