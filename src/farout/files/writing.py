"""Files written as a whole: under a temporary name that tells its writer, and renamed once they are on disk.

A temporary that a killed process has left is removed when that process is proven dead. Whether a process of another
machine, or of this one before it was last started, is dead cannot be proven: its temporaries are removed after a day.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from farout.files.owners import Owner, gone
from farout.files.paths import below, mode_of, opened, present, remove_tree

_LARGEST_JSON = 1 << 28
ABANDONED = 24 * 3600.0
"""Seconds after which a temporary is taken for abandoned, where its writer cannot be asked."""
_TRIES = 10


def read_json(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file; an error names the file where it is damaged."""
    with opened(path, root) as file:
        content = file.read(_LARGEST_JSON + 1)
    if len(content) > _LARGEST_JSON:
        raise ValueError(f"{path} is larger than {_LARGEST_JSON >> 20} MB, which is more than we ever write")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged or no JSON ({error})") from error


def write_json(path: Path, value: Any, root: Path | None = None) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=1) + "\n", root)


def write_text(path: Path, text: str, root: Path | None = None) -> None:
    """Write a text file atomically."""
    with whole(path, root) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def whole(path: Path, root: Path | None = None) -> Iterator[Path]:
    """Yield a temporary name to write to; the file is renamed when it is whole and on disk."""
    with all_whole([path], root) as [temporary]:
        yield temporary


@contextmanager
def all_whole(paths: Sequence[Path], root: Path | None = None) -> Iterator[list[Path]]:
    """Yield temporary names to write to; the files are renamed when all of them are whole and on disk."""
    for path in paths:
        present(path, root)
    temporary = [hidden(path) for path in paths]
    try:
        with _disk_errors(paths[0] if paths else Path()):
            yield temporary
        sync(temporary)
        for file, path in zip(temporary, paths, strict=True):
            file.replace(path)
    finally:
        for file in temporary:
            file.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path, root: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `path` if all goes well, and vanishes if not."""
    temporary = hidden(below(path, root))
    temporary.mkdir(parents=True)
    try:
        with _disk_errors(path):
            yield temporary
        sync([*temporary.iterdir(), temporary])
        _replace(temporary, path, root)
        sync([path.parent])
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, path: Path, root: Path | None) -> None:
    """Put a folder in the place of another; of several writers the last one wins."""
    for attempt in range(_TRIES):
        remove_tree(path, root)
        try:
            temporary.rename(path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == _TRIES - 1:
                raise


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Raise a full disk as an OSError that names the file; safetensors has an error of its own for it."""
    try:
        yield
    except SafetensorError as error:
        if "os error" not in str(error):
            raise
        raise OSError(f"cannot write {path}: {str(error).removeprefix('Error while serializing: ')}") from error
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error


def sync(paths: Iterable[Path]) -> None:
    """Put files on disk; many small ones take a tenth of the time when the system is asked for them at once."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hidden(path: Path) -> Path:
    """Return a name beside `path` that nobody else uses and no reader looks at; it tells who writes there."""
    return path.with_name(f".{path.name}-{Owner.current()}-{uuid.uuid4().hex}")


def is_hidden(path: Path) -> bool:
    """Return True for a name that `hidden` makes; other hidden files and folders are the user's."""
    return re.fullmatch(r"\..+-[0-9a-f]{32}", path.name) is not None


def remove_hidden(folder: Path, root: Path | None = None, *, folders: bool = False, locked: bool = False) -> None:
    """Remove the temporary files, or also folders, whose writers are gone; links stay.

    locked: nobody else can be writing there, so that all of them are left over.
    """
    for path in filter(is_hidden, sorted(below(folder, root).iterdir())):
        mode = mode_of(path) or 0
        if not locked and not gone(path, Owner.parse(path.name.split("-")[-2]), ABANDONED):
            continue
        if stat.S_ISDIR(mode) and folders:
            remove_tree(path)
        elif stat.S_ISREG(mode):
            path.unlink(missing_ok=True)
