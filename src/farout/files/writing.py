"""Atomic writes: a file is written under a temporary name that identifies its writer, and renamed once it is on disk.

Temporary files that a killed process has left are removed when that process is known to be dead. For a process of
another machine, or of this one before its last boot, this is unknown: its temporary files are removed after a day.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from farout.files.owners import Owner, owner_ended
from farout.files.paths import check_path, files_in, has_file, mode_of, open_file, remove_tree

_LARGEST_JSON = 1 << 28
ABANDONED = 24 * 3600.0
"""Seconds after which a temporary file counts as abandoned if the state of its writer is unknown."""
_TRIES = 10
_UMASK = os.umask(0o077)
os.umask(_UMASK)


def read_json(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file. Raise ValueError with the file's name if it is not valid JSON."""
    with open_file(path, root) as file:
        content = file.read(_LARGEST_JSON + 1)
    if len(content) > _LARGEST_JSON:
        raise ValueError(
            f"{path} is larger than {_LARGEST_JSON >> 20} MB, expected a small JSON file that farout wrote"
        )
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged or not JSON ({error})") from error


def write_json(path: Path, value: Any, root: Path | None = None, *, durable: bool = True) -> None:
    """Write a JSON file atomically; see `atomic_files`."""
    write_text(path, json.dumps(value, indent=1) + "\n", root, durable=durable)


def write_text(path: Path, text: str, root: Path | None = None, *, durable: bool = True) -> None:
    """Write a text file atomically; see `atomic_files`."""
    with atomic_file(path, root, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_file(path: Path, root: Path | None = None, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; rename the file to `path` once it is complete and on disk."""
    with atomic_files([path], root, durable=durable) as [temporary]:
        yield temporary


@contextmanager
def atomic_files(paths: Sequence[Path], root: Path | None = None, *, durable: bool = True) -> Iterator[list[Path]]:
    """Yield temporary paths to write to; rename the files once all of them are complete and on disk.

    durable: False = do not wait for the disk. After a power cut, not after a kill, such a file may be damaged.
    """
    for path in paths:
        has_file(path, root)
    temporary = [temporary_path(path) for path in paths]
    try:
        with _disk_errors(paths[0] if paths else Path()):
            yield temporary
        _share(temporary)
        if durable:
            sync(temporary)
        for file, path in zip(temporary, paths, strict=True):
            file.replace(path)
    finally:
        for file in temporary:
            file.unlink(missing_ok=True)


def _share(paths: Iterable[Path]) -> None:
    """Let others read files as the user's umask says: safetensors writes them for their owner alone."""
    for path in paths:
        if path.is_file() and stat.S_IMODE(path.lstat().st_mode) == 0o600:
            path.chmod(0o666 & ~_UMASK)


@contextmanager
def atomic_folder(path: Path, root: Path | None = None, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary folder to write to; it replaces `path` at the end, or is removed after an error.

    durable: False = the content is on disk when the folder is renamed, but after a power cut the folder may have its
    old name, until the caller calls `sync` for the parent, once for several folders.
    """
    temporary = temporary_path(check_path(path, root))
    temporary.mkdir(parents=True)
    try:
        with _disk_errors(path):
            yield temporary
        files = list(temporary.iterdir())
        _share(files)
        sync([*files, temporary])
        _replace(temporary, path, root)
        if durable:
            sync([path.parent])
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, path: Path, root: Path | None) -> None:
    """Replace a folder by another one; of several writers the last one wins."""
    for attempt in range(_TRIES):
        remove_tree(path, root)
        try:
            temporary.rename(path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == _TRIES - 1:
                raise


def remove_folder(path: Path, root: Path | None = None) -> None:
    """Remove a folder with its content at once: other processes see all of it or nothing. Symbolic links raise."""
    for _ in files_in(path, root):
        pass
    gone = temporary_path(path)
    with suppress(FileNotFoundError):
        path.rename(gone)
        remove_tree(gone, root)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Convert disk errors, also those of safetensors, to an OSError that names the file."""
    try:
        yield
    except SafetensorError as error:
        if (number := re.search(r"os error (\d+)", str(error))) is None:
            raise
        code = int(number[1])
        raise OSError(code, f"cannot write {path}: {os.strerror(code)}") from error
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error


def sync(paths: Iterable[Path]) -> None:
    """Flush files to disk, in parallel, which takes a tenth of the time for many small files."""
    several = list(paths)
    if len(several) == 1:
        _sync(several[0])
    elif several:
        with ThreadPoolExecutor(min(16, len(several))) as pool:
            list(pool.map(_sync, several))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_path(path: Path) -> Path:
    """Return a unique hidden path beside `path`, whose name identifies this process."""
    return path.with_name(f".{path.name}-{Owner.current()}-{uuid.uuid4().hex}")


def is_temporary(path: Path) -> bool:
    """Return True for a name of `temporary_path`; other hidden files and folders are the user's."""
    return re.fullmatch(r"\..+-[0-9a-f]{32}", path.name) is not None


def remove_temporaries(folder: Path, root: Path | None = None, *, folders: bool = False, locked: bool = False) -> None:
    """Remove the temporary files whose writers have ended; never symbolic links.

    folders: remove temporary folders too. locked: no other process can be writing there, so remove all.
    """
    for path in filter(is_temporary, sorted(check_path(folder, root).iterdir())):
        mode = mode_of(path) or 0
        if not locked and not owner_ended(path, Owner.parse(path.name.split("-")[-2]), ABANDONED):
            continue
        if stat.S_ISDIR(mode) and folders:
            remove_tree(path)
        elif stat.S_ISREG(mode):
            path.unlink(missing_ok=True)
