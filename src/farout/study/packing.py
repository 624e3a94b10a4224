"""Packing: the small finished records of a run are moved from folders into packs.

Only the process that holds the lock of the run does this. A pack is complete and on disk before the folders that it
replaces are removed, each at once; as long as both exist, the folder counts. So a kill at any moment loses nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from farout.files import check_path, has_file, open_file, remove_folder
from farout.study.pack_folder import PackFolder
from farout.study.packs import Packed
from farout.study.records import (
    RECORD,
    Damaged,
    check_bytes,
    checked_record,
    checksum,
    is_plain,
    read_record,
    verified_content,
)

RECORDS = 256
"""Smallest number of records in a pack, so that a run has at most this many small folders."""
MOST_RECORDS, MOST_BYTES = 1024, 1 << 25
"""Largest number of records in a pack, and number of bytes after which a pack is full."""
LARGEST = 1 << 20
"""Largest size of a record that is packed."""
BY_PATH = {"weights.safetensors", "state.safetensors", "images.npy"}
"""Files of models and images, which are opened by their path: their records stay folders, whatever their size."""


class Packing:
    """Moves records of one run into packs; it remembers which stay folders."""

    def __init__(self, root: Path, packs: PackFolder) -> None:
        self._root, self._packs = root, packs
        self._staying: set[str] = set()

    def pack(self, at_least: int | None = None) -> None:
        """Pack the small records in folders, and those of small packs, if there are at least so many in folders.

        at_least: number of records; None = enough to fill a pack.
        """
        least, cells = RECORDS if at_least is None else at_least, self._loose()
        small = [pack for pack in self._packs.packs() if len(pack.entries) < RECORDS]
        if len(cells) < max(1, least):
            return
        merged: dict[str, Packed] = {}
        if len(cells) + sum(len(pack.entries) for pack in small) >= RECORDS:
            merged = {
                cell: pack.content(cell) for pack in reversed(small) for cell in pack.entries if cell not in cells
            }
        for records in _batches(self._contents(cells, merged)):
            self._packs.write(records)
            for cell in records:
                remove_folder(self._root / "cells" / cell, self._root)

    def _loose(self) -> list[str]:
        """Return the records in folders that can be packed."""
        names = filter(is_plain, sorted(os.listdir(check_path(self._root / "cells", self._root))))  # noqa: PTH208
        return [name for name in names if name not in self._staying and self._fits(name)]

    def _fits(self, cell: str) -> bool:
        folder = self._root / "cells" / cell
        try:
            if not has_file(folder / RECORD, self._root):
                return False
            files = read_record(folder / RECORD)["files"]
            size = (folder / RECORD).stat().st_size + sum(facts["bytes"] for facts in files.values())
        except (Damaged, FileNotFoundError):  # a run names it and computes it again
            return False
        if BY_PATH.isdisjoint(files) and size <= LARGEST:
            return True
        self._staying.add(cell)
        return False

    def _contents(self, cells: list[str], merged: Mapping[str, Packed]) -> Iterator[tuple[str, Packed]]:
        """Yield the records to be packed; damaged ones stay where they are."""
        yield from merged.items()
        for cell in cells:
            try:
                yield cell, _read_folder(self._root / "cells" / cell, self._root)
            except (Damaged, FileNotFoundError):
                continue


def _read_folder(folder: Path, root: Path) -> Packed:
    """Return the content of a record. Raise `Damaged` if what was read now is not what was written."""
    record = _read(folder / RECORD, root)
    try:
        facts = checked_record(folder / RECORD, verified_content(folder / RECORD, json.loads(record)))
    except (ValueError, RecursionError) as error:
        raise Damaged(folder / RECORD, str(error)) from error
    files = {RECORD: record} | {name: _read(folder / name, root) for name in facts["files"]}
    for name, expected in facts["files"].items():
        check_bytes(folder / name, expected, files[name])
    return Packed(checksum(record), files)


def _read(path: Path, root: Path) -> bytes:
    with open_file(path, root) as file:
        return file.read()


def _batches(contents: Iterator[tuple[str, Packed]]) -> Iterator[dict[str, Packed]]:
    """Yield the records in groups that fill a pack; the last may be smaller."""
    group, size = dict[str, Packed](), 0
    for cell, packed in contents:
        group[cell] = packed
        size += sum(map(len, packed.files.values()))
        if len(group) >= MOST_RECORDS or size >= MOST_BYTES:
            yield group
            group, size = {}, 0
    if group:
        yield group
