"""One look at every file of a folder before the long work starts; remembered, so that the next look is free."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.data.download import cache_folder
from farout.data.pixels import Unreadable, probe
from farout.files import whole
from farout.identity import digest
from farout.progress import track

_VERSION = 1
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of every file: hash of its bytes, and the image's width and height."""

    hashes: NDArray[np.uint8]  # [N, 32]
    sizes: NDArray[np.int64]  # [N, 2]


def survey(root: Path, files: Sequence[str], name: str) -> Survey:
    """Read every file once; an error lists what cannot be read.

    The answer is kept in the cache folder under a hash of the root and every file's relative path, size and times of
    change, so that a changed file is read again.
    """
    place = cache_folder() / "surveys" / f"{digest([_VERSION, str(root.resolve()), _stats(root, files)])}.npz"
    known = _recall(place, len(files))
    if known is None:
        known = _look(root, files, name)
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            _remember(place, known)
    return known


def _stats(root: Path, files: Sequence[str]) -> list[tuple[str, int, int, int]]:
    stats = ((file, (root / file).stat()) for file in files)
    return [(file, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for file, stat in stats]


def _look(root: Path, files: Sequence[str], name: str) -> Survey:
    def one(file: str) -> tuple[bytes, int, int] | Unreadable:
        try:
            return probe(root / file)
        except Unreadable as error:
            return error

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = list(track(pool.map(one, files), len(files), f"checking {name}", "files"))
    bad = [(file, one) for file, one in zip(files, found, strict=True) if isinstance(one, Unreadable)]
    if bad:
        listed = "\n".join(f"  {file}: {error}" for file, error in bad[:_SHOWN])
        more = f"\n  and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        count = f"{len(bad):,} of {len(files):,} images in {root}"
        raise Unreadable(f"{name}: {count} cannot be read; replace or remove them:\n{listed}{more}")
    good = [one for one in found if not isinstance(one, Unreadable)]
    hashes = np.frombuffer(b"".join(one[0] for one in good), np.uint8).reshape(-1, 32)
    return Survey(hashes, np.array([one[1:] for one in good], np.int64).reshape(-1, 2))


def _recall(place: Path, total: int) -> Survey | None:
    try:
        with np.load(place, allow_pickle=False) as file:
            known = Survey(file["hashes"], file["sizes"])
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return known if known.hashes.shape == (total, 32) and known.sizes.shape == (total, 2) else None


def _remember(place: Path, known: Survey) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole(place) as temporary, temporary.open("wb") as file:
        np.savez(file, hashes=known.hashes, sizes=known.sizes)
