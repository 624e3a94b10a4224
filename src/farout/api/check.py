"""The battery: what any detector must get right before its scores mean anything."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farout.adapters.function import FUNCTIONS, Function
from farout.core import Detector, ImageSet, NotFitted, PostHoc
from farout.data import as_image_set, load
from farout.detectors.panel.panel import Member, Panel
from farout.networks import create
from farout.rng import numpy_generator
from farout.scores import as_scores

IMAGES, NOISE, TRAIN = 24, 4, 200
RTOL, ATOL = 1e-4, 1e-6
"""How far scores may move with the batch: float32 networks round differently, by this at most (relative to the
largest score)."""


class Finding(NamedTuple):
    """One check and how it went; `problem` is empty where all is well."""

    check: str
    problem: str


class Problem(AssertionError):
    """What a check found."""


def check(detector: Any, images: Any = None) -> list[Finding]:
    """Put a detector (an object, a class that can be made without arguments, or a function) through the battery.

    images: inliers to fit and score, anything that `farout.data.as_image_set` takes; the built-in "toy" set if None.
    Every check gets a fresh, unfitted copy.
    """
    given = None if images is None else as_image_set(images)
    train, test = given or load("toy", "train"), given or load("toy")
    bench = Bench(Function(detector) if isinstance(detector, FUNCTIONS) else detector, train.limit(TRAIN), _tried(test))
    bench.fresh()  # what is no detector at all is an error, not ten findings
    return [Finding(name, _problem(function, bench)) for name, function in CHECKS.items()]


@dataclass(frozen=True)
class Bench:
    """The detector on the bench, with images to try it on."""

    given: Any
    train: ImageSet
    images: Tensor

    def fresh(self) -> Detector:
        """A new, unfitted detector."""
        made = self.given() if inspect.isclass(self.given) else copy.deepcopy(self.given)
        if isinstance(made, Member):
            made.panel.detectors[made.name].state = {}
        if isinstance(made, PostHoc):
            made.state = {}
            channels, side, _ = self.train.shape
            network = create("resnet20", max(2, len(self.train.classes)), side, channels)
            return Panel(network, {made.name: made})[made.name]
        if not isinstance(made, Detector):
            raise TypeError(f"expected a farout.Detector or a farout.PostHoc, got {type(made).__name__}")
        return made

    def fitted(self) -> Detector:
        """A new detector, fitted."""
        detector = self.fresh()
        detector.fit(self.train)
        return detector

    def score(self, detector: Detector, images: Tensor) -> NDArray[np.float64]:
        """Its scores of a copy of the images, as float64."""
        return self.score_these(detector, images.clone())

    def score_these(self, detector: Detector, images: Tensor) -> NDArray[np.float64]:
        """Its scores of the very images given, as float64."""
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
    _equal(bench.score(detector, bench.images), bench.score(detector, bench.images), "scoring the same images twice")


def whatever_the_batch(bench: Bench) -> None:
    detector = bench.fitted()
    parts = np.concatenate([bench.score(detector, part) for part in bench.images.split(5)])
    _equal(bench.score(detector, bench.images), parts, "scoring in batches of 5 and all at once")


def whatever_the_order(bench: Bench) -> None:
    detector = bench.fitted()
    order = numpy_generator(0, "battery").permutation(len(bench.images))
    _equal(bench.score(detector, bench.images)[order], bench.score(detector, bench.images[order]), "another order")


def a_batch_of_one(bench: Bench) -> None:
    detector = bench.fitted()
    scores = bench.score(detector, bench.images)
    _equal(scores, np.append(bench.score(detector, bench.images[:1]), scores[1:]), "a batch of one")


def an_empty_batch(bench: Bench) -> None:
    bench.score(bench.fitted(), bench.images[:0])


def leaves_images_alone(bench: Bench) -> None:
    images = bench.images.clone()
    bench.score_these(bench.fitted(), images)
    if not torch.equal(images, bench.images):
        raise Problem("score() changed the images it was given; work on a copy")


def fitting_again_changes_nothing(bench: Bench) -> None:
    detector = bench.fitted()
    once = bench.score(detector, bench.images)
    detector.fit(bench.train)
    _equal(once, bench.score(detector, bench.images), "fitting a second time on the same images")


def refuses_to_score_unfitted(bench: Bench) -> None:
    """Only where fit does something: then scoring without it must be an error, NotFitted or one that says "fit"."""
    detector = bench.fresh()
    if isinstance(detector, Member):
        fits = detector.panel.detectors[detector.name].fits_on is not None
    else:
        fits = type(detector).fit is not Detector.fit
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
    "scores an image alike in any batch": whatever_the_batch,
    "scores an image alike in any order": whatever_the_order,
    "takes a batch of one": a_batch_of_one,
    "takes an empty batch": an_empty_batch,
    "does not change its input": leaves_images_alone,
    "is the same after a second fit": fitting_again_changes_nothing,
    "says so when it is not fitted": refuses_to_score_unfitted,
}


def _tried(images: ImageSet) -> Tensor:
    """Inliers, and a few images of noise: without, a detector whose inliers all score 0 would have no scale."""
    inliers = images.batch(range(min(IMAGES - NOISE, len(images))))
    noise = numpy_generator(0, "battery", "noise").random((NOISE, *images.shape), np.float32)
    return torch.cat([inliers, torch.from_numpy(noise)])


def _problem(function: Callable[[Bench], None], bench: Bench) -> str:
    try:
        function(bench)
    except Problem as problem:
        return str(problem)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _equal(a: NDArray[np.float64], b: NDArray[np.float64], what: str) -> None:
    """The scores agree up to float32 rounding; NaN and infinity, which another check judges, agree with themselves."""
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        raise Problem(f"{what} turns scores finite or not: {int(np.isfinite(a).sum())} and {int(np.isfinite(b).sum())}")
    a, b = a[finite], b[finite]
    scale = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    off = np.abs(a - b).max(initial=0)
    if not off <= ATOL + RTOL * scale:
        raise Problem(f"{what} moves scores by up to {off:.3g} (scores reach {scale:.3g})")
