"""How shifted sets lie on disk: what any layout does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet, Shift
from farout.data.arrays import OUTLIER

Format = Literal["npz", "npy", "png", "jpeg"]
Pixels = NDArray[np.uint8]
"""[B, H, W, C]."""
Sink = Callable[[Pixels], None]
"""Writes some images to their place; it travels to worker processes."""
PUBLISHED_NAMES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
"""Corruptions whose files have another name in the published sets."""
UNFINISHED = ".unfinished"
"""The folder that work in progress lies in."""


@dataclass(frozen=True)
class Group:
    """What lies in one file or folder: a shift at every severity asked for, or the images as they are (None)."""

    name: str
    shifts: tuple[Shift | None, ...]

    @property
    def place(self) -> str:
        """The name of its file or folder, without an ending."""
        return PUBLISHED_NAMES.get(self.name, self.name)

    @property
    def clean(self) -> bool:
        """Does it hold the images as they are?"""
        return self.shifts == (None,)

    @property
    def labels(self) -> list[str]:
        """What people read, by severity."""
        return [self.name if shift is None else shift.label for shift in self.shifts]

    @property
    def severities(self) -> list[int]:
        """The severities in order; none where there is no such thing."""
        return [severity for severity, _ in self.parts if severity]

    @property
    def parts(self) -> list[tuple[int, Shift | None]]:
        """The shifts with their severities; 0 where there is none."""
        return [(severity_of(shift), shift) for shift in self.shifts]


def severity_of(shift: Shift | None) -> int:
    """The severity of a shift; 0 where there is none."""
    return 0 if shift is None else int(shift.params.get("severity", 0))


def common_label(labels: Sequence[str]) -> str:
    """What people read of a shift at several severities: the words that all begin with, as "frost (procedural)"."""
    words = zip(*map(str.split, labels), strict=False)
    return " ".join(same[0] for same in takewhile(lambda each: len(set(each)) == 1, words))


@dataclass
class Job:
    """Images under one shift that are not there yet."""

    group: Group
    severity: int
    shift: Shift | None
    rows: NDArray[np.int64]
    """Their places in the set."""

    def __post_init__(self) -> None:
        self.left = len(self.rows)
        """How many of them are not written yet."""


class Layout(ABC):
    """Where the images of a group lie in a folder."""

    def __init__(self, images: ImageSet, folder: Path, form: Format) -> None:
        self.images, self.folder, self.form = images, folder, form

    def rows(self, group: Group) -> NDArray[np.int64]:
        """Return the places in the set of the images that a group holds.

        Outliers to their own class are there as they are, and not under shifts: those would count as inliers.
        """
        outlier = self.images.attributes.get(OUTLIER)
        return np.arange(len(self.images)) if outlier is None or group.clean else np.flatnonzero(outlier == 0)

    def size(self, count: int) -> int:
        """Return the bytes of so many images as raw pixels."""
        return count * int(np.prod(self.images.shape))

    @abstractmethod
    def place(self, group: Group) -> str:
        """The file or folder that holds a group, relative to the folder of the set."""

    @abstractmethod
    def missing(self, group: Group) -> list[Job]:
        """What is still to be done for a group; what is left of files that were not finished is removed."""

    @abstractmethod
    def begin(self, job: Job) -> None:
        """Make room for a job's images."""

    @abstractmethod
    def sink(self, job: Job, rows: NDArray[np.int64]) -> Sink:
        """Where some of them go."""

    def finish(self, job: Job) -> None:  # noqa: B027
        """All of them have gone there."""

    def complete(self, group: Group) -> None:  # noqa: B027
        """Nothing of a group is missing: bring it into its final form."""
