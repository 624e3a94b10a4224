"""Survey of image files: hash and size of every file, read once before a long run and then cached."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.data.cache import cache_folder
from farout.data.pixels import Unreadable, probe
from farout.data.stamps import Files
from farout.files import atomic_file
from farout.identity import digest
from farout.progress import track

_VERSION = 2
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Survey:
    """Hash of the bytes of every file, and width and height of every image."""

    hashes: NDArray[np.uint8]  # [N, 32]
    sizes: NDArray[np.int64]  # [N, 2]


def survey(root: Path, files: Sequence[str], name: str) -> Survey:
    """Return the survey of these files; raise an error that lists files that cannot be read.

    The survey is cached under a hash of the stamps of all files (see `farout.data.stamps`), so that a changed file is
    read again.
    """
    known = Files.at(root, files)
    path = cache_folder() / "surveys" / f"{digest([_VERSION, known.stamps])}.npz"
    result = _read_cache(path, len(files)) if known.settled else None
    if result is None:
        result = _read_files(root, files, name)
        if not known.unchanged:
            return result
        with contextlib.suppress(OSError):  # without a cache the files are read again next time
            _write_cache(path, result)
    return result


def _read_files(root: Path, files: Sequence[str], name: str) -> Survey:
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


def _read_cache(path: Path, total: int) -> Survey | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            result = Survey(file["hashes"], file["sizes"])
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return result if result.hashes.shape == (total, 32) and result.sizes.shape == (total, 2) else None


def _write_cache(path: Path, result: Survey) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, hashes=result.hashes, sizes=result.sizes)
