"""Image sets over tar archives in WebDataset's layout, read at random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.data.pixels import Unreadable
from farout.data.shard_entries import ShardEntries
from farout.data.tar_index import read_index


class TarEntries(ShardEntries):
    """Images in tar archives, each read from its place in the file."""

    def __init__(self, paths: Sequence[Path]) -> None:
        indexes = [read_index(path) for path in paths]
        names = [bytes(index["names"]).decode("utf-8", "surrogateescape").split("\0") for index in indexes]
        super().__init__(paths, [len(part) for part in names], [name for part in names for name in part])
        self.offsets, self.sizes = [index["offsets"] for index in indexes], [index["sizes"] for index in indexes]
        self.labels = join_labels(paths, [index["labels"] for index in indexes])

    def read_shard(self, owner: int, rows: NDArray[np.int64]) -> list[bytes]:
        found = list[bytes]()
        with self.paths[owner].open("rb") as file:
            for offset, size in zip(self.offsets[owner][rows].tolist(), self.sizes[owner][rows].tolist(), strict=True):
                file.seek(offset)
                found.append(file.read(size))
                if len(found[-1]) < size:
                    raise Unreadable(f"{self.paths[owner]} ends at byte {offset + len(found[-1]):,}; write it again")
        return found


def join_labels(paths: Sequence[Path], labels: Sequence[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    """Return the labels of all shards; None if no shard has any."""
    without = [path for path, known in zip(paths, labels, strict=True) if not len(known)]
    if without and len(without) < len(paths):
        raise ValueError(
            f"{len(without):,} of {len(paths):,} shards have no labels, such as {without[0]}; expected labels in all "
            "of them, or in none"
        )
    return None if without else np.concatenate(labels)
