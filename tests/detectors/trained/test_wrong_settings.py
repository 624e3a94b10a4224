"""Settings of trained detectors that would be ignored, or fail only after the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import farout
from farout.detectors import import_weights
from farout.detectors.trained import oe
from farout.detectors.trained.detector import Inputs, TrainedDetector
from farout.networks.base import seeded


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("sngp", {"depth": 20}, r"sngp: depth must be 6n \+ 4 .*, got 20"),
        ("sngp", {"depth": 4}, r"sngp: depth must be 6n \+ 4 .*, got 4"),
        ("ssd", {"supervised": "maybe"}, "ssd: supervised must be true or false, got 'maybe'"),
        ("ssd", {"mean_twice": 1}, "ssd: mean_twice must be true or false, got 1"),
        ("rowl", {"fixed": "never"}, "rowl: fixed must be true or false, got 'never'"),
        ("pixelcnn", {"published_range": 7}, "pixelcnn: published_range must be true or false, got 7"),
        ("nae", {"energy": 3}, "energy must map settings to values, .* got 3"),
        ("likelihood_ratio", {"density_params": 3}, "density_params must map parameters to values, .* got 3"),
        ("input_complexity", {"density_params": {"widht": 3}},
         "unknown parameter of pixelcnn: 'widht'. Did you mean 'width'?"),
    ],
)  # fmt: skip
def test_a_setting_that_means_nothing_is_refused(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        farout.detectors.create(name, **params)


def fits(name: str, train: farout.ImageSet, **params: Any) -> None:
    detector = farout.detectors.create(name, **params)
    assert isinstance(detector, TrainedDetector)
    detector.check_fit(train)


def test_ssd_tells_before_the_training_what_it_cannot_fit() -> None:
    toy, unlabeled = farout.load("toy", "train", limit=9), farout.load("noise", limit=9)
    with pytest.raises(ValueError, match="ssd: 5 clusters need two training images each, and there are 9"):
        fits("ssd", toy, clusters=5)
    fits("ssd", toy, clusters=4)
    with pytest.raises(ValueError, match="ssd with supervised=True learns from labels"):
        fits("ssd", unlabeled, supervised=True)


def test_a_tenth_that_is_held_out_leaves_too_few_images_for_the_clusters() -> None:
    detector = farout.detectors.create("ssd", clusters=5, width=4, training={"steps": 1})
    assert isinstance(detector, TrainedDetector)
    with pytest.raises(ValueError, match="ssd: 5 clusters need two training images each, and there are 6"):
        detector.fit(farout.load("toy", "train", limit=10))
    assert not detector.history


def test_a_published_classifier_of_other_classes_is_imported_with_their_number(tmp_path: Path) -> None:
    detector = farout.detectors.OE(preset="full", width=4)
    with seeded(0):
        detector.modules = detector.build(Inputs(3, 32, 7))
    module = detector.network.module
    state = module.state_dict()
    theirs = {
        f"{their}.{key.rpartition('.')[2]}": state[key]
        for their, layer in oe._authors_layers().items()
        for key in state
        if key.rpartition(".")[0] == layer
    }
    torch.save(theirs, tmp_path / "oe.pt")
    with pytest.raises(
        ValueError, match=r"linear.bias \[7\] \(expected \[10\]\).*and 10 classes: change them by --set"
    ):
        import_weights("oe", tmp_path / "oe.pt", width=4)
    imported = import_weights("oe", tmp_path / "oe.pt", width=4, classes=7)
    assert imported.detector.inputs == Inputs(3, 32, 7)
    images = farout.load("toy", limit=3).batch(range(3))
    expected = 1 - detector.network.eval()(images).logits.double().softmax(1).amax(1)
    torch.testing.assert_close(imported.detector.score(images), expected)
    with pytest.raises(ValueError, match="classes must be a whole number of at least 1, got 'x'"):
        import_weights("oe", tmp_path / "oe.pt", width=4, classes="x")
