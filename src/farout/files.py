"""Files: atomic writes, checksums, locks, and paths that lead through no symbolic link.

Folders of results may come from somebody else. Every function that takes a `root` refuses, by name, a symbolic link at
or above the path as far up as `root`; the root itself is the user's choice and may be one. Without a root it is the
path's folder.
"""

from __future__ import annotations

import hashlib
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
from typing import Any, BinaryIO

from safetensors import SafetensorError

_PIECE = 1 << 20
_LARGEST_JSON = 1 << 28
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


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
        mode = _mode(place)
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
    mode = _mode(below(path, root))
    if mode is not None and not stat.S_ISREG(mode):
        raise UnsafePath(f"{path} is no regular file; expected a file, or nothing: remove it")
    return mode is not None


def has_size(path: Path, size: int, root: Path | None = None) -> bool:
    """Return True where there is a file of so many bytes; a file of another size is damaged."""
    return present(path, root) and path.stat().st_size == size


def _mode(path: Path) -> int | None:
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
    mode = _mode(below(folder, root))
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
    handle = os.open(path, flags | _NO_FOLLOW)
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
        remove_tree(path, root)
        temporary.rename(path)
        sync([path.parent])
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    """Return a name beside `path` that nobody else uses and no reader looks at."""
    return path.with_name(f".{path.name}-{uuid.uuid4().hex}")


def is_hidden(path: Path) -> bool:
    """Return True for a name that `hidden` makes; other hidden files and folders are the user's."""
    return re.fullmatch(r"\..+-[0-9a-f]{32}", path.name) is not None


def remove_hidden(folder: Path, root: Path | None = None, *, folders: bool = False) -> None:
    """Remove the files, or also the folders, of such names that runs which were killed have left; links stay."""
    for path in filter(is_hidden, sorted(below(folder, root).iterdir())):
        mode = _mode(path) or 0
        if stat.S_ISDIR(mode) and folders:
            remove_tree(path)
        elif stat.S_ISREG(mode):
            path.unlink(missing_ok=True)


@contextmanager
def lock(path: Path, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file, made where there is none; BlockingIOError where another process holds it.

    The lock goes with the process, however it ends.
    """
    present(path, root)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666), "r+b") as file:
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
