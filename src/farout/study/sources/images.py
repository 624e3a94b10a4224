"""Image sources: small descriptions from which any process opens the same images; they stack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from farout import rng
from farout.core import ImageSet, Shift
from farout.data import load
from farout.data.arrays import OUTLIER
from farout.data.matched import match
from farout.data.shifted import Shifted
from farout.data.splits import select_split
from farout.study.spec import DataSpec

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store


class About(NamedTuple):
    """The facts of an image set."""

    name: str
    fingerprint: str
    total: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    labeled: bool


class ImageSource(ABC):
    """Images to be had anywhere: in this process and in a worker."""

    portable: bool = True
    """May it travel to another process?"""

    @abstractmethod
    def preview(self) -> ImageSet:
        """The image set as far as it is there before the run: of images that a cell makes, all but the pixels."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before the images can be opened."""
        return ()

    def open(self, store: Store) -> ImageSet:
        """The images, for work that was planned from `about`; an error where they have changed since."""
        images = self._open(store)
        if images.fingerprint != self.about.fingerprint:
            raise RuntimeError(f"{images.name} has changed since the run was planned; run again")
        return images

    def _open(self, store: Store) -> ImageSet:
        """The images as they are now."""
        return self.preview()

    @cached_property
    def about(self) -> About:
        """What plans need to know of the images; it is found out once and travels along."""
        images = self.preview()
        return About(
            images.name, images.fingerprint, len(images), images.shape, images.classes, images.labels is not None
        )


@dataclass(frozen=True)
class NamedImages(ImageSource):
    """Images that a study file names."""

    spec: DataSpec

    def preview(self) -> ImageSet:
        return load_cached(self.spec.model_dump_json())


@lru_cache(maxsize=16)
def load_cached(spec: str) -> ImageSet:
    data = DataSpec.model_validate_json(spec)
    return load(data.name, data.split, limit=data.limit, **data.options)


@dataclass(frozen=True)
class LiveImages(ImageSource):
    """Images held by this process."""

    images: ImageSet
    portable = False

    def preview(self) -> ImageSet:
        return self.images


@dataclass(frozen=True)
class DerivedImages(ImageSource):
    """Images made from those of another source.

    `derive` sees the preview when work is planned and the images when it is done: what it selects by, labels and
    attributes, must be known before the run.
    """

    source: ImageSource

    @abstractmethod
    def derive(self, images: ImageSet) -> ImageSet:
        """The set made from the other source's."""

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.source.portable

    @property
    def requires(self) -> tuple[Cell, ...]:
        return self.source.requires

    def preview(self) -> ImageSet:
        return self.derive(self.source.preview())

    def _open(self, store: Store) -> ImageSet:
        return self.derive(self.source._open(store))


@dataclass(frozen=True)
class SomeImages(DerivedImages):
    """At most `count` images of another source, drawn with a fixed seed and kept in order."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images if len(images) <= self.count else images.subset(rng.subset_indices(len(images), self.count))


def some(images: ImageSource, count: int | None) -> ImageSource:
    """At most `count` of the images; all for None."""
    return images if count is None else SomeImages(images, count)


@dataclass(frozen=True)
class FirstImages(DerivedImages):
    """The first `count` images of another source."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images.limit(self.count)


@dataclass(frozen=True)
class RepeatedImages(DerivedImages):
    """The first image of another source, `count` times: several chains start from it."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images.subset(np.zeros(self.count, np.int64))


@dataclass(frozen=True)
class CutImages(DerivedImages):
    """The tenth of a training set that serves for validation, or the rest."""

    validation: bool

    def derive(self, images: ImageSet) -> ImageSet:
        return select_split(images, "val" if self.validation else "train")


@dataclass(frozen=True)
class MatchedImages(DerivedImages):
    """Images of another source, brought to the inliers' channels and size."""

    shape: tuple[int, int, int]

    def derive(self, images: ImageSet) -> ImageSet:
        return match(images, self.shape)


@dataclass(frozen=True)
class ShiftedImages(DerivedImages):
    """Images of another source under a shift, made when they are asked for."""

    shift: Shift
    seed: int

    def derive(self, images: ImageSet) -> ImageSet:
        return Shifted(images, self.shift, self.seed)


@dataclass(frozen=True)
class UncorruptedImages(DerivedImages):
    """Images of another source without those that come corrupted, as some of SHAPES and CHARS do."""

    def derive(self, images: ImageSet) -> ImageSet:
        severity = images.attributes.get("severity")
        return images if severity is None or not severity.any() else images.subset(np.flatnonzero(severity == 0))


@dataclass(frozen=True)
class SoundImages(DerivedImages):
    """Images of another source without those that are outliers to their own class."""

    def derive(self, images: ImageSet) -> ImageSet:
        outlier = images.attributes.get(OUTLIER)
        return images if outlier is None else images.subset(np.flatnonzero(outlier == 0))


@dataclass(frozen=True)
class BalancedImages(DerivedImages):
    """At most `count` images of another source, about as many of each class and, where some are outliers to their
    class, of either kind; drawn with a fixed seed, in order."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        if len(images) <= self.count:
            return images
        labels = np.zeros(len(images), np.int64) if images.labels is None else images.labels
        return images.subset(rng.balanced_indices(2 * labels + images.attributes.get(OUTLIER, 0), self.count))


@dataclass(frozen=True)
class ClassImages(DerivedImages):
    """The images of another source that have this label."""

    label: int

    def derive(self, images: ImageSet) -> ImageSet:
        if images.labels is None:
            raise ValueError(f"the images of {images.name} have no labels to choose one class by")
        return images.subset(np.flatnonzero(images.labels == self.label))
