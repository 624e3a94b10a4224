"""Packs: immutable files that hold many finished records each, so that a large run has few files.

A pack holds the files of its records unchanged, one after another; then an index as JSON, the length of the index, and
a mark. The index lists the place of every file, and the checksum of every record.json, which holds those of the other
files; the checksum of the index is the name of the pack. So every byte is verified, and a changed one damages only the
record that it belongs to, or the whole pack if it is a byte of the index.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from farout.files import atomic_file, make_folder, open_file, sync
from farout.study.records import (
    CHECKSUM,
    RECORD,
    Damaged,
    check_bytes,
    checked_record,
    checksum,
    file_signature,
    is_plain,
)

FOLDER = "packs"
"""Name of the folder of packs in the folder of a run."""
ENDING, DAMAGED = ".pack", ".damaged"
"""Endings of the names of packs, and of those that were set aside."""
FORMAT = 1
MARK = b"farout\0p"
_TAIL = struct.Struct("<Q8s")  # length of the index; mark
_LARGEST_INDEX = 1 << 28


class Entry(NamedTuple):
    """Record in a pack."""

    sha256: str
    """Checksum of its record.json."""
    files: dict[str, tuple[int, int]]
    """Offset and size of its files, record.json included."""


class Packed(NamedTuple):
    """Content of a record that is to be packed."""

    sha256: str
    """Checksum of its record.json when it was written; never computed from what may be damaged."""
    files: Mapping[str, bytes]


class Pack:
    """Pack whose index has been read and verified. Raise `Damaged` if that is impossible."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self._root = path, root
        self.signature = file_signature(path)
        with open_file(path, root) as file:
            self.entries = _read_index(path, file)
        self._facts: dict[str, dict[str, Any]] = {}

    @property
    def changed(self) -> bool:
        """True if the file is gone, or no longer the one whose index was read."""
        try:
            return file_signature(self.path) != self.signature
        except FileNotFoundError:
            return True

    def facts(self, cell: str) -> dict[str, Any]:
        """Return the facts of a record, after verifying all its files once."""
        if cell not in self._facts:
            self._facts[cell] = self._verify(cell)
        return dict(self._facts[cell])

    def _verify(self, cell: str) -> dict[str, Any]:
        packed, where = self.content(cell), self.path / cell
        if checksum(packed.files[RECORD]) != packed.sha256:
            raise Damaged(where / RECORD, "its checksum does not match")
        facts = json.loads(packed.files[RECORD])
        record = checked_record(where / RECORD, {key: value for key, value in facts.items() if key != CHECKSUM})
        for name, expected in record["files"].items():
            if name not in packed.files:
                raise Damaged(where / name, "it is missing")
            check_bytes(where / name, expected, packed.files[name])
        return record

    def read(self, cell: str, name: str) -> bytes:
        """Return the content of a file of a record, verified. Raise FileNotFoundError if there is no such file."""
        expected = self.facts(cell)["files"].get(name)
        if expected is None:
            raise FileNotFoundError(f"the result in {self.path / cell} has no {name}")
        with open_file(self.path, self._root) as file:
            content = _slice(file, *self.entries[cell].files[name])
        check_bytes(self.path / cell / name, expected, content)
        return content

    def content(self, cell: str) -> Packed:
        """Return the files of a record as they are, damaged or not."""
        entry = self.entries[cell]
        with open_file(self.path, self._root) as file:
            return Packed(entry.sha256, {name: _slice(file, *place) for name, place in entry.files.items()})


def _slice(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _read_index(path: Path, file: BinaryIO) -> dict[str, Entry]:
    size = os.fstat(file.fileno()).st_size
    length, mark = _TAIL.unpack(_slice(file, max(0, size - _TAIL.size), _TAIL.size).rjust(_TAIL.size, b"\0"))
    start = size - _TAIL.size - length
    if mark != MARK or start < 0 or length > _LARGEST_INDEX:
        raise Damaged(path, "it does not end in an index; it may be truncated")
    index = _slice(file, start, length)
    if checksum(index) != path.name.removesuffix(ENDING):
        raise Damaged(path, "the checksum of its index does not match")
    try:
        return _parse_index(json.loads(index), start)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(path, f"its index cannot be read: {error}") from error


def _parse_index(value: Any, end: int) -> dict[str, Entry]:
    """Return the entries of an index. Raise ValueError if a place is outside of the pack, which may be a stranger's."""
    if value["format"] != FORMAT:
        raise ValueError(f"it has format {value['format']}, and this version reads format {FORMAT}")
    entries = {
        cell: Entry(sha256, {name: (offset, size) for name, offset, size in files})
        for cell, (sha256, files) in value["records"].items()
    }
    places = [place for entry in entries.values() for place in entry.files.values()]
    if not all(is_plain(name) for cell, entry in entries.items() for name in (cell, *entry.files)):
        raise ValueError("it has names that are not valid")
    if not all(type(offset) is type(size) is int and 0 <= offset <= offset + size <= end for offset, size in places):
        raise ValueError("it has places outside of the file")
    if sum(size for _, size in places) > end or not all(RECORD in entry.files for entry in entries.values()):
        raise ValueError("it lists files twice, or a result without a record")
    return entries


def write_pack(root: Path, records: Mapping[str, Packed]) -> Path:
    """Write these records as a pack, and return its path once it is on disk."""
    index, offset = dict[str, Any](), 0
    for cell, packed in records.items():
        files = []
        for name, content in packed.files.items():
            files.append((name, offset, len(content)))
            offset += len(content)
        index[cell] = packed.sha256, files
    text = json.dumps({"format": FORMAT, "records": index}, separators=(",", ":")).encode()
    folder = make_folder(root / FOLDER, root)
    path = folder / f"{checksum(text)}{ENDING}"
    with atomic_file(path, root) as temporary, temporary.open("wb") as file:
        file.writelines(content for packed in records.values() for content in packed.files.values())
        file.write(text + _TAIL.pack(len(text), MARK))
    sync([folder])
    return path
