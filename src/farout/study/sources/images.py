"""Image sources: small descriptions from which any process opens the same images. They can be nested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from farout import rng
from farout.core import ImageSet, Shift
from farout.data.arrays import OUTLIER
from farout.data.joined import Joined
from farout.data.matched import match
from farout.data.shifted import Shifted
from farout.data.splits import select_split
from farout.study.sources.opening import current_opener
from farout.study.spec import DataSpec

if TYPE_CHECKING:
    from farout.study.cells.cell import Cell
    from farout.study.store import Store


class About(NamedTuple):
    """Facts of an image set that plans need."""

    name: str
    fingerprint: str
    total: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    labeled: bool


class ImageSource(ABC):
    """Description of images that any process can open."""

    portable: bool = True
    """True if it can be sent to another process."""

    @abstractmethod
    def preview(self) -> ImageSet:
        """Return the image set before the run; the pixels of images that a cell computes are not available yet."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be present before the images can be opened."""
        return ()

    def open(self, store: Store) -> ImageSet:
        """Return the images. Raise if they have changed since the run was planned."""
        images = self._open(store)
        if images.fingerprint != self.about.fingerprint:
            raise RuntimeError(f"{images.name} has changed since the run was planned; run again")
        return images

    def _open(self, store: Store) -> ImageSet:
        """Return the images without the check for changes."""
        return self.preview()

    @cached_property
    def about(self) -> About:
        """Facts of the image set; computed once and sent along to other processes."""
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
    return current_opener().images(DataSpec.model_validate_json(spec))


@dataclass(frozen=True)
class LiveImages(ImageSource):
    """Image set in the memory of this process."""

    images: ImageSet
    portable = False

    def preview(self) -> ImageSet:
        return self.images


@dataclass(frozen=True)
class DerivedImages(ImageSource):
    """Base of image sources that are derived from another source.

    `derive` gets the preview when work is planned and the images when it is computed: labels and attributes that it
    selects by must be available before the run.
    """

    source: ImageSource

    @abstractmethod
    def derive(self, images: ImageSet) -> ImageSet:
        """Return the set derived from the other source's set."""

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
class JoinedImages(ImageSource):
    """Images of several sources of one shape, one source after the other, without labels."""

    sources: tuple[ImageSource, ...]

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return all(source.portable for source in self.sources)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for source in self.sources for cell in source.requires)

    def preview(self) -> ImageSet:
        return Joined([source.preview() for source in self.sources])

    def _open(self, store: Store) -> ImageSet:
        return Joined([source._open(store) for source in self.sources])


@dataclass(frozen=True)
class SubsetImages(DerivedImages):
    """Random subset of at most `count` images of another source, drawn with a fixed seed, in their order."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images if len(images) <= self.count else images.subset(rng.subset_indices(len(images), self.count))


def subset(images: ImageSource, count: int | None) -> ImageSource:
    """Return a random subset of at most `count` images; all for None."""
    return images if count is None else SubsetImages(images, count)


@dataclass(frozen=True)
class FirstImages(DerivedImages):
    """First `count` images of another source."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images.limit(self.count)


@dataclass(frozen=True)
class RepeatedImages(DerivedImages):
    """First image of another source, repeated `count` times, so that several chains start from it."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        return images.subset(np.zeros(self.count, np.int64))


@dataclass(frozen=True)
class CutImages(DerivedImages):
    """The tenth of a training set that serves as validation split, or the rest."""

    validation: bool

    def derive(self, images: ImageSet) -> ImageSet:
        return select_split(images, "val" if self.validation else "train")


@dataclass(frozen=True)
class MatchedImages(DerivedImages):
    """Images of another source, converted to the inliers' channels and size."""

    shape: tuple[int, int, int]

    def derive(self, images: ImageSet) -> ImageSet:
        return match(images, self.shape)


@dataclass(frozen=True)
class ShiftedImages(DerivedImages):
    """Images of another source under a shift, computed on demand."""

    shift: Shift
    seed: int

    def derive(self, images: ImageSet) -> ImageSet:
        return Shifted(images, self.shift, self.seed)


@dataclass(frozen=True)
class UncorruptedImages(DerivedImages):
    """Images of another source without the corrupted ones, which SHAPES and CHARS contain."""

    def derive(self, images: ImageSet) -> ImageSet:
        severity = images.attributes.get("severity")
        return images if severity is None or not severity.any() else images.subset(np.flatnonzero(severity == 0))


@dataclass(frozen=True)
class SoundImages(DerivedImages):
    """Images of another source without those that are marked as outliers of their class."""

    def derive(self, images: ImageSet) -> ImageSet:
        outlier = images.attributes.get(OUTLIER)
        return images if outlier is None else images.subset(np.flatnonzero(outlier == 0))


@dataclass(frozen=True)
class BalancedImages(DerivedImages):
    """Random subset of at most `count` images of another source, balanced over classes and, if some images are marked
    as outliers of their class, over both kinds; drawn with a fixed seed, in their order."""

    count: int

    def derive(self, images: ImageSet) -> ImageSet:
        if len(images) <= self.count:
            return images
        labels = np.zeros(len(images), np.int64) if images.labels is None else images.labels
        return images.subset(rng.balanced_indices(2 * labels + images.attributes.get(OUTLIER, 0), self.count))


@dataclass(frozen=True)
class ClassImages(DerivedImages):
    """Images of another source that have this label."""

    label: int

    def derive(self, images: ImageSet) -> ImageSet:
        if images.labels is None:
            raise ValueError(f"the images of {images.name} have no labels, so one class cannot be selected")
        return images.subset(np.flatnonzero(images.labels == self.label))
