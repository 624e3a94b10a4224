"""Where a cell gets its images and its network from: small descriptions that travel to worker processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from farout import rng
from farout.core import ImageSet, Shift
from farout.data import load
from farout.data.arrays import OUTLIER
from farout.data.matched import match
from farout.data.shifted import Shifted
from farout.data.splits import divide
from farout.networks import Ensemble, Network, create, load_weights, own_identity
from farout.study.spec import DataSpec, NetworkSpec

if TYPE_CHECKING:
    from farout.study.cell import Cell
    from farout.study.store import Store


class About(NamedTuple):
    """The facts of an image set."""

    name: str
    fingerprint: str
    total: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    labelled: bool


class ImageSource(ABC):
    """Images to be had anywhere: in this process and in a worker."""

    portable: bool = True
    """May it travel to another process?"""

    @abstractmethod
    def load(self) -> ImageSet:
        """The images."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before the images can be had."""
        return ()

    def open(self, store: Store) -> ImageSet:
        """The images, for work that was planned from `about`; an error where they have changed since."""
        images = self.load()
        if images.fingerprint != self.about.fingerprint:
            raise RuntimeError(f"{images.name} has changed since the run was planned; run again")
        return images

    @cached_property
    def about(self) -> About:
        """What plans need to know of the images; it is found out once and travels along."""
        images = self.load()
        return About(
            images.name, images.fingerprint, len(images), images.shape, images.classes, images.labels is not None
        )


@dataclass(frozen=True)
class NamedImages(ImageSource):
    """Images that a study file names."""

    spec: DataSpec

    def load(self) -> ImageSet:
        return _load(self.spec.model_dump_json())


def forget_loaded() -> None:
    """Forget images and networks read before: files may have changed since. Called at the start of a study."""
    _load.cache_clear()
    _stored.cache_clear()


@lru_cache(maxsize=16)
def _load(spec: str) -> ImageSet:
    data = DataSpec.model_validate_json(spec)
    return load(data.name, data.split, limit=data.limit, **data.options)


@dataclass(frozen=True)
class LiveImages(ImageSource):
    """Images held by this process."""

    images: ImageSet
    portable = False

    def load(self) -> ImageSet:
        return self.images


@dataclass(frozen=True)
class DerivedImages(ImageSource):
    """Images made from those of another source."""

    source: ImageSource

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return self.source.portable


@dataclass(frozen=True)
class SomeImages(DerivedImages):
    """At most `count` images of another source, drawn with a fixed seed and kept in order."""

    count: int

    def load(self) -> ImageSet:
        images = self.source.load()
        return images if len(images) <= self.count else images.subset(rng.some(len(images), self.count))


def some(images: ImageSource, count: int | None) -> ImageSource:
    """At most `count` of the images; all for None."""
    return images if count is None else SomeImages(images, count)


@dataclass(frozen=True)
class FirstImages(DerivedImages):
    """The first `count` images of another source."""

    count: int

    def load(self) -> ImageSet:
        return self.source.load().limit(self.count)


@dataclass(frozen=True)
class RepeatedImages(DerivedImages):
    """The first image of another source, `count` times: several chains start from it."""

    count: int

    def load(self) -> ImageSet:
        return self.source.load().subset(np.zeros(self.count, np.int64))


@dataclass(frozen=True)
class CutImages(DerivedImages):
    """The tenth of a training set that serves for validation, or the rest."""

    validation: bool

    def load(self) -> ImageSet:
        return divide(self.source.load(), "val" if self.validation else "train")


@dataclass(frozen=True)
class MatchedImages(DerivedImages):
    """Images of another source, brought to the inliers' channels and size."""

    shape: tuple[int, int, int]

    def load(self) -> ImageSet:
        return match(self.source.load(), self.shape)


@dataclass(frozen=True)
class ShiftedImages(DerivedImages):
    """Images of another source under a shift, made when they are asked for."""

    shift: Shift
    seed: int

    def load(self) -> ImageSet:
        return Shifted(self.source.load(), self.shift, self.seed)


@dataclass(frozen=True)
class UncorruptedImages(DerivedImages):
    """Images of another source without those that come corrupted, as some of SHAPES and CHARS do."""

    def load(self) -> ImageSet:
        images = self.source.load()
        severity = images.attributes.get("severity")
        return images if severity is None or not severity.any() else images.subset(np.flatnonzero(severity == 0))


@dataclass(frozen=True)
class SoundImages(DerivedImages):
    """Images of another source without those that are outliers to their own class."""

    def load(self) -> ImageSet:
        images = self.source.load()
        outlier = images.attributes.get(OUTLIER)
        return images if outlier is None else images.subset(np.flatnonzero(outlier == 0))


@dataclass(frozen=True)
class BalancedImages(DerivedImages):
    """At most `count` images of another source, about as many of each class and, where some are outliers to their
    class, of either kind; drawn with a fixed seed, in order."""

    count: int

    def load(self) -> ImageSet:
        images = self.source.load()
        if len(images) <= self.count:
            return images
        labels = np.zeros(len(images), np.int64) if images.labels is None else images.labels
        return images.subset(rng.balanced(2 * labels + images.attributes.get(OUTLIER, 0), self.count))


@dataclass(frozen=True)
class ClassImages(DerivedImages):
    """The images of another source that have this label."""

    label: int

    def load(self) -> ImageSet:
        images = self.source.load()
        if images.labels is None:
            raise ValueError(f"the images of {images.name} have no labels to choose one class by")
        return images.subset(np.flatnonzero(images.labels == self.label))


class NetworkSource(ABC):
    """A network to be had anywhere."""

    label: str
    portable: bool = True

    @abstractmethod
    def identity(self) -> Any:
        """What decides the network's activations, as JSON."""

    @abstractmethod
    def preview(self) -> Network:
        """The network as far as it is there before the run: of one to be trained, its untrained form."""

    @abstractmethod
    def build(self, store: Store) -> Network:
        """The network."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """The cells that must be there before the network can be built."""
        return ()


@dataclass(frozen=True)
class StoredNetwork(NetworkSource):
    """A network by architecture whose weights come from a file or from timm."""

    spec: NetworkSpec
    label: str
    classes: int
    side: int
    channels: int

    @cached_property
    def _digest(self) -> str:
        return self.preview().digest

    @cached_property
    def _identity(self) -> Any:
        own = own_identity(self.spec.name, self.spec.params)
        return {"weights": self._digest, **own} if own else self._digest

    def identity(self) -> Any:
        return self._identity

    def preview(self) -> Network:
        return _stored(self.spec.model_dump_json(), self.classes, self.side, self.channels)

    def build(self, store: Store) -> Network:
        network = self.preview()
        if network.digest != self._digest:
            raise RuntimeError(f"the weights of {self.label} have changed since the run was planned; run again")
        return network


@dataclass(frozen=True)
class LiveNetwork(NetworkSource):
    """A network held by this process."""

    network: Network
    weights: str
    """Its digest."""
    label: str
    portable = False

    def identity(self) -> Any:
        return self.weights

    def preview(self) -> Network:
        return self.network

    def build(self, store: Store) -> Network:
        return self.network


@dataclass(frozen=True)
class JoinedNetworks(NetworkSource):
    """An ensemble of networks."""

    label: str
    members: tuple[NetworkSource, ...]

    @property
    def portable(self) -> bool:  # type: ignore[override]
        return all(member.portable for member in self.members)

    @property
    def requires(self) -> tuple[Cell, ...]:
        return tuple(cell for member in self.members for cell in member.requires)

    def identity(self) -> Any:
        return {"members": [member.identity() for member in self.members]}

    def preview(self) -> Network:
        return Ensemble([member.preview() for member in self.members])

    def build(self, store: Store) -> Network:
        return Ensemble([member.build(store) for member in self.members])


@lru_cache(maxsize=8)
def _stored(described: str, classes: int, side: int, channels: int) -> Network:
    spec = NetworkSpec.model_validate_json(described)
    network = create(
        spec.name, classes, side, channels, pretrained=spec.pretrained, mean=spec.mean, std=spec.std, **spec.params
    )
    if spec.weights is not None:
        assert isinstance(spec.weights, str)
        load_weights(network, spec.weights)
    return network
