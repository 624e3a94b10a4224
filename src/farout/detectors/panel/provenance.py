"""Records of the images that a detector has met: what was tuned on them, and what that means for a test."""

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
class Images:
    """Which images these were."""

    name: str
    total: int
    fingerprint: str
    origin: str
    """Fingerprint of the set that they were taken from."""

    @classmethod
    def of(cls, images: ImageSet) -> Images:
        """What is to be recorded of a set."""
        *_, origin = _lineage(images)
        return cls(images.name, len(images), images.fingerprint, origin.fingerprint)

    def met_again(self, name: str, role: str, tested: ImageSet, how: str) -> str:
        """What is to be said where a set is tested on that these images are from; how: "was tuned on"."""
        family = [images.fingerprint for images in _lineage(tested)]
        if self.fingerprint in family:
            return f"tested on the {role} it {how} ({name})"
        if self.origin in family and role == "outliers":  # inliers often are parts of one set, and should be
            return f"tested on outliers ({name}) from the set it {how}, maybe the same images"
        return ""


def shared(a: ImageSet, b: ImageSet) -> int:
    """How many images two sets have in common, as far as both are parts or other forms of one set."""
    (one, these), (other, those) = _places(a), _places(b)
    return len(np.intersect1d(these, those)) if one.fingerprint == other.fingerprint else 0


def _places(images: ImageSet) -> tuple[ImageSet, NDArray[np.int64]]:
    """The set that the images were taken from, and where they are in it."""
    places = np.arange(len(images))
    for part in _lineage(images):
        images = part
        if isinstance(part, Subset):
            places = part.indices[places]
    return images, places


def _lineage(images: ImageSet) -> Iterator[ImageSet]:
    """The set, the set it is a part or another form of, and so on."""
    yield images
    parent = getattr(images, "parent", None)
    if isinstance(parent, ImageSet) and (isinstance(images, Subset) or len(parent) == len(images)):
        yield from _lineage(parent)


@dataclass(frozen=True)
class Candidate:
    """One combination of values that was tried."""

    params: Mapping[str, Any]
    auroc: float | None = None
    failure: str = ""
    """Why there is no AUROC."""


@dataclass(frozen=True)
class Tuned:
    """How the hyper-parameters of one detector were chosen."""

    params: Mapping[str, Any]
    """The chosen ones; the detector's others were not up for choice."""
    candidates: tuple[Candidate, ...]
    inliers: Images
    outliers: Images
    judged: int
    """Inliers that the AUROC was computed on: fewer than there were where the others served to fit."""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.params.items())
        failed = sum(candidate.auroc is None for candidate in self.candidates)
        among = f"{len(self.candidates)}" + (f" ({failed} failed)" if failed else "")
        inliers = self.inliers.name if self.judged == self.inliers.total else f"half of {self.inliers.name}"
        counts = f"{self.judged:,} + {self.outliers.total:,} images"
        return f"{values}, chosen among {among} by AUROC on {inliers} against {self.outliers.name}, {counts}"

    def as_json(self) -> dict[str, Any]:
        """The record as JSON; a value that JSON has no form for (a candidate may be anything) as text."""
        record: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self), default=str))
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Tuned:
        """The record that `as_json` gave."""
        candidates = tuple(Candidate(**candidate) for candidate in record["candidates"])
        sets = {role: Images(**record[role]) for role in ("inliers", "outliers")}
        return cls(record["params"], candidates, judged=record["judged"], **sets)


def note(label: str, record: Tuned, inliers: ImageSet, outliers: Mapping[str, ImageSet]) -> str:
    """How a detector was tuned, for the readers of a test on these images; plainly so where it was on the same ones."""
    told = [record.inliers.met_again(inliers.name, "inliers", inliers, "was tuned on")]
    told += [record.outliers.met_again(name, "outliers", images, "was tuned on") for name, images in outliers.items()]
    return "; ".join([f"{label}: {record}", *filter(None, told)])
