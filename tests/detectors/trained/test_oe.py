"""OE: what it learns, and its score."""

from __future__ import annotations

import copy
import functools

import torch

from farout.detectors.trained.oe import OE
from helpers.easy_sets import bright, halves


@functools.cache
def fitted(weight: float) -> OE:
    training = {"epochs": 12, "batch": 16, "augment": "none"}
    return OE(width=4, weight=weight, training=training).fit(halves(64), val=halves(16), auxiliary_outliers=bright(64))


def test_an_exposed_classifier_is_undecided_on_other_outliers_of_the_kind() -> None:
    images = bright(32, seed=3).batch(range(32))
    plain, exposed = fitted(0.0), fitted(2.0)
    torch.testing.assert_close(exposed.score(images), 1 - exposed.network(images).logits.double().softmax(1).amax(1))
    assert exposed.history[0].figures[-1] == 1
    assert exposed.score(images).mean() > 0.3
    assert max(plain.score(images).mean(), exposed.score(halves(32, seed=3).batch(range(32))).mean()) < 0.1


def test_very_confident_images_do_not_tie() -> None:
    detector = copy.deepcopy(fitted(0.0))
    with torch.no_grad():
        detector.network.module.linear.weight.mul_(100)
    scores = detector.score(halves(32, seed=3).batch(range(32)))
    assert scores.lt(2**-24).float().mean() > 0.5  # max p is 1 in float32
    assert len(scores.unique()) == 32
