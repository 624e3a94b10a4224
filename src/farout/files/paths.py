"""Paths that lead through no symbolic link, and checksums.

Folders of results may come from somebody else. Every function that takes a `root` refuses, by name, a symbolic link at
or above the path as far up as `root`; the root itself is the user's choice and may be one. Without a root it is the
path's folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class UnsafePath(OSError):
    """A symbolic link inside a folder of results, or something else there that is neither file nor folder."""


def below(path: Path, root: Path | None = None) -> Path:
    """Return the path; an error names the first symbolic link between `root` and it."""
    root = path.parent if root is None else root
    place = root
    for part in path.relative_to(root).parts:
        place = place / part
        if part == "..":
            raise UnsafePath(f"{path} leads out of {root}; expected a path inside it")
        mode = mode_of(place)
        if mode is None:
            break
        if stat.S_ISLNK(mode):
            raise UnsafePath(
                f"{place} is a symbolic link, and nothing inside {root} may be one: it could lead anywhere; remove it, "
                "or choose another folder with --out"
            )
    return path


def present(path: Path, root: Path | None = None) -> bool:
    """Return True where there is a regular file; an error where there is something else."""
    mode = mode_of(below(path, root))
    if mode is not None and not stat.S_ISREG(mode):
        raise UnsafePath(f"{path} is no regular file; expected a file, or nothing: remove it")
    return mode is not None


def has_size(path: Path, size: int, root: Path | None = None) -> bool:
    """Return True where there is a file of so many bytes; a file of another size is damaged."""
    return present(path, root) and path.stat().st_size == size


def mode_of(path: Path) -> int | None:
    """Return the kind and rights of what is there, a symbolic link by itself; None where there is nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def make_folder(path: Path, root: Path) -> Path:
    """Make a folder, with its parents, unless it is there."""
    below(path, root).mkdir(parents=True, exist_ok=True)
    return path


def files_in(folder: Path, root: Path | None = None) -> Iterator[Path]:
    """Yield the files of a folder and of its sub-folders; none where there is no folder."""
    mode = mode_of(below(folder, root))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name) if mode and stat.S_ISDIR(mode) else ():
        path = folder / entry.name
        if entry.is_symlink():
            below(path)
        if entry.is_dir(follow_symlinks=False):
            yield from files_in(path)
        else:
            yield path


def remove_tree(folder: Path, root: Path | None = None) -> None:
    """Remove a folder with all that is in it; nothing is removed where a symbolic link is among it."""
    for _ in files_in(folder, root):
        pass
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def opened(path: Path, root: Path | None = None, flags: int = os.O_RDONLY) -> Iterator[BinaryIO]:
    """Open a regular file; a pipe or a device is refused before anything is read from it."""
    present(path, root)
    handle = os.open(path, flags | NO_FOLLOW)
    with os.fdopen(handle, "r+b" if flags & os.O_RDWR else "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnsafePath(f"{path} is no regular file; remove it")
        yield file


def sha256(path: Path, root: Path | None = None) -> str:
    """Return the checksum of a file, read piece by piece."""
    checksum = hashlib.sha256()
    with opened(path, root) as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    return checksum.hexdigest()
