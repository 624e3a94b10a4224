"""Records and parts on disk, with their checksums: written, and proven before they are read."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from farout.files import present, read_json, sha256, whole, write_json

RECORD = "record.json"
CHECKSUM = "sha256"
"""Key of a JSON file's own checksum."""
FORMAT = 2
"""Format of records. 2: per-image tables have the index that each image has in its own set; before, its place among
those scored."""
Signature = tuple[int, int, int]
"""Size, time of change and number of a file: while they stay, so does its checksum."""
_proven: dict[Path, tuple[Signature, str]] = {}
"""Checksums of the files that this process has read."""


class Damaged(OSError):
    """A file of a record is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged ({why})")


def is_plain(name: object) -> bool:
    """Return True for the name of a file or folder that cannot lead out of the folder it is looked up in."""
    return isinstance(name, str) and re.fullmatch(r"\w[\w.=-]*", name) is not None


def write_record(folder: Path, facts: Mapping[str, Any], files: Iterable[str]) -> None:
    """Write the record of the files in a folder: the facts, every file's size and checksum, and its own checksum."""
    sums = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in files}
    write_proven(folder / RECORD, {**facts, "format": FORMAT, "files": sums})


def write_proven(path: Path, facts: Mapping[str, Any], root: Path | None = None) -> None:
    """Write a JSON file that tells its own checksum."""
    content = json.loads(json.dumps(facts))  # as it will be read again
    write_json(path, {**content, CHECKSUM: _digest(content)}, root)


def read_proven(path: Path, root: Path | None = None) -> dict[str, Any]:
    """Return what `write_proven` wrote; `Damaged` where it is not what was written."""
    try:
        found = read_json(path, root)
    except ValueError as error:
        raise Damaged(path, str(error.__cause__ or error)) from error
    if not isinstance(found, dict) or CHECKSUM not in found:
        raise Damaged(path, "it has no checksums, as files of older versions")
    content = {key: value for key, value in found.items() if key != CHECKSUM}
    if found[CHECKSUM] != _digest(content):
        raise Damaged(path, "its checksum is another one")
    return content


def prove(folder: Path, root: Path) -> dict[str, Any]:
    """Return the record of a folder; `Damaged` where it or one of its files is not what was written."""
    if not present(folder / RECORD, root):
        if folder.is_dir():
            raise Damaged(folder / RECORD, "it is missing")
        raise FileNotFoundError(f"there is no result in {folder}")
    record = _read(folder / RECORD)
    for name, known in record["files"].items():
        _prove_file(folder / name, known)
    return record


def _read(path: Path) -> dict[str, Any]:
    record = read_proven(path)
    if record.get("format") != FORMAT:
        raise Damaged(path, f"it has format {record.get('format', 1)}, and this version reads format {FORMAT}")
    files = record.get("files")
    known = files.items() if isinstance(files, dict) else [("", None)]
    if not all(is_plain(name) and isinstance(one, dict) and {"bytes", "sha256"} <= one.keys() for name, one in known):
        raise Damaged(path, "it does not tell the names, sizes and checksums of its files")
    return record


def _prove_file(path: Path, known: Mapping[str, Any]) -> None:
    if not present(path):
        raise Damaged(path, "it is missing")
    if (size := path.stat().st_size) != known["bytes"]:
        raise Damaged(path, f"it has {size:,} bytes, and {known['bytes']} were written")
    if checksum(path) != known["sha256"]:
        raise Damaged(path, "its checksum is another one")


def checksum(path: Path) -> str:
    """Return the sha256 of a file; this process reads a file once, as long as it does not change."""
    about = path.stat()
    signature = about.st_size, about.st_mtime_ns, about.st_ino
    known = _proven.get(path)
    if known is None or known[0] != signature:
        known = _proven[path] = signature, sha256(path)
    return known[1]


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def seal(folder: Path, name: str, write: Callable[[Path], None]) -> Path:
    """Write a file whose name ends in its checksum."""
    path = folder / f"{name}-{uuid.uuid4().hex}.safetensors"  # others may write by this name too
    with whole(path) as temporary:
        write(temporary)
    return path.rename(folder / f"{name}-{sha256(path)}.safetensors")


def sealed(folder: Path, name: str, root: Path) -> Iterator[Path]:
    """Yield the files that `seal` wrote by this name; damaged ones are named and removed."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(rf"{re.escape(name)}-([0-9a-f]{{64}})\.safetensors", path.name)
        if match is None:
            continue
        try:
            whole_file = sha256(path, root) == match[1]
        except FileNotFoundError:  # another process has put a newer one in its place
            continue
        if whole_file:
            yield path
        else:
            logging.getLogger("farout").warning(f"{path} is damaged (its checksum is another one): computed again")
            path.unlink(missing_ok=True)
