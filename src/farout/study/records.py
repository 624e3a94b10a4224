"""Records and parts on disk: written with checksums, which are verified before anything is read."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from farout.files import atomic_file, has_file, read_json, sha256, write_json

RECORD = "record.json"
CHECKSUM = "sha256"
"""Key under which a JSON file holds the checksum of its other content."""
FORMAT = 2
"""Format of records. 2: per-image tables hold the index that each image has in its own set; format 1 held its position
among the scored images."""
Signature = tuple[int, int, int]
"""Size, modification time and inode of a file: as long as they are unchanged, its checksum is too."""
_checksums: dict[Path, tuple[Signature, str]] = {}
"""Cache of the checksums of files that this process has read."""
_records: dict[Path, tuple[Signature, dict[str, Any]]] = {}
"""Cache of the records that this process has verified."""


class Damaged(OSError):
    """A stored file is missing, or its content is not what was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged ({reason})")


def is_plain(name: object) -> bool:
    """Return True for a file name without separators or "..", which cannot leave the folder it is looked up in."""
    return isinstance(name, str) and re.fullmatch(r"\w[\w.=-]*", name) is not None


def write_record(folder: Path, facts: Mapping[str, Any], files: Iterable[str], *, durable: bool = True) -> None:
    """Write the record of a folder: the facts, the size and checksum of every file, and the record's own checksum.

    durable: False = the caller flushes it to disk.
    """
    sums = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in files}
    write_verified_json(folder / RECORD, {**facts, "format": FORMAT, "files": sums}, durable=durable)


def write_verified_json(
    path: Path, facts: Mapping[str, Any], root: Path | None = None, *, durable: bool = True
) -> None:
    """Write a JSON file that holds the checksum of its own content."""
    content = json.loads(json.dumps(facts))  # the values that a reader will get, for example lists instead of tuples
    write_json(path, {**content, CHECKSUM: _digest(content)}, root, durable=durable)


def read_verified_json(path: Path, root: Path | None = None) -> dict[str, Any]:
    """Return the content of a file of `write_verified_json`. Raise `Damaged` if its checksum does not match."""
    try:
        value = read_json(path, root)
    except ValueError as error:
        raise Damaged(path, str(error.__cause__ or error)) from error
    return verified_content(path, value)


def verified_content(path: Path, value: Any) -> dict[str, Any]:
    """Return the content of a parsed file of `write_verified_json`."""
    if not isinstance(value, dict) or CHECKSUM not in value:
        raise Damaged(path, "it has no checksum; files of older versions have none")
    content = {key: item for key, item in value.items() if key != CHECKSUM}
    if value[CHECKSUM] != _digest(content):
        raise Damaged(path, "its checksum does not match")
    return content


def verify_record(folder: Path, root: Path) -> dict[str, Any]:
    """Verify a folder's record and all its files, and return the record. Raise `Damaged` at the first mismatch."""
    if not has_file(folder / RECORD, root):
        if folder.is_dir():
            raise Damaged(folder / RECORD, "it is missing")
        raise FileNotFoundError(f"there is no result in {folder}")
    record = _cached_record(folder / RECORD)
    for name, expected in record["files"].items():
        _verify_file(folder / name, expected)
    return dict(record)


def _cached_record(path: Path) -> dict[str, Any]:
    """Return a record, verified once until its file changes."""
    signature = file_signature(path)
    cached = _records.get(path)
    if cached is None or cached[0] != signature:
        cached = _records[path] = signature, read_record(path)
    return cached[1]


def read_record(path: Path) -> dict[str, Any]:
    """Return a record.json, verified; its files are not."""
    return checked_record(path, read_verified_json(path))


def checked_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record. Raise `Damaged` if it has another format, or does not list its files.

    path: where it was read, for the error.
    """
    if record.get("format") != FORMAT:
        raise Damaged(path, f"it has format {record.get('format', 1)}, and this version reads format {FORMAT}")
    files = record.get("files")
    entries = files.items() if isinstance(files, dict) else [("", None)]
    if not all(
        is_plain(name) and isinstance(entry, dict) and {"bytes", "sha256"} <= entry.keys() for name, entry in entries
    ):
        raise Damaged(path, "it does not list its files with names, sizes and checksums")
    return record


def _verify_file(path: Path, expected: Mapping[str, Any]) -> None:
    try:
        signature = file_signature(path)
    except FileNotFoundError:
        raise Damaged(path, "it is missing") from None
    _check(path, expected, signature[0], lambda: _checksum(path, signature))


def check_bytes(path: Path, expected: Mapping[str, Any], content: bytes) -> None:
    """Raise `Damaged` if the content of a file has not the size and the checksum that its record lists."""
    _check(path, expected, len(content), lambda: checksum(content))


def checksum(content: bytes) -> str:
    """Return the SHA-256 checksum of a content."""
    return hashlib.sha256(content).hexdigest()


def _check(path: Path, expected: Mapping[str, Any], size: int, sha256: Callable[[], str]) -> None:
    if size != expected["bytes"]:
        raise Damaged(path, f"it has {size:,} bytes, expected {expected['bytes']}")
    if sha256() != expected["sha256"]:
        raise Damaged(path, "its checksum does not match")


def _checksum(path: Path, signature: Signature) -> str:
    """Return the sha256 of a file, cached until the file changes."""
    cached = _checksums.get(path)
    if cached is None or cached[0] != signature:
        cached = _checksums[path] = signature, sha256(path)
    return cached[1]


def file_signature(path: Path) -> Signature:
    """Return the signature of a regular file. Raise `UnsafePath` for anything else."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        has_file(path)  # raises an error that says what it is
    return status.st_size, status.st_mtime_ns, status.st_ino


def _digest(record: Mapping[str, Any]) -> str:
    return checksum(json.dumps(record, sort_keys=True).encode())


def write_sealed(folder: Path, name: str, write: Callable[[Path], None], *, durable: bool = True) -> Path:
    """Write a file whose name ends in its checksum, and return its path; see `atomic_files`."""
    path = folder / f"{name}-{uuid.uuid4().hex}.safetensors"  # unique: other processes may write the same name
    with atomic_file(path, durable=durable) as temporary:
        write(temporary)
    return path.rename(folder / f"{name}-{sha256(path)}.safetensors")


def find_sealed(folder: Path, name: str, root: Path) -> Iterator[Path]:
    """Yield the files that `write_sealed` wrote under this name; log and remove damaged ones."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(rf"{re.escape(name)}-([0-9a-f]{{64}})\.safetensors", path.name)
        if match is None:
            continue
        try:
            matches = sha256(path, root) == match[1]
        except FileNotFoundError:  # another process has replaced it
            continue
        if matches:
            yield path
        else:
            logging.getLogger("farout").warning(f"{path} is damaged (its checksum does not match): computed again")
            path.unlink(missing_ok=True)
