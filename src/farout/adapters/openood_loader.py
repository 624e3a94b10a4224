"""Data loaders in OpenOOD's format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import ImageSet
from farout.tensors import chunks


class Loader:
    """Data loader of an image set in OpenOOD's format: dicts with "data", "data_aux" and "label"; iterable repeatedly.

    normalize: preprocessing of the images for the net. name: the post-processor's name, for errors.
    """

    def __init__(self, images: ImageSet, batch_size: int, normalize: Callable[[Tensor], Tensor], name: str) -> None:
        self.dataset, self.batch_size = images, batch_size
        self._normalize, self._name = normalize, name

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self) -> Batches:
        return Batches(self)

    def batch(self, part: slice) -> dict[str, Tensor]:
        """Return the images of this part of the set and their labels."""
        data = self._normalize(self.dataset.batch(np.arange(part.start, part.stop)))
        missing = f"{self._name} fits on labeled images, and {self.dataset.name!r} has no {{}}"
        batch = RaisingDict(missing, data=data, data_aux=data)
        if self.dataset.labels is not None:
            batch["label"] = torch.from_numpy(self.dataset.labels[part])
        return batch


class Batches(Iterator[dict[str, Tensor]]):
    """Iterator over a loader, with a length, which some post-processors use."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._parts = chunks(len(loader.dataset), loader.batch_size)

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> dict[str, Tensor]:
        return self._loader.batch(next(self._parts))


class RaisingDict(dict[str, Any]):
    """Dict that raises an error with a message for missing keys; the message may contain the key."""

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(**values)
        self.message = message

    def __missing__(self, key: str) -> Any:
        raise ValueError(self.message.format(key))
