"""The record of tuned hyper-parameters: what was tried, on which images, and what it means for a test."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from farout.core import ImageSet


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


def _lineage(images: ImageSet | None) -> Iterator[ImageSet]:
    """The set, the set it is a part or another form of, and so on."""
    while images is not None:
        yield images
        images = getattr(images, "parent", None)


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
    tested = [(inliers.name, "inliers", inliers, record.inliers)]
    tested += [(name, "outliers", images, record.outliers) for name, images in outliers.items()]
    return "; ".join([f"{label}: {record}", *(told for one in tested if (told := _met_before(*one)))])


def _met_before(name: str, role: str, tested: ImageSet, tuned: Images) -> str:
    """What is to be said where a set is tested on that was tuned on, or another part of it."""
    family = [images.fingerprint for images in _lineage(tested)]
    if tuned.fingerprint in family:
        return f"tested on the {role} it was tuned on ({name})"
    if tuned.origin in family and role == "outliers":  # inliers often are parts of one set, and should be
        return f"tested on outliers ({name}) from the set it was tuned on, maybe the same images"
    return ""
