"""Images in shards: files that hold many encoded images each."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from farout.data.entries import Entries
from farout.data.mapped import check_stamp, stamp_of
from farout.data.stamps import Files
from farout.identity import Json, digest_arrays


class ShardEntries(Entries):
    """Images of several shards, one shard after the other."""

    def __init__(self, paths: Sequence[Path], counts: Sequence[int], names: Sequence[str]) -> None:
        self.paths, self.names = tuple(paths), tuple(names)
        self.place = paths[0] if len(paths) == 1 else paths[0].parent
        self.stamps = [stamp_of(path) for path in paths]
        self.owner = np.repeat(np.arange(len(paths)), counts)
        self.row = np.concatenate([np.arange(count) for count in counts])
        self._selected: NDArray[np.int64] | None = None

    def read(self, indices: NDArray[np.int64]) -> list[bytes]:
        found, owners = [b""] * len(indices), self.owner[indices]
        for owner in np.unique(owners).tolist():
            check_stamp(self.paths[owner], self.stamps[owner])
            mine = np.flatnonzero(owners == owner)
            for place, image in zip(mine.tolist(), self.read_shard(owner, self.row[indices[mine]]), strict=True):
                found[place] = image
        return found

    @abstractmethod
    def read_shard(self, owner: int, rows: NDArray[np.int64]) -> Sequence[bytes]:
        """Return images of one shard."""

    def where(self, index: int) -> str:
        return f"{self.paths[self.owner[index]]}: {self.names[index]}"

    def select(self, indices: NDArray[np.int64]) -> Self:
        part = copy.copy(self)
        part.names = tuple(self.names[index] for index in indices.tolist())
        part.owner, part.row = self.owner[indices], self.row[indices]
        part._selected = indices if self._selected is None else self._selected[indices]
        return part

    def files(self) -> Files:
        folder = self.paths[0].parent
        same = all(path.parent == folder for path in self.paths)
        return Files.at(folder if same else Path(), [path.name if same else str(path) for path in self.paths])

    @property
    def key(self) -> Json:
        return [] if self._selected is None else [digest_arrays([("selected", self._selected)])]
