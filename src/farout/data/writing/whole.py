"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to; the file takes its own name when it is whole."""
    with all_whole([path]) as [temporary]:
        yield temporary


@contextmanager
def all_whole(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Names to write to; the files take their own names when all of them are whole."""
    temporary = [hidden(path) for path in paths]
    try:
        yield temporary
        sync(temporary)
        for file, path in zip(temporary, paths, strict=True):
            file.replace(path)
    finally:
        for file in temporary:
            file.unlink(missing_ok=True)


def sync(paths: Iterable[Path]) -> None:
    """Have the system put files on disk; many small ones take a tenth of the time when it is asked for them at once."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def has_size(path: Path, size: int) -> bool:
    """Is there a file of so many bytes? What a damaged disk has left of one is as good as none."""
    return path.is_file() and path.stat().st_size == size


def hidden(path: Path) -> Path:
    """A name beside `path` that nobody else uses and no reader looks at."""
    return path.with_name(f".{path.name}-{uuid.uuid4().hex}")


def remove_hidden(folder: Path) -> None:
    """Remove the files of such names that runs which were killed have left in a folder."""
    for path in filter(is_hidden, folder.iterdir()):
        path.unlink(missing_ok=True)


def is_hidden(path: Path) -> bool:
    """Is it a file of such a name? Other hidden files and folders are the user's."""
    named = re.fullmatch(r"\..+-[0-9a-f]{32}", path.name) is not None
    return named and path.is_file() and not path.is_symlink()


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a manifest."""
    with whole(path) as temporary:
        temporary.write_text(json.dumps(facts, indent=2) + "\n")


def read_facts(path: Path) -> dict[str, Any]:
    """What a manifest says; an error where that cannot be known."""
    try:
        facts = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read ({error}), so it is unknown which set lies beside it; delete both, or choose "
            "another folder with --out"
        ) from error
    return facts if isinstance(facts, dict) else {}


def write_npy(path: Path, shape: Sequence[int], blocks: Iterable[bytes]) -> None:
    """Write 8-bit values of this shape, given piece by piece, as an .npy file."""
    with whole(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, _header(shape))
        file.writelines(blocks)


def write_npz(
    path: Path,
    shape: Sequence[int],
    blocks: Iterable[bytes],
    others: Mapping[str, NDArray[np.int64]],
    compress: bool = False,
) -> None:
    """Write an .npz file with `images` of this shape, given piece by piece, and other arrays beside them."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with whole(path) as temporary, zipfile.ZipFile(temporary, "w", method, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, _header(shape))
            file.writelines(blocks)
        for name, values in others.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, values)


def _header(shape: Sequence[int]) -> dict[str, Any]:
    return {"descr": "|u1", "fortran_order": False, "shape": tuple(shape)}
