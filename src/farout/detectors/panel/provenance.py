"""Records of the images a detector was tuned on or learned from, and notes on their overlap with a test."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.data.subset import Subset


@dataclass(frozen=True)
class ImagesRecord:
    """Record of an image set: its name, size and fingerprints."""

    name: str
    total: int
    fingerprint: str
    origin: str
    """Fingerprint of the set that the images are a subset of."""

    @classmethod
    def of(cls, images: ImageSet) -> ImagesRecord:
        """Build the record of a set."""
        *_, origin = _lineage(images)
        return cls(images.name, len(images), images.fingerprint, origin.fingerprint)

    def overlap_note(self, name: str, role: str, tested: ImageSet, how: str) -> str:
        """Return a warning if the tested set overlaps these images, else ""; how: "was tuned on" or "learned from"."""
        family = [images.fingerprint for images in _lineage(tested)]
        if self.fingerprint in family:
            return f"tested on the {role} it {how} ({name})"
        if self.origin in family and role == "outliers":  # inlier splits are usually subsets of one set
            return f"tested on outliers ({name}) from the set it {how}, maybe the same images"
        return ""


def count_shared(a: ImageSet, b: ImageSet) -> int:
    """Return the number of images two sets share, as far as both derive from one set."""
    (one, indices_a), (other, indices_b) = _origin_indices(a), _origin_indices(b)
    return len(np.intersect1d(indices_a, indices_b)) if one.fingerprint == other.fingerprint else 0


def _origin_indices(images: ImageSet) -> tuple[ImageSet, NDArray[np.int64]]:
    """Return the set that the images derive from, and their indices in it."""
    places = np.arange(len(images))
    for part in _lineage(images):
        images = part
        if isinstance(part, Subset):
            places = part.indices[places]
    return images, places


def _lineage(images: ImageSet) -> Iterator[ImageSet]:
    """Yield the set, the set it is a subset or transformed version of, and so on."""
    yield images
    parent = getattr(images, "parent", None)
    if isinstance(parent, ImageSet) and (isinstance(images, Subset) or len(parent) == len(images)):
        yield from _lineage(parent)


@dataclass(frozen=True)
class Candidate:
    """One combination of hyper-parameter values that was tried."""

    params: Mapping[str, Any]
    auroc: float | None = None
    failure: str = ""
    """Reason why there is no AUROC."""


@dataclass(frozen=True)
class Tuned:
    """Record of the tuning of one detector's hyper-parameters."""

    params: Mapping[str, Any]
    """Selected values of the tuned hyper-parameters."""
    candidates: tuple[Candidate, ...]
    inliers: ImagesRecord
    outliers: ImagesRecord
    judged: int
    """Number of inliers that the AUROC was computed on; half of them if candidates fit on the other half."""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.params.items())
        failed = sum(candidate.auroc is None for candidate in self.candidates)
        among = f"{len(self.candidates)}" + (f" ({failed} failed)" if failed else "")
        inliers = self.inliers.name if self.judged == self.inliers.total else f"half of {self.inliers.name}"
        counts = f"{self.judged:,} + {self.outliers.total:,} images"
        return f"{values}, selected among {among} by AUROC on {inliers} against {self.outliers.name}, {counts}"

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON; values that JSON cannot represent become text."""
        record: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self), default=str))
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Tuned:
        """Build a record from the result of `as_json`."""
        candidates = tuple(Candidate(**candidate) for candidate in record["candidates"])
        sets = {role: ImagesRecord(**record[role]) for role in ("inliers", "outliers")}
        return cls(record["params"], candidates, judged=record["judged"], **sets)


def note(label: str, record: Tuned, inliers: ImageSet, outliers: Mapping[str, ImageSet]) -> str:
    """Return a note on how a detector was tuned, and whether the test uses the same images."""
    notes = [record.inliers.overlap_note(inliers.name, "inliers", inliers, "was tuned on")]
    notes += [
        record.outliers.overlap_note(name, "outliers", images, "was tuned on") for name, images in outliers.items()
    ]
    return "; ".join([f"{label}: {record}", *filter(None, notes)])
