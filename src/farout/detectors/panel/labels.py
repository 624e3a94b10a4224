"""Labels of the detectors of a panel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from farout.core import Detector, PostHoc
from farout.detectors.catalog import catalog


def label_detectors(detectors: Sequence[str | PostHoc] | Mapping[str, str | PostHoc]) -> dict[str, PostHoc]:
    """Return the detectors by distinct labels; names become detectors with default parameters."""
    if isinstance(detectors, str):
        raise TypeError(f"expected a list of detectors, got the string {detectors!r}; write [{detectors!r}]")
    if not isinstance(detectors, Iterable):
        raise TypeError(f'expected a list of detectors, such as ["msp", "knn"], got {detectors!r}')
    if isinstance(detectors, Mapping):
        labeled = {key: _build(detector) for key, detector in detectors.items()}
    else:
        built = [_build(detector) for detector in detectors]
        shared = {d.name for d in built if sum(d.name == other.name for other in built) > 1}
        labels = [label_with_params(d) if d.name in shared else d.label for d in built]
        twice = sorted({name for name in labels if labels.count(name) > 1})
        if twice:
            raise ValueError(f"the panel has {', '.join(twice)} twice; give other parameters, or labels: {{'mine': …}}")
        labeled = dict(zip(labels, built, strict=True))
    if not labeled:
        raise ValueError("a panel needs at least one detector")
    bad = [key for key in labeled if not key or "/" in key]
    if bad:
        raise ValueError(f"labels must be non-empty and without '/', got {bad}")
    return labeled


def label_with_params(detector: PostHoc) -> str:
    """Return the name with the parameters that differ from their defaults: knn(k=10)."""
    defaults = {field.name: field.default for field in dataclasses.fields(detector)}
    changed = {key: value for key, value in detector.params.items() if value != defaults[key]}
    return detector.name + (f"({', '.join(f'{key}={value}' for key, value in changed.items())})" if changed else "")


def _build(detector: str | PostHoc | Detector) -> PostHoc:
    if isinstance(detector, str):
        detector = catalog.create(detector)
    if not isinstance(detector, PostHoc):
        raise TypeError(
            f"a panel takes detectors that read activations, got the {type(detector).__name__} {detector!r}"
        )
    return detector
