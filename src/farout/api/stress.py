"""`farout.stress`: run the protocols on a detector object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from farout.adapters.function import FUNCTIONS, Function
from farout.api.run import Result, run
from farout.core import Detector, ImageSet, NotFitted
from farout.data.inputs import as_image_set, is_images
from farout.detectors.fitted_state import fit, has_fit
from farout.detectors.panel.panel import Member, Panel
from farout.detectors.trained.detector import TrainedDetector
from farout.progress import shown
from farout.protocols import PROTOCOLS, check
from farout.study.sources.images import ImageSource, LiveImages
from farout.study.sources.networks import forget_loaded
from farout.study.spec import BUDGETS, AnyImages, Budget, DataSpec, InlierSplits, InliersSpec, ProtocolSpec
from farout.study.study import ImagesSpec, Inliers, Study, Trial, inliers_from, outliers_from, own_outliers
from farout.study.subjects.images import ImageSubject
from farout.study.subjects.panel import PanelSubject
from farout.study.subjects.subject import Subject

BUILT_IN_OUTLIERS = ("noise", "toy")
"""Built-in outlier sets for inliers without their own; they need no download."""


def stress(
    detector: Detector | Panel | Callable[[Tensor], Any],
    inliers: Any,
    outliers: Any = None,
    *,
    protocols: str | Sequence[str] = "all",
    budget: Budget = "quick",
    out: str | Path | None = None,
) -> Result:
    """Test a detector by evaluation protocols; the result prints as a table with intervals.

    detector: a `Detector`, a `Panel` (its members share the forward passes), or a function from images [B, C, H, W] in
        [0, 1] to scores, larger = more outlying.
    inliers: a name ("shapes", "cifar10", …), on whose training split the detector is fitted first (a fitted panel or
        trained detector is not fitted again); or images, any input of `farout.data.as_image_set`: then the detector
        is not fitted.
    outliers: the same, or a list of several sets; by default the standard ones of the inliers, else built-in ones.
    protocols: names, or "all": those that are possible with these inliers and train no models of their own, so all but
        raised_bar and cost. budget: "quick", "standard" or "full".
    out: folder for the results.
    """
    if isinstance(detector, FUNCTIONS):
        detector = Function(detector)
    detector = _check_detector(detector)
    if budget not in BUDGETS:
        raise ValueError(f"budget must be one of {', '.join(BUDGETS)}, got {budget!r}")
    if not isinstance(protocols, str | Sequence):
        raise TypeError(f'protocols: expected "all", a name or a list of names, got {protocols!r}')
    names = _protocols() if protocols == "all" else [protocols] if isinstance(protocols, str) else list(protocols)
    for name in names:
        PROTOCOLS[name]
    if not names:
        raise ValueError(f"protocols is empty; give one or more of {', '.join(PROTOCOLS.names())}")
    forget_loaded()
    spec: InliersSpec | None = None
    if isinstance(inliers, str | Path):
        spec = TypeAdapter[InliersSpec](InlierSplits).validate_python(str(inliers))
        source = inliers_from(spec, budget)
    else:
        inliers = _image_set(inliers, "inliers")
        source = Inliers(None, None, LiveImages(inliers))
    trial = Trial(0, source, _outliers(outliers, inliers, spec, source, budget))
    study = Study("stress", [trial], [ProtocolSpec(name=name) for name in names], budget)
    study.check()
    if protocols == "all":
        study.protocols[:] = [p for p in study.protocols if not PROTOCOLS.create(p.name).unsuited(study)]
    check(study)
    with shown() as listener:
        trial.subjects.extend(_subjects(detector, source))
        return run(study, out, progress=listener)


def _protocols() -> list[str]:
    """Return the names of the protocols that are not run by name only."""
    return [name for name in PROTOCOLS.names() if not getattr(PROTOCOLS[name], "by_name", False)]


def _check_detector(detector: object) -> Detector | Panel:
    if isinstance(detector, type):
        raise TypeError(f"expected a detector, got the class {detector.__name__}; create one: {detector.__name__}(…)")
    if not isinstance(detector, Detector | Panel):
        got = type(detector).__name__
        raise TypeError(f"expected a farout.Detector or a farout.Panel, got {got}; a function of images works too")
    return detector


def _outliers(
    outliers: Any, inliers: Any, spec: InliersSpec | None, source: Inliers, budget: Budget
) -> dict[str, ImageSource]:
    if outliers is None:
        own = spec.test.name if spec else getattr(inliers, "name", None)
        others = [DataSpec(name=name) for name in BUILT_IN_OUTLIERS if name != own]
        return outliers_from((spec and own_outliers(spec.test)) or others, source, budget)
    several = list(outliers) if isinstance(outliers, list | tuple) and not is_images(outliers) else [outliers]
    if not several:
        raise ValueError("outliers is empty; give at least one set, or leave it out for the built-in ones")
    sources: dict[str, ImageSource] = {}
    for item in several:
        named = _outlier(item, source, budget)
        if twice := named.keys() & sources.keys():
            raise ValueError(f"two outlier sets are called {', '.join(twice)}; give each its own name")
        sources |= named
    return sources


def _outlier(images: Any, inliers: Inliers, budget: Budget) -> dict[str, ImageSource]:
    """Return one outlier set by its label."""
    if isinstance(images, str | Path):
        return outliers_from([TypeAdapter[ImagesSpec](AnyImages).validate_python(str(images))], inliers, budget)
    image_set = _image_set(images, "outliers")
    return {image_set.name: LiveImages(image_set)}


def _image_set(images: Any, what: str) -> ImageSet:
    """Return images as a set. Raise if there are none."""
    image_set = as_image_set(images, what=what)
    if not len(image_set):
        raise ValueError(f"{what}: got a set without images, {image_set.name!r}; expected at least one image")
    return image_set


def _subjects(detector: Detector | Panel, inliers: Inliers) -> list[Subject]:
    """Return subjects for the detector or every member of the panel, fitted if there is a training split."""
    train = inliers.train.preview() if inliers.train else None
    if isinstance(detector, Member):
        detector = detector.panel.only(detector.name)
    if isinstance(detector, Panel):
        splits: dict[str, ImageSource] = {}
        if not detector.fitted and train is not None:
            splits = {name: s for name, s in (("train", inliers.train), ("val", inliers.val)) if s}
            val = inliers.val.preview() if inliers.val else None
            detector.fit(train, val)
        if not detector.fitted:
            raise NotFitted(
                f"{detector} is not fitted, and these inliers have no training split: call panel.fit(train, val) first"
            )
        weights = detector.network.digest
        return [PanelSubject(label, detector, weights, fitted_before=splits) for label in detector.detectors]
    label = detector.label if isinstance(detector, TrainedDetector) else detector.name
    if train is None or not has_fit(detector):
        return [ImageSubject(label, detector)]
    fit(detector, train, val=inliers.val and inliers.val.preview(), seed=0)
    return [ImageSubject(label, detector, fitted_before=inliers.train)]
