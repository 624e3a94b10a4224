"""`farout.check`: checks that any detector must pass before its scores can be trusted."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.adapters.function import FUNCTIONS, Function
from farout.core import Detector, ImageSet, NotFitted, PostHoc
from farout.data import as_image_set, load
from farout.data.matched import match
from farout.detectors.fitted_state import fit, has_fit
from farout.detectors.panel.panel import Member, Panel
from farout.detectors.trained.detector import TrainedDetector
from farout.networks import create
from farout.rng import numpy_generator
from farout.scores import as_scores

IMAGES, NOISE, TRAIN = 24, 4, 200
RTOL, ATOL = 1e-4, 1e-6
"""Relative and absolute tolerance of scores between batches: float32 networks round differently."""


class Finding(NamedTuple):
    """Result of one check; `problem` is empty if it passed."""

    check: str
    problem: str


class Problem(AssertionError):
    """Failure of a check."""


def check(detector: Any, images: Any = None) -> list[Finding]:
    """Run all checks on a detector: an object, a class whose constructor needs no arguments, or a function.

    images: inliers to fit and score, any input of `farout.data.as_image_set`; None for the built-in "toy" set.
    Every check gets a new copy: unfitted, or of one that was fitted once. A trained detector trains for an epoch,
    unless its `training` says otherwise.
    """
    inputs = None if images is None else as_image_set(images)
    train, test = inputs or load("toy", "train"), inputs or load("toy")
    bench = Bench(
        Function(detector) if isinstance(detector, FUNCTIONS) else detector, train.limit(TRAIN), _test_images(test)
    )
    bench.fresh()  # raise now if it is not a detector at all
    return [Finding(name, _run_check(function, bench)) for name, function in CHECKS.items()]


@dataclass(frozen=True)
class Bench:
    """Detector under test, with images to fit and score."""

    subject: Any
    train: ImageSet
    images: Tensor

    def fresh(self) -> Detector:
        """Return a new, unfitted detector."""
        detector = self.subject() if inspect.isclass(self.subject) else copy.deepcopy(self.subject)
        if isinstance(detector, Member):
            detector.panel.detectors[detector.name].state = {}
        if isinstance(detector, TrainedDetector):
            return _briefly_trained(detector)
        if isinstance(detector, PostHoc):
            detector.state = {}
            channels, side, _ = self.train.shape
            network = create("resnet20", max(2, len(self.train.classes)), side, channels)
            return Panel(network, {detector.name: detector})[detector.name]
        if not isinstance(detector, Detector):
            raise TypeError(f"expected a farout.Detector or a farout.PostHoc, got {type(detector).__name__}")
        return detector

    def fitted(self) -> Detector:
        """Return a new, fitted detector: a copy of one, or fitted again if it cannot be copied."""
        fitted = self._fitted
        try:
            return copy.deepcopy(fitted)
        except Exception:  # a user's object may hold anything
            return self.fit(self.fresh())

    @cached_property
    def _fitted(self) -> Detector:
        return self.fit(self.fresh())

    def fit(self, detector: Detector) -> Detector:
        """Fit a detector, with toy outliers if it learns from auxiliary ones, and return it."""
        outliers = match(load("toy", "test/ood_cls", limit=TRAIN), self.train.shape)
        fit(detector, self.train, auxiliary_outliers=outliers)
        return detector

    def score(self, detector: Detector, images: Tensor) -> NDArray[np.float64]:
        """Score a copy of the images, as float64."""
        return self.score_without_copy(detector, images.clone())

    def score_without_copy(self, detector: Detector, images: Tensor) -> NDArray[np.float64]:
        """Score the images themselves, as float64."""
        with torch.no_grad():
            return as_scores(detector.score(images), len(images), detector.name, detector)


def one_score_per_image(bench: Bench) -> None:
    bench.score(bench.fitted(), bench.images)


def finite_scores(bench: Bench) -> None:
    scores = bench.score(bench.fitted(), bench.images)
    if not np.isfinite(scores).all():
        raise Problem(f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite")


def same_images_same_scores(bench: Bench) -> None:
    detector = bench.fitted()
    _check_equal(
        bench.score(detector, bench.images), bench.score(detector, bench.images), "scoring the same images twice"
    )


def same_in_any_batch(bench: Bench) -> None:
    detector = bench.fitted()
    parts = np.concatenate([bench.score(detector, part) for part in bench.images.split(5)])
    _check_equal(bench.score(detector, bench.images), parts, "scoring in batches of 5 and all at once")


def same_in_any_order(bench: Bench) -> None:
    detector = bench.fitted()
    order = numpy_generator(0, "battery").permutation(len(bench.images))
    _check_equal(
        bench.score(detector, bench.images)[order], bench.score(detector, bench.images[order]), "another order"
    )


def a_batch_of_one(bench: Bench) -> None:
    detector = bench.fitted()
    scores = bench.score(detector, bench.images)
    _check_equal(scores, np.append(bench.score(detector, bench.images[:1]), scores[1:]), "a batch of one")


def an_empty_batch(bench: Bench) -> None:
    bench.score(bench.fitted(), bench.images[:0])


def does_not_modify_images(bench: Bench) -> None:
    images = bench.images.clone()
    bench.score_without_copy(bench.fitted(), images)
    if not torch.equal(images, bench.images):
        raise Problem("score() changed its input images; work on a copy")


def same_after_second_fit(bench: Bench) -> None:
    detector = bench.fitted()
    once = bench.score(detector, bench.images)
    bench.fit(detector)
    _check_equal(once, bench.score(detector, bench.images), "fitting a second time on the same images")


def refuses_to_score_unfitted(bench: Bench) -> None:
    """If `fit` does something, scoring without it must raise NotFitted or an error that mentions "fit"."""
    detector = bench.fresh()
    if isinstance(detector, Member):
        fits = detector.panel.detectors[detector.name].fits_on is not None
    else:
        fits = has_fit(detector)
    if not fits:
        return
    try:
        bench.score(detector, bench.images)
    except Exception as error:
        if not isinstance(error, NotFitted) and "fit" not in str(error).lower():
            raise Problem(f"scoring before fit() raised {error!r}; raise farout.NotFitted instead") from error
        return
    raise Problem("scoring before fit() gave scores; raise farout.NotFitted")


CHECKS: dict[str, Callable[[Bench], None]] = {
    "gives one real score per image": one_score_per_image,
    "gives finite scores": finite_scores,
    "gives the same images the same scores": same_images_same_scores,
    "gives an image the same score in any batch": same_in_any_batch,
    "gives an image the same score in any order": same_in_any_order,
    "takes a batch of one": a_batch_of_one,
    "takes an empty batch": an_empty_batch,
    "does not change its input": does_not_modify_images,
    "is the same after a second fit": same_after_second_fit,
    "raises NotFitted before it is fitted": refuses_to_score_unfitted,
}


def _briefly_trained(detector: TrainedDetector) -> TrainedDetector:
    """Return an unfitted copy whose stages train for an epoch unless told otherwise: no check needs a good detector."""
    params = detector.params
    if not params["weights"]:
        params |= {name: brief for name, brief in detector.brief.items() if not params[name]}
    return type(detector)(**params)


def _test_images(images: ImageSet) -> Tensor:
    """Return inliers and a few noise images; without noise, a detector with constant inlier scores has no scale."""
    inliers = images.batch(range(min(IMAGES - NOISE, len(images))))
    noise = numpy_generator(0, "battery", "noise").random((NOISE, *images.shape), np.float32)
    return torch.cat([inliers, torch.from_numpy(noise)])


def _run_check(function: Callable[[Bench], None], bench: Bench) -> str:
    try:
        function(bench)
    except Problem as problem:
        return str(problem)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _check_equal(a: NDArray[np.float64], b: NDArray[np.float64], what: str) -> None:
    """Raise unless the scores agree up to float32 rounding; NaN and infinity, which another check covers, may agree."""
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        raise Problem(
            f"{what} changes the number of finite scores: {int(np.isfinite(a).sum())} and {int(np.isfinite(b).sum())}"
        )
    a, b = a[finite], b[finite]
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    off = np.abs(a - b).max(initial=0)
    if not off <= ATOL + RTOL * scale:
        raise Problem(f"{what} changes scores by up to {off:.3g} (the largest score is {scale:.3g})")
