"""Image sets as OpenOOD's data loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farout.core import ImageSet
from farout.tensors import chunks


class Loader:
    """A set as OpenOOD's loaders give it: dicts with "data", "data_aux" and "label", any number of times.

    seen: what the net sees of images. who: the post-processor's name, for errors.
    """

    def __init__(self, images: ImageSet, batch_size: int, seen: Callable[[Tensor], Tensor], who: str) -> None:
        self.dataset, self.batch_size = images, batch_size
        self._seen, self._who = seen, who

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self) -> Batches:
        return Batches(self)

    def batch(self, part: slice) -> dict[str, Tensor]:
        """The images of this part of the set and their labels."""
        data = self._seen(self.dataset.batch(np.arange(part.start, part.stop)))
        missing = f"{self._who} fits on labelled images, and {self.dataset.name!r} has no {{}}"
        batch = Answering(missing, data=data, data_aux=data)
        if self.dataset.labels is not None:
            batch["label"] = torch.from_numpy(self.dataset.labels[part])
        return batch


class Batches(Iterator[dict[str, Tensor]]):
    """Iterator over a loader; some post-processors ask it for its length."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._parts = chunks(len(loader.dataset), loader.batch_size)

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> dict[str, Tensor]:
        return self._loader.batch(next(self._parts))


class Answering(dict[str, Any]):
    """Dict whose missing keys are told in an error with the key in its place."""

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(**values)
        self.message = message

    def __missing__(self, key: str) -> Any:
        raise ValueError(self.message.format(key))
