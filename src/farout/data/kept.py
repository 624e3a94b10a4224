"""Facts of files that are arrays, such as their checksums: computed once, and kept in the cache folder by stamps."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.data.cache import cache_folder
from farout.data.stamps import Files
from farout.files import atomic_file
from farout.identity import Json, digest

Arrays = dict[str, NDArray[Any]]


def kept(kind: str, key: Json, files: Files, compute: Callable[[], Arrays]) -> Arrays:
    """Return arrays that follow from the files and the key: from the cache folder, else computed and kept there.

    See `farout.data.stamps` for when they are kept. Without a cache folder they are computed each time.
    """
    path = cache_folder() / kind / f"{digest([key, files.stamps])}.npz"
    if files.settled and (known := _read(path)) is not None:
        return known
    found = compute()
    if files.unchanged:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **found)  # type: ignore[arg-type]
    return found


def _read(path: Path) -> Arrays | None:
    """Return the arrays in a file; None if there is none, or it is damaged, which its checksums tell."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
