"""What the members of a panel are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog


def label(detectors: Sequence[str | PostHoc] | Mapping[str, str | PostHoc]) -> dict[str, PostHoc]:
    """Detectors by distinct labels; names are made into detectors with their default parameters."""
    if isinstance(detectors, str):
        raise TypeError(f"expected a list of detectors, got the string {detectors!r}; write [{detectors!r}]")
    if isinstance(detectors, Mapping):
        labelled = {key: _made(detector) for key, detector in detectors.items()}
    else:
        made = [_made(detector) for detector in detectors]
        shared = {d.name for d in made if sum(d.name == other.name for other in made) > 1}
        labels = [describe(d) if d.name in shared else d.name for d in made]
        twice = sorted({name for name in labels if labels.count(name) > 1})
        if twice:
            raise ValueError(f"the panel names {', '.join(twice)} twice; give other parameters or a label of its own")
        labelled = dict(zip(labels, made, strict=True))
    if not labelled:
        raise ValueError("a panel needs at least one detector")
    bad = [key for key in labelled if not key or "/" in key]
    if bad:
        raise ValueError(f"labels must be non-empty and without '/', got {bad}")
    return labelled


def describe(detector: PostHoc) -> str:
    """Name with the parameters that are not at their defaults: knn(k=10)."""
    defaults = {field.name: field.default for field in dataclasses.fields(detector)}
    changed = {key: value for key, value in detector.params.items() if value != defaults[key]}
    return detector.name + (f"({', '.join(f'{key}={value}' for key, value in changed.items())})" if changed else "")


def _made(detector: str | PostHoc | Detector) -> PostHoc:
    if isinstance(detector, str):
        detector = catalog.create(detector)
    if not isinstance(detector, PostHoc):
        raise TypeError(
            f"a panel takes detectors that read activations, got the {type(detector).__name__} {detector!r}"
        )
    return detector
