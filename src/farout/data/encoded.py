"""Image sets over encoded images (PNG, JPEG, …), which are decoded when a batch is read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from farout.core import ImageSet
from farout.data.arrays import as_floats
from farout.data.entries import Entries
from farout.data.pixels import Unreadable, decode
from farout.data.procedural import check_at_least
from farout.data.sizes import one_size
from farout.data.survey import Survey, survey
from farout.identity import digest, digest_arrays
from farout.tensors import as_indices


class EncodedSet(ImageSet):
    """Encoded images, decoded when a batch is read; see `farout.data.pixels.decode`.

    `crop` cuts a square of that many pixels out of the center. `side` then resizes the shorter side to that many pixels
    and cuts out the central square. Without both, all images must have one size. Every image is read once for the
    survey: when the fingerprint (or, without both, the shape) is first needed, or `check` is called.
    """

    version = 1
    """Bumped by hand when the same files give other pixels."""

    def __init__(
        self,
        entries: Entries,
        labels: ArrayLike | None = None,
        *,
        name: str,
        classes: tuple[str, ...] = (),
        side: int | None = None,
        crop: int | None = None,
        channels: int = 3,
        attributes: Mapping[str, NDArray[Any]] = MappingProxyType({}),
    ) -> None:
        if channels not in (1, 3):
            raise ValueError(f"{name}: channels must be 1 (gray) or 3 (color), got {channels!r}")
        self.entries, self.name, self.classes = entries, name, classes
        self.side = None if side is None else check_at_least(side, 1, f"{name}: side")
        self.crop = None if crop is None else check_at_least(crop, 1, f"{name}: crop")
        self.channels = channels
        self.labels = None if labels is None else np.asarray(labels, np.int64)
        self.attributes = dict(attributes)
        self._index = np.arange(len(entries))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def index(self) -> NDArray[np.int64]:
        return self._index

    @cached_property
    def shape(self) -> tuple[int, int, int]:  # type: ignore[override]
        if side := self.side or self.crop:
            return self.channels, side, side
        if not len(self):
            raise ValueError(f"{self.name}: no images, so no shape; pass side= for an empty set")
        width, height = one_size(self.check().sizes.tolist(), self.name)
        return self.channels, height, width

    def batch(self, indices: ArrayLike) -> Tensor:
        selected = as_indices(indices, len(self))
        images = [
            decode(image, self.side, self.channels, self.crop, partial(self.entries.where, index))
            for index, image in zip(selected.tolist(), self.entries.read(selected), strict=True)
        ]
        pixels = np.stack(images) if images else np.empty((0, *self.shape), np.uint8)
        return as_floats(pixels)

    def check(self) -> Survey:
        """Return the survey of all images; raise an error if some cannot be read or are too small."""
        if self.crop is not None:
            self._check_crop(self.crop)
        return self._survey

    def subset(self, indices: ArrayLike, name: str | None = None) -> Self:
        selected, part = as_indices(indices, len(self)), copy.copy(self)
        for known in ("fingerprint", "shape"):
            part.__dict__.pop(known, None)
        part.entries, part.name, part._index = self.entries.select(selected), name or self.name, self._index[selected]
        part.labels = None if self.labels is None else self.labels[selected]
        part.attributes = {what: values[selected] for what, values in self.attributes.items()}
        if "_survey" in part.__dict__:
            part._survey = self._survey.select(selected)
        return part

    @cached_property
    def _survey(self) -> Survey:
        return survey(self.entries, self.name)

    def _check_crop(self, crop: int) -> None:
        sizes = self._survey.sizes
        small = np.flatnonzero((sizes < crop).any(1))
        if len(small):
            width, height = sizes[small[0]]
            raise Unreadable(
                f"{self.name}: {len(small):,} of {len(self):,} images are smaller than crop={crop}, such as "
                f"{self.entries.names[small[0]]} ({width}×{height}); use a smaller crop, or remove them"
            )

    def _fingerprint(self) -> str:
        """Return the hash of names, labels and encoded images; the same wherever these are stored."""
        labels = np.empty(0, np.int64) if self.labels is None else self.labels
        content = digest_arrays([("hashes", self.check().hashes), ("labels", labels), *self.attributes.items()])
        cut = [] if self.crop is None else [{"crop": self.crop}]
        names = list(self.entries.names)
        return digest([self.version, self.side, self.channels, list(self.classes), names, content, *cut])
