"""Survey of encoded images: hash and size of every image, read once before a long run and then cached."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.data.entries import Entries
from farout.data.kept import Arrays, kept
from farout.data.pixels import Unreadable, probe
from farout.progress import task
from farout.tensors import chunks

_VERSION = 3
_SHOWN = 5
_AT_ONCE = 256
"""Images that are read at a time."""


@dataclasses.dataclass(frozen=True)
class Survey:
    """Hash of the bytes of every image, and its width and height."""

    hashes: NDArray[np.uint8]  # [N, 32]
    sizes: NDArray[np.int64]  # [N, 2]

    def select(self, selected: NDArray[np.int64]) -> Survey:
        """Return the survey of some of the images."""
        return Survey(self.hashes[selected], self.sizes[selected])


def survey(entries: Entries, name: str) -> Survey:
    """Return the survey of these images; raise an error that lists images that cannot be read.

    The survey is cached under the stamps of all files, so that a changed file is read again.
    """
    files = entries.files()
    return Survey(**kept("surveys", [_VERSION, entries.key], files, lambda: _read(entries, name)))


def _read(entries: Entries, name: str) -> Arrays:
    total, bad = len(entries), dict[int, Unreadable]()
    hashes, sizes = np.empty((total, 32), np.uint8), np.empty((total, 2), np.int64)

    def look(index: int, image: Path | bytes) -> None:
        try:
            found, *size = probe(image)
            hashes[index], sizes[index] = np.frombuffer(found, np.uint8), size
        except Unreadable as error:
            bad[index] = error

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool, task(f"checking {name}", total, "files") as count:
        for part in chunks(total, _AT_ONCE):
            indices = np.arange(part.start, part.stop)
            list(pool.map(look, indices.tolist(), entries.read(indices)))
            count(len(indices))
    if bad:
        listed = "\n".join(f"  {entries.names[index]}: {bad[index]}" for index in sorted(bad)[:_SHOWN])
        more = f"\n  and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        count_of = f"{len(bad):,} of {total:,} images in {entries.place}"
        raise Unreadable(f"{name}: {count_of} cannot be read; replace or remove them:\n{listed}{more}")
    return {"hashes": hashes, "sizes": sizes}
