"""Folder of packs: which pack holds a record, while another process may write and remove packs."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from farout.files import check_path
from farout.study.packs import DAMAGED, ENDING, FOLDER, Pack, Packed, write_pack
from farout.study.records import Damaged

T = TypeVar("T")
PACK_NAME = r"[0-9a-f]{64}" + re.escape(ENDING)
_TRIES = 5
_TICK = 2.0
"""Seconds within which two changes of a folder may have the same time stamp."""
_opened: dict[Path, Pack] = {}
"""Packs that this process has read."""


class PackFolder:
    """Packs of a run. Several processes may read while one, which holds the lock of the run, writes and removes.

    A record that is in several packs has the same content in all of them, unless a folder in cells/ takes precedence.
    """

    def __init__(self, root: Path) -> None:
        self._root, self.path = root, root / FOLDER
        self._listed: tuple[int, int] | None = None
        self._places: dict[str, Pack] = {}
        self._packs: list[Pack] = []
        self._damaged: dict[Path, str] = {}

    def cells(self) -> set[str]:
        """Return the records in all packs."""
        self._refresh()
        return set(self._places)

    def packs(self) -> list[Pack]:
        """Return the packs with an undamaged index."""
        self._refresh()
        return self._packs

    def damaged(self) -> list[str]:
        """Return why the index of a pack is damaged, so that none of its records can be read."""
        self._refresh()
        return list(self._damaged.values())

    def facts(self, cell: str) -> dict[str, Any]:
        """Return the facts of a verified record. Raise FileNotFoundError if it is in no pack."""
        return self._use(cell, lambda pack: pack.facts(cell))

    def read(self, cell: str, name: str) -> bytes:
        """Return the verified content of a file. Raise FileNotFoundError if there is no such record or file."""
        return self._use(cell, lambda pack: pack.read(cell, name))

    def _use(self, cell: str, use: Callable[[Pack], T]) -> T:
        """Use the pack that holds a record; look again if another process has replaced it meanwhile."""
        for _ in range(_TRIES):
            self._refresh()
            pack = self._places.get(cell)
            if pack is None:
                break
            try:
                if not pack.changed:
                    return use(pack)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
            self._listed = None
        raise FileNotFoundError(f"there is no result {cell} in {self._root}")

    def _refresh(self) -> None:
        """List the packs, unless the folder is unchanged since it was last listed."""
        try:
            status = os.lstat(self.path)
        except FileNotFoundError:
            self._listed, self._places, self._packs, self._damaged = None, {}, [], {}
            return
        stamp = status.st_mtime_ns, status.st_ino
        if stamp == self._listed:
            return
        check_path(self.path, self._root)
        self._list()
        settled = time.time() - status.st_mtime > _TICK
        self._listed = stamp if settled else None

    def _list(self) -> None:
        packs, damaged = list[Pack](), dict[Path, str]()
        for path in sorted(self._paths()):
            try:
                packs.append(_open(path, self._root))
            except FileNotFoundError:  # removed meanwhile: its records are in another one
                continue
            except Damaged as error:
                damaged[path] = f"{error}: the results in it are missing"
        for path in [path for path in list(_opened) if path.parent == self.path and not path.exists()]:
            _opened.pop(path, None)
        self._packs, self._damaged = packs, damaged
        self._places = {cell: pack for pack in reversed(packs) for cell in pack.entries}

    def _paths(self) -> Iterator[Path]:
        """Yield the files with the name of a pack."""
        return (self.path / name for name in os.listdir(self.path) if re.fullmatch(PACK_NAME, name))  # noqa: PTH208

    # Changes, by the process that holds the lock of the run

    def write(self, records: dict[str, Packed]) -> None:
        """Write a pack with these records, and remove them from all others."""
        new = write_pack(self._root, records)
        self._listed = None
        self._remove(records.keys(), new)

    def remove(self, cells: Collection[str]) -> None:
        """Remove records. A kill meanwhile leaves each either where it was, or removed."""
        self._remove(cells)

    def _remove(self, cells: Collection[str], new: Path | None = None) -> None:
        """Replace the packs that hold any of these records by packs without them, except the new one."""
        cells = set(cells)
        for pack in self.packs():
            if pack.path != new and not pack.entries.keys().isdisjoint(cells):
                self.drop(pack, cells)

    def drop(self, pack: Pack, cells: Collection[str]) -> None:
        """Replace a pack by one without these records."""
        kept = {cell: pack.content(cell) for cell in pack.entries if cell not in cells}
        if kept:
            write_pack(self._root, kept)
        pack.path.unlink(missing_ok=True)
        _opened.pop(pack.path, None)
        self._listed = None

    def set_aside(self) -> list[str]:
        """Rename damaged packs, so that they are not found again; return what is wrong with them."""
        found = self.damaged()
        for path in self._damaged:
            path.replace(path.with_suffix(DAMAGED))
        self._listed = None
        return found


def _open(path: Path, root: Path) -> Pack:
    """Return a pack; its index is read once until the file changes."""
    pack = _opened.get(path)
    if pack is None or pack.changed:
        pack = _opened[path] = Pack(path, root)
    return pack
