"""The battery: every check finds the one fault it is there for, and sound detectors pass them all."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from farout import Detector, ImageSet, NotFitted, Panel, PostHoc, check, detectors, load, networks
from farout.api.check import CHECKS, IMAGES, Bench
from farout.detectors import TrainedDetector
from helpers.tiny_sizes import SIZES


@cache
def inliers() -> ImageSet:
    return load("toy", "val", limit=120, side=16)


def problems(detector: Any) -> dict[str, str]:
    """What went wrong, by check."""
    findings = check(detector, inliers())
    assert [finding.check for finding in findings] == list(CHECKS)
    return {finding.check: finding.problem for finding in findings if finding.problem}


class Brightness(Detector):
    """Distance from the mean brightness of the inliers: sound."""

    mean: Tensor | None = None

    def fit(self, images: ImageSet) -> None:
        self.mean = torch.cat([batch.double().mean((1, 2, 3)) for batch in images]).mean()

    def score(self, images: Tensor) -> Tensor:
        if self.mean is None:
            raise NotFitted("Brightness is not fitted")
        return (images.double().mean((1, 2, 3)) - self.mean).abs()


class WrongShapeOnce(Brightness):
    calls: list[int] = []  # noqa: RUF012

    def score(self, images: Tensor) -> Tensor:
        self.calls.append(1)
        return super().score(images)[:, None] if len(self.calls) == 1 else super().score(images)


class NotFinite(Brightness):
    def score(self, images: Tensor) -> Tensor:
        scores = super().score(images)
        return torch.where(scores > 0.05, scores.log(), torch.nan)


class Infinite(Brightness):
    def score(self, images: Tensor) -> Tensor:
        scores = super().score(images)
        return torch.where(scores > 0.05, scores, torch.inf)


class Forgetful(Brightness):
    last: Tensor | None = None

    def fit(self, images: ImageSet) -> None:
        super().fit(images)
        self.last = None

    def score(self, images: Tensor) -> Tensor:
        again = self.last is not None and torch.equal(self.last, images)
        self.last = images.clone()
        return super().score(images) + again


class BatchOfFive(Brightness):
    def score(self, images: Tensor) -> Tensor:
        return super().score(images) + (len(images) == 5)


class FirstImage(Brightness):
    first: Tensor | None = None

    def score(self, images: Tensor) -> Tensor:
        if self.first is None and len(images):
            self.first = images[0].clone()
        other = len(images) == IMAGES and not torch.equal(images[0], self.first)  # type: ignore[arg-type]
        return super().score(images) + other


class Lonely(Brightness):
    def score(self, images: Tensor) -> Tensor:
        return super().score(images) + (len(images) == 1)


class Peeking(Brightness):
    def score(self, images: Tensor) -> Tensor:
        return super().score(images) + 0 * images[0].mean()


class InPlace(Brightness):
    def score(self, images: Tensor) -> Tensor:
        return super().score(images.clamp_(max=0.5))


class WarmStart(Brightness):
    def fit(self, images: ImageSet) -> None:
        before = self.mean
        super().fit(images)
        if before is not None and self.mean is not None:
            self.mean = self.mean + before


class Unfitted(Brightness):
    mean = torch.zeros(())


class UnclearUnfitted(Brightness):
    def score(self, images: Tensor) -> Tensor:
        return images.double().mean((1, 2, 3)) - self.mean * 1  # type: ignore[operator]


FAULTS = [
    (WrongShapeOnce, "gives one real score per image", r"shape \(24, 1\) for 24 images, expected \(24,\)"),
    (NotFinite, "gives finite scores", r"\d+ of 24 scores are NaN or infinite"),
    (Infinite, "gives finite scores", r"\d+ of 24 scores are NaN or infinite"),
    (Forgetful, "gives the same images the same scores", "scoring the same images twice changes scores by up to 1 "),
    (
        BatchOfFive,
        "gives an image the same score in any batch",
        "in batches of 5 and all at once changes scores by up to 1 ",
    ),
    (FirstImage, "gives an image the same score in any order", "another order changes scores by up to 1 "),
    (Lonely, "takes a batch of one", "a batch of one changes scores by up to 1 "),
    (Peeking, "takes an empty batch", "IndexError"),
    (InPlace, "does not change its input", r"score\(\) changed its input images; work on a copy"),
    (WarmStart, "is the same after a second fit", "fitting a second time on the same images changes scores by up to 0"),
    (Unfitted, "raises NotFitted before it is fitted", r"scoring before fit\(\) gave scores; raise farout.NotFitted"),
    (UnclearUnfitted, "raises NotFitted before it is fitted", r"raised TypeError.*raise farout.NotFitted instead"),
]


def test_every_check_has_a_detector_that_fails_it() -> None:
    assert {name for _, name, _ in FAULTS} == set(CHECKS)
    assert len(CHECKS) == 10


@pytest.mark.parametrize(("detector", "name", "message"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_one_fault_fails_one_check_which_says_why(
    detector: type[Detector], name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WrongShapeOnce, "calls", [])
    found = problems(detector)
    assert list(found) == [name]
    assert re.search(message, found[name])


def test_scores_of_the_wrong_shape_fail_all_that_need_scores_and_say_so() -> None:
    class WrongShape(Brightness):
        def score(self, images: Tensor) -> Tensor:
            return super().score(images)[:, None]

    found = problems(WrongShape)
    assert set(found) == set(CHECKS) - {"raises NotFitted before it is fitted"}
    assert all("WrongShape.score in" in problem and "returned scores of shape" in problem for problem in found.values())


def test_scores_relative_to_the_batch_are_found_out() -> None:
    class Relative(Brightness):
        def score(self, images: Tensor) -> Tensor:
            scores = super().score(images)
            return scores - scores.mean() if len(scores) else scores

    assert list(problems(Relative)) == ["gives an image the same score in any batch", "takes a batch of one"]


def test_scores_that_turn_nan_in_small_batches_are_found_out() -> None:
    class Spread(Brightness):
        def score(self, images: Tensor) -> Tensor:
            scores = super().score(images)
            return scores / (0.0 if len(scores) == 1 else 1.0)

    assert problems(Spread) == {"takes a batch of one": "a batch of one changes the number of finite scores: 24 and 23"}


@pytest.mark.parametrize("name", detectors.names_of(PostHoc))
def test_all_our_detectors_pass(name: str) -> None:
    assert problems(detectors.create(name)) == {}


@pytest.mark.parametrize("name", detectors.names_of(TrainedDetector))
def test_all_trained_detectors_pass(name: str) -> None:
    tiny = detectors.create(name, training={"epochs": 1}, **SIZES.get(name, {}))
    findings = check(tiny, load("toy", "train", limit=64))
    assert {finding.check: finding.problem for finding in findings if finding.problem} == {}


@pytest.mark.parametrize("name", ["good", "likelihood_ratio", "nae"])
def test_every_stage_of_a_trained_detector_trains_for_an_epoch(name: str) -> None:
    sizes = {key: value for key, value in SIZES.get(name, {}).items() if key != "energy"}
    images = load("toy", "train", limit=32)
    bench = Bench(detectors.create(name, **sizes), images, images.batch(range(2)))
    fitted = bench.fit(bench.fresh())
    assert isinstance(fitted, TrainedDetector)
    assert [stage.epochs for stage in fitted.history] == [1, 1]


def test_a_detector_is_fitted_once_for_all_checks_and_once_more_for_that_of_a_second_fit() -> None:
    fits: list[int] = []

    class Counted(Brightness):
        def fit(self, images: ImageSet) -> None:
            fits.append(len(images))
            super().fit(images)

    assert problems(Counted) == {}
    assert len(fits) == 2


def test_a_users_detector_passes_as_class_and_as_object_fitted_or_not() -> None:
    assert problems(Brightness) == {}
    assert problems(Brightness()) == {}


def test_what_was_fitted_before_is_forgotten() -> None:
    panel = Panel(networks.create("lenet", 4, 16), [detectors.KNN(k=5)]).fit(inliers())
    assert problems(panel["knn"]) == {}
    assert problems(panel.detectors["knn"]) == {}
    assert panel.fitted, "the battery works on copies"


def test_a_detector_may_have_a_panel_of_its_own() -> None:
    class Wrapping(Brightness):
        def __init__(self) -> None:
            self.panel = Panel(networks.create("lenet", 4, 16), ["msp"])

    assert problems(Wrapping) == {}


def test_without_images_the_toy_set_is_used() -> None:
    seen: list[tuple[int, ...]] = []

    class Watching(Brightness):
        def fit(self, images: ImageSet) -> None:
            seen.append((len(images), *images.shape))
            super().fit(images)

    assert not [finding for finding in check(Watching) if finding.problem]
    assert set(seen) == {(200, 3, 32, 32)}


def test_what_is_no_detector_is_said_so() -> None:
    with pytest.raises(TypeError, match=r"expected a farout\.Detector or a farout\.PostHoc, got object"):
        check(object())
