"""Base classes: image sets, activations, detectors that read activations or images, and shifts."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout import rng
from farout.component import Component, Named
from farout.identity import canonical, own_identity
from farout.tensors import as_images, chunks

if TYPE_CHECKING:
    from farout.networks.network import Network

SHIFTED_AT_ONCE = 2**18
"""Pixel values that a shift processes at a time, so that its intermediate results stay in the processor's cache."""


ROWS = 1024
"""Rows of a long table that are processed at a time."""


class NotFitted(RuntimeError):
    """A detector was called to score before it was fitted."""


class ImageSet(ABC):
    """Named images with labels, read in batches.

    Subclasses set `name`, `labels`, `classes` and `shape`, and implement `__len__`, `batch` and `_fingerprint`.
    """

    name: str
    labels: NDArray[np.int64] | None
    """Class index per image, or None."""
    classes: tuple[str, ...] = ()
    """Class names by index, if known."""
    shape: tuple[int, int, int]
    """Channels, height, width."""
    attributes: Mapping[str, NDArray[Any]] = MappingProxyType({})
    """Attributes of the images by name: values [N] that are stored beside the scores."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: ArrayLike) -> Tensor:
        """Return the images at these indices: float32 [B, C, H, W] in [0, 1]."""

    @abstractmethod
    def _fingerprint(self) -> str: ...

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content, or of the recipe that produces it; it does not depend on the path of the files."""
        return self._fingerprint()

    @property
    def index(self) -> NDArray[np.int64]:
        """Index of every image in its own set, [N]; subsets and changed copies keep the indices of their parent set.

        A class whose `subset` does not return a `Subset` overrides it.
        """
        return np.arange(len(self))

    def subset(self, indices: ArrayLike, name: str | None = None) -> ImageSet:
        """Return a set of the images at these indices, in this order."""
        from farout.data.subset import Subset

        return Subset(self, indices, name)

    def limit(self, n: int | None) -> ImageSet:
        """Return a set of the first `n` images; all of them for None."""
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0):
            raise ValueError(f"limit must be a whole number of at least 0 or None, got {n!r}")
        return self if n is None or n >= len(self) else self.subset(np.arange(n))

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over the images in order, in chunks."""
        return (self.batch(np.arange(part.start, part.stop)) for part in chunks(len(self)))

    def __repr__(self) -> str:
        size = "×".join(map(str, self.shape))
        return f"<{type(self).__name__} {self.name!r}: {len(self):,} images of {size}, {len(self.classes)} classes>"

    @staticmethod
    def from_arrays(images: ArrayLike, labels: ArrayLike | None = None, name: str = "arrays") -> ImageSet:
        """Return a set of images in arrays: uint8 NHWC or NHW, or float NCHW in [0, 1]."""
        from farout.data.arrays import ArraySet

        return ArraySet(images, labels, name=name)


def check_set(what: str, images: object) -> None:
    """Raise unless it is an `ImageSet`."""
    if not isinstance(images, ImageSet):
        got = repr(images) if isinstance(images, str | int | float | None) else type(images).__name__
        raise TypeError(
            f"{what}: expected a farout.ImageSet, got {got}; farout.load(…) reads one by name or path, "
            "farout.ImageSet.from_arrays(…) takes arrays"
        )


class Head(NamedTuple):
    """Last linear layer of a network: logits = features @ weight.T + bias."""

    weight: Tensor  # [C, D]
    bias: Tensor  # [C]

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits [B, C] of features [B, D], in float64."""
        if features.ndim != 2 or features.shape[1] != self.weight.shape[1]:
            raise ValueError(
                f"the last layer takes features [B, {self.weight.shape[1]}], got shape {list(features.shape)}"
            )
        return features.double() @ self.weight.double().T + self.bias.double()

    def to(self, device: torch.device) -> Head:
        """Return a copy on another device."""
        return Head(self.weight.to(device), self.bias.to(device))


PER_BLOCK = ("blocks", "means", "grids", "grams")
"""Fields of `Activations` with one entry per block: its output, or statistics computed in the forward pass."""


@dataclasses.dataclass(frozen=True)
class Activations:
    """Activations of one forward pass, of a batch or of a whole set."""

    logits: Tensor  # [B, C]; C = 0 for a network without a classifier
    features: Tensor  # [B, D]: the input of the last linear layer, or the output of a network without a classifier
    blocks: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    """Outputs of the blocks, by name."""
    head: Head | None = None
    """Last linear layer; None if there is no single one, or no network."""
    means: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    """By block, its output averaged over all positions: [B, C] float64."""
    grams: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    """By block, the row sums of its Gram matrices of five orders: [B, 5, C] float64."""
    members: Tensor | None = None
    """Logits of an ensemble's members, [B, M, C]."""
    grids: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    """By block, its output averaged over each field of a 4×4 grid: [B, 16·C]."""

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, part: slice | Tensor) -> Activations:
        return self._map_rows(lambda rows: rows[part])

    def to(self, device: torch.device) -> Activations:
        """Return a copy on another device."""
        moved = self._map_rows(lambda rows: rows.to(device))
        return dataclasses.replace(moved, head=self.head and self.head.to(device))

    def _map_rows(self, change: Callable[[Tensor], Tensor]) -> Activations:
        """Return a copy with `change` applied to every table of rows."""
        tables = {kind: {name: change(rows) for name, rows in getattr(self, kind).items()} for kind in PER_BLOCK}
        members = None if self.members is None else change(self.members)
        return Activations(change(self.logits), change(self.features), head=self.head, members=members, **tables)

    def last_layer(self, name: str) -> Head:
        """Return the head. Raise an error that names the detector if there is none."""
        if self.head is None:
            raise ValueError(
                f"{name} reads the network's last linear layer, and there is none: an ensemble has no single one, and "
                "a network without a classifier has none (to activations of your own, add head=network.head)"
            )
        return self.head

    def chunks(self, size: int = ROWS) -> Iterator[Activations]:
        """Iterate over the rows in order, `size` at a time, so that work on a long table needs little memory."""
        return (self[part] for part in chunks(len(self), size))


Split = Literal["train", "val"]
Summary = dict[str, Tensor]
"""Summary of all rows that a reduction keeps: tensors by name."""


class Reduction(ABC):
    """Fit to a long training split of which only some rows and one small summary are kept.

    Parts of the split are summarized where they are computed, and their summaries merged in any order: so `merge` must
    be exact, as minima, maxima, counts and unions are. (Sums of floats are not: their last bits depend on the order.)
    The result must equal that of `fit` on the table of all rows, which `PostHoc.fit_reduced` guarantees.
    """

    rows: NDArray[np.int64]
    """Indices of the rows to keep, in order; they are known before any row is computed."""

    def summarize(self, start: int, part: Activations) -> Summary:
        """Return the summary of a part of the split that starts at this row; by default there is none."""
        return {}

    def merge(self, first: Summary, second: Summary) -> Summary:
        """Return the summary of two parts together."""
        return first

    @abstractmethod
    def fit(self, rows: Activations, summary: Summary) -> None:
        """Fit the detector from the kept rows and the summary of all rows."""


@dataclasses.dataclass(kw_only=True)
class PostHoc(Component, ABC):
    """Detector that reads activations. Hyper-parameters are its fields; `fit` puts what it learns into `state`.

    Scores are float64 and larger = more outlying.
    """

    fits_on: ClassVar[Split | None] = None
    """Inlier split that `fit` reads; None if there is nothing to fit."""
    compares_classes: ClassVar[bool] = False
    """True if `fit` needs images of several classes."""
    supervised: ClassVar[bool] = False
    """True if it can also learn from outliers, by `supervise`; without outliers, `fit` must suffice."""
    state: dict[str, Tensor] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def needs(self) -> frozenset[str]:
        """Activations that it reads: "logits", "features", "head", "members", "blocks", "means", "grids" or "grams".

        A class for which they are constant sets `needs: ClassVar[frozenset[str]] = frozenset({"features"})` instead.
        """
        return frozenset({"logits"})

    def check_fit(self, total: int, labeled: bool) -> None:
        """Raise if `fit` cannot work on so many images; called before they pass the network."""

    def check_network(self, activations: Activations) -> None:
        """Raise if it cannot read such a network; called before the run with the activations of a few images."""

    def fit(self, activations: Activations, labels: Tensor | None) -> Self:
        """Fit to inliers; a second fit replaces the first."""
        return self

    def reduction(self, total: int, labels: Tensor | None) -> Reduction | None:
        """Return how it is fitted without the table of all `total` rows; by default None: `fit` gets the table.

        Called after `check_fit`. Only fits on the train split are reduced: the val split is scored from its table.
        """
        return None

    def fit_reduced(self, activations: Activations, labels: Tensor | None) -> Self:
        """Fit by `reduction` to a table: an implementation of `fit` for a detector that always has a reduction."""
        reduction = self.reduction(len(activations), labels)
        assert reduction is not None
        parts = ((part.start, activations[part]) for part in chunks(len(activations), ROWS))
        summaries = (reduction.summarize(start, part) for start, part in parts)
        summary = functools.reduce(reduction.merge, summaries)
        reduction.fit(activations[torch.from_numpy(reduction.rows)], summary)
        return self

    def supervise(self, inliers: Activations, outliers: Activations) -> None:
        """Learn to tell outliers from inliers, after `fit`, from activations of the kind that `score` gets."""
        raise NotImplementedError(f"{type(self).__name__} must define supervise, or set supervised = False")

    @property
    def perturbs(self) -> bool:
        """True if it perturbs images: then `score` gets the activations of `perturbed_pass`; `fit` never does."""
        return False

    def perturbed_pass(self, network: Network, images: Tensor) -> Activations:
        """Return the activations of its own passes over perturbed images; the network is in evaluation mode."""
        activations: Activations = network(images, needs=self.needs)
        return activations

    @abstractmethod
    def score(self, activations: Activations) -> Tensor:
        """Return the score of every row, [B] float64."""

    def fitted(self, key: str) -> Tensor:
        """Return an entry of `state`. Raise `NotFitted` if `fit` has not set it."""
        if key not in self.state:
            raise NotFitted(f"{self.name} is not fitted: call fit on the inliers' {self.fits_on} split first")
        return self.state[key]


class Detector(Named):
    """Detector that reads images. Subclasses define `score`, and `fit` if there is something to learn."""

    def fit(self, images: ImageSet) -> None:
        """Fit to inliers; a second fit replaces the first.

        `fit(train, *, val=None, outliers=None, auxiliary_outliers=None, seed=0)` gets the arguments that it names: the
        validation split, the study's validation_outliers and auxiliary_outliers, and a seed. A study fits once and
        stores the tensors, arrays, modules, numbers and texts among the object's attributes, or its `state_dict`, for
        all processes.
        """

    def score(self, images: Tensor) -> Tensor:
        """Return the score of every image [B, C, H, W] in [0, 1]: [B], larger = more outlying."""
        raise NotImplementedError(f"{type(self).__name__} must define score(images) -> one score per image")


Params = Mapping[str, Tensor]
"""Random parameters of a shift by name: of one image, or of a batch along the first dimension."""


@dataclasses.dataclass(kw_only=True)
class Shift(Component, ABC):
    """Change that keeps an image's meaning: a corruption or an augmentation. Settings are its fields.

    `shift(images, seed)` rounds its input to 8-bit values. The result for an image depends on the seed and on the
    image's index, not on its batch: `apply` must return the same bytes for an image in any batch, so it adds up in a
    fixed order and uses no function whose last bit depends on the memory address.
    """

    random: ClassVar[bool] = True
    """True if it draws random numbers; if not, `sample` is not called and `apply` gets no params."""

    def sample(self, shape: Sequence[int], rng: torch.Generator) -> Params:
        """Return all random parameters of the shift of one image of this shape (C, H, W)."""
        raise NotImplementedError(f"{type(self).__name__} must define sample, or set random = False")

    @abstractmethod
    def apply(self, images: Tensor, params: Params) -> Tensor:
        """Return the shifted images, on the same device, from the parameters that were drawn for each of them."""

    @overload
    def __call__(self, images: ImageSet, seed: int = 0) -> ImageSet: ...
    @overload
    def __call__(self, images: Any, seed: int = 0, indices: Iterable[int] | None = None) -> Tensor: ...
    @torch.no_grad()
    def __call__(self, images: Any, seed: int = 0, indices: Iterable[int] | None = None) -> Any:
        """Return the shifted images [B, C, H, W] as float32; `indices` of the images are 0 to B − 1 by default.

        For an `ImageSet`, return a set whose images are shifted on demand.
        """
        if isinstance(images, ImageSet):
            from farout.data.shifted import Shifted

            return Shifted(images, self, seed)
        images = as_images(images, images.device if isinstance(images, Tensor) else "cpu").contiguous()
        order = range(len(images)) if indices is None else list(indices)
        if len(order) != len(images):
            raise ValueError(f"got {len(order)} indices for {len(images)} images, expected one each")
        shifted = torch.empty_like(images)
        for part in chunks(len(images), max(1, SHIFTED_AT_ONCE // max(1, images.shape[1:].numel()))):
            read = images[part].mul(255).round_().clamp_(0, 255).div_(255)
            shifted[part] = self.apply(read, self._draw(read, order[part], seed))
        return shifted

    def _draw(self, images: Tensor, indices: Sequence[int], seed: int) -> Params:
        """Return the stacked random parameters of these images."""
        if not self.random:
            return {}
        settings = canonical(self.params)
        drawn = [self.sample(images.shape[1:], rng.generator(seed, self.name, settings, index)) for index in indices]
        return {name: torch.stack([one[name] for one in drawn]).to(images.device) for name in drawn[0]}

    @property
    def label(self) -> str:
        """Name in tables, with the severity if there is one."""
        return f"{self.name} {self.params['severity']}" if "severity" in self.params else self.name

    def identity(self) -> dict[str, Any]:
        """Return everything that the shifted images depend on, apart from the images, their indices and the seed."""
        return {"name": self.name, "version": self.version, **self.params, **own_identity(self)}
