"""Paths without symbolic links, and checksums.

Folders of results may come from somebody else. Every function with a parameter `root` raises an error that names any
symbolic link between `root` and the path, the path included; the root itself is the user's choice and may be a link.
By default, the root is the path's folder.
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
    """A path in a folder of results is a symbolic link, or neither a file nor a folder."""


def check_path(path: Path, root: Path | None = None) -> Path:
    """Return the path. Raise `UnsafePath` for a symbolic link or ".." between `root` and the path."""
    root = path.parent if root is None else root
    current = str(root)
    for part in _below(path, root):
        current = f"{current}{os.sep}{part}"
        if part == "..":
            raise UnsafePath(f"{path} leads out of {root}; expected a path inside it")
        mode = mode_of(current)
        if mode is None:
            break
        if stat.S_ISLNK(mode):
            raise UnsafePath(
                f"{current} is a symbolic link, which could lead anywhere; expected only files and folders inside "
                f"{root}: remove it, or choose another folder with --out"
            )
    return path


def _below(path: Path, root: Path) -> tuple[str, ...]:
    """Return the parts of a path below the root, as `relative_to` does, which is many times slower."""
    depth = len(root.parts)
    return path.parts[depth:] if path.parts[:depth] == root.parts else path.relative_to(root).parts


def has_file(path: Path, root: Path | None = None) -> bool:
    """Return True if there is a regular file, False if there is nothing. Raise `UnsafePath` for anything else."""
    mode = mode_of(check_path(path, root))
    if mode is not None and not stat.S_ISREG(mode):
        raise UnsafePath(f"{path} is not a regular file; expected a file, or nothing: remove it")
    return mode is not None


def has_size(path: Path, size: int, root: Path | None = None) -> bool:
    """Return True if there is a file of exactly `size` bytes."""
    return has_file(path, root) and path.stat().st_size == size


def mode_of(path: Path | str) -> int | None:
    """Return the mode bits of a path without following a symbolic link; None if nothing is there."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def make_folder(path: Path, root: Path) -> Path:
    """Create a folder and its parents, if they do not exist, and return it."""
    check_path(path, root).mkdir(parents=True, exist_ok=True)
    return path


def files_in(folder: Path, root: Path | None = None) -> Iterator[Path]:
    """Yield the files of a folder and of its subfolders; nothing if there is no folder, or no longer one."""
    check_path(folder, root)
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = folder / entry.name
        if entry.is_symlink():
            check_path(path)
        if entry.is_dir(follow_symlinks=False):
            yield from files_in(path)
        else:
            yield path


def remove_tree(folder: Path, root: Path | None = None) -> None:
    """Remove a folder with its content. Raise `UnsafePath`, and remove nothing, if it contains a symbolic link."""
    for _ in files_in(folder, root):
        pass
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_file(path: Path, root: Path | None = None, flags: int = os.O_RDONLY) -> Iterator[BinaryIO]:
    """Open a regular file. Raise `UnsafePath` for a pipe or a device before anything is read from it."""
    has_file(path, root)
    handle = os.open(path, flags | NO_FOLLOW)
    with os.fdopen(handle, "r+b" if flags & os.O_RDWR else "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnsafePath(f"{path} is not a regular file; remove it")
        yield file


def sha256(path: Path, root: Path | None = None) -> str:
    """Return the SHA-256 checksum of a file, read in pieces."""
    checksum = hashlib.sha256()
    with open_file(path, root) as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    return checksum.hexdigest()
