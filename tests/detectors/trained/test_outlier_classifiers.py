"""All classifiers that learn from outliers: the papers' sizes, seeds, gradients, and missing outliers."""

from __future__ import annotations

import pytest
import torch

import farout
from farout.core import NotFitted
from farout.detectors.trained.acet import ACET
from farout.detectors.trained.atom import ATOM
from farout.detectors.trained.ceda import CEDA
from farout.detectors.trained.classifier import ClassifierDetector
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.good import GOOD
from farout.detectors.trained.oe import OE
from farout.detectors.trained.rowl import ROWL

TRAIN, OTHERS = farout.load("toy", "train").limit(24), farout.load("toy", "test/ood_pair").limit(16)
XL, DENSE = 35_449_226 - 6 * 513, 769_505 - 6 * 343
SIZES = {OE: 1_409_674 - 6 * 193, CEDA: XL, ACET: XL, GOOD: XL, ATOM: DENSE, ROWL: DENSE}
"""Parameters of the papers' networks, with the four classes of these images for ten."""
SMALL = [OE(width=4), CEDA(), ACET(steps=1), GOOD(), ATOM(layers=1, steps=1), ROWL(layers=1, steps=1)]
BACKGROUND = {"steps": 1, "scoring": "logit"}  # after one step the probabilities are 1
NAMES = [one.name for one in SMALL]


@pytest.mark.parametrize("kind", SIZES, ids=lambda kind: kind.name)
def test_full_presets_have_the_papers_size_train_and_score(kind: type[ClassifierDetector]) -> None:
    """One step of training and one score; one step of the attack."""
    params = {ACET: {"steps": 1}, ATOM: BACKGROUND, ROWL: BACKGROUND}.get(kind, {})
    detector = kind(preset="full", training={"steps": 1, "batch": 2}, **params)
    detector.fit(TRAIN.limit(2), val=TRAIN.limit(2), auxiliary_outliers=OTHERS.limit(2))
    assert sum(one.numel() for one in detector.network.parameters()) == SIZES[kind]
    scores = detector.score(OTHERS.batch(range(2)))
    assert scores.isfinite().all()
    assert scores[0] != scores[1]


@pytest.mark.parametrize("detector", SMALL, ids=NAMES)
def test_the_seed_determines_the_weights(detector: ClassifierDetector) -> None:
    detector.training = {"epochs": 1, "batch": 8}
    digests = [detector.fit(TRAIN, auxiliary_outliers=OTHERS, seed=3).digest for _ in range(2)]
    assert digests[0] == digests[1]
    images = OTHERS.batch(range(4)).requires_grad_()
    scores = detector.score(images)
    torch.testing.assert_close(scores[1:2], detector.score(images[1:2]), rtol=1e-4, atol=1e-7)
    (slope,) = torch.autograd.grad(scores.sum(), images)
    assert (slope.flatten(1).abs().amax(1) > 0).all()


@pytest.mark.parametrize("detector", SMALL, ids=NAMES)
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 64)])
def test_gray_and_large_images_are_taken(detector: ClassifierDetector, channels: int, side: int) -> None:
    images = torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(0))
    modules = detector.build(Inputs(channels, side, 5))
    assert modules["network"](images).logits.isfinite().all()


@pytest.mark.parametrize("kind", [OE, GOOD, ATOM, ROWL], ids=lambda kind: kind.name)
def test_outliers_are_required(kind: type[ClassifierDetector]) -> None:
    with pytest.raises(ValueError, match="learns from outliers and got none"):
        kind().fit(TRAIN)


def test_a_guarantee_needs_a_fitted_detector() -> None:
    with pytest.raises(NotFitted):
        GOOD().certified_confidence(OTHERS.batch(range(2)))
