"""Base class of the layouts of shifted sets on disk, and the groups and jobs these consist of."""

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
"""Function that writes a batch of images to its files; sent to worker processes."""
PUBLISHED_NAMES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
"""File names in the published sets of corruptions that have another name here."""
UNFINISHED = ".unfinished"
"""Folder of unfinished files."""


@dataclass(frozen=True)
class Group:
    """Content of one file or folder: a shift at all requested severities, or the clean images (None)."""

    name: str
    shifts: tuple[Shift | None, ...]

    @property
    def place(self) -> str:
        """Name of its file or folder, without suffix."""
        return PUBLISHED_NAMES.get(self.name, self.name)

    @property
    def clean(self) -> bool:
        """True for the group of clean images."""
        return self.shifts == (None,)

    @property
    def labels(self) -> list[str]:
        """Label of each severity for display."""
        return [self.name if shift is None else shift.label for shift in self.shifts]

    @property
    def severities(self) -> list[int]:
        """Severities in order; empty for a shift without severities."""
        return [severity for severity, _ in self.parts if severity]

    @property
    def parts(self) -> list[tuple[int, Shift | None]]:
        """Shifts with their severities; 0 for a shift without severities."""
        return [(severity_of(shift), shift) for shift in self.shifts]


def severity_of(shift: Shift | None) -> int:
    """Return the severity of a shift; 0 if it has none."""
    return 0 if shift is None else int(shift.params.get("severity", 0))


def common_label(labels: Sequence[str]) -> str:
    """Return the leading words that the labels of all severities share, such as "frost (procedural)"."""
    words = zip(*map(str.split, labels), strict=False)
    return " ".join(same[0] for same in takewhile(lambda each: len(set(each)) == 1, words))


@dataclass
class Job:
    """Missing images of one shift at one severity."""

    group: Group
    severity: int
    shift: Shift | None
    rows: NDArray[np.int64]
    """Their indices in the set."""

    def __post_init__(self) -> None:
        self.left = len(self.rows)
        """Number of images that are not written yet."""


class Layout(ABC):
    """Mapping from the images of a group to files in a folder."""

    def __init__(self, images: ImageSet, folder: Path, form: Format) -> None:
        self.images, self.folder, self.form = images, folder, form

    def rows(self, group: Group) -> NDArray[np.int64]:
        """Return the indices in the set of the images of a group.

        Outliers to their own class are written clean only: under shifts they would count as inliers.
        """
        outlier = self.images.attributes.get(OUTLIER)
        return np.arange(len(self.images)) if outlier is None or group.clean else np.flatnonzero(outlier == 0)

    def size(self, count: int) -> int:
        """Return the number of bytes of `count` images as raw pixels."""
        return count * int(np.prod(self.images.shape))

    @abstractmethod
    def place(self, group: Group) -> str:
        """Return the file or folder that holds a group, relative to the folder of the set."""

    @abstractmethod
    def missing(self, group: Group) -> list[Job]:
        """Return the jobs of a group that are not finished; remove unfinished files."""

    @abstractmethod
    def begin(self, job: Job) -> None:
        """Create the files or folders for a job's images."""

    @abstractmethod
    def sink(self, job: Job, rows: NDArray[np.int64]) -> Sink:
        """Return the function that writes these images of a job."""

    def finish(self, job: Job) -> None:  # noqa: B027
        """Finish a job after its last image was written."""

    def complete(self, group: Group) -> None:  # noqa: B027
        """Write the final files of a group after its last job."""
