"""Sending: brings the address of a run up to date with its local folder.

New files are sent before those that they replace are removed, and the files of a record before its record.json, so that
a kill at any moment leaves every result readable.
"""

from __future__ import annotations

from pathlib import Path

from farout.study.packs import DAMAGED, ENDING
from farout.study.packs import FOLDER as PACKS
from farout.study.records import RECORD
from farout.study.remote.address import Remote, RemoteError
from farout.study.remote.layout import local_files
from farout.study.store import Store

FINISHED = (PACKS, "cells", "failures", "sessions", "tables", "", "running")
UNFINISHED = "partial"
REPORT = ("tables", "")


class Sender:
    """Sender of one run, whose lock it holds, here and at the address."""

    def __init__(self, remote: Remote, store: Store, sent: dict[str, tuple[int, int]]) -> None:
        """sent: what is at the address, with the local size and time of each file that is the same here."""
        self._remote, self._store, self._sent = remote, store, sent
        self._packed: dict[str, set[str]] = {}
        """Records of the packs that have been here, by path."""
        self._list_packs()

    def send(self, *, unfinished: bool) -> None:
        """Send what is new, and remove what has been replaced. unfinished: also of unfinished work."""
        self._store.pack(at_least=1)
        folders = (*FINISHED, UNFINISHED) if unfinished else FINISHED
        here = local_files(self._store.root, folders)
        self._list_packs()
        for path, stamp in here.items():
            if self._sent.get(path) != stamp:
                self._send(path, stamp)
        gone = [path for path in self._sent if path not in here and _folder(path) in folders]
        for path in sorted(gone, key=lambda path: not path.endswith(f"/{RECORD}")):
            if self._is_replaced(path) or self._is_set_aside(path):
                self._remote.remove(path)
                del self._sent[path]

    def _list_packs(self) -> None:
        self._packed |= {f"{PACKS}/{pack.path.name}": set(pack.entries) for pack in self._store.packs.packs()}

    def _send(self, path: str, stamp: tuple[int, int]) -> None:
        source = self._store.root / path
        try:
            self._remote.upload(source, path)
        except FileNotFoundError as error:
            if source.exists():
                raise RemoteError(f"cannot write {self._remote} ({error})") from error
            return  # replaced meanwhile
        self._sent[path] = stamp

    def _is_replaced(self, path: str) -> bool:
        """Return True if a file that is not here any more is of no use at the address either.

        That a result is not here is not enough: somebody may have deleted the local folder.
        """
        folder = _folder(path)
        if folder == PACKS:
            return path in self._packed and all(map(self._is_known, self._packed[path]))
        if folder == "cells":
            return self._is_known(path.split("/")[1])
        return folder in (UNFINISHED, "failures", "running") and (self._store.root / "plan.json").exists()

    def _is_set_aside(self, path: str) -> bool:
        """Return True for a damaged pack, which is renamed there as it was here."""
        damaged = (self._store.root / path).with_suffix(DAMAGED)
        if _folder(path) != PACKS or not damaged.exists():
            return False
        self._remote.upload(damaged, path.removesuffix(ENDING) + DAMAGED)
        return True

    def _is_known(self, cell: str) -> bool:
        """Return True if a record is here, or was removed by the run itself."""
        return cell in self._store.removed or self._store.has(cell)


def _folder(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""


def send_report(remote: Remote, root: Path) -> None:
    """Send the report of a run, with its tables and intervals."""
    for path in local_files(root, REPORT):
        if path != "plan.json":
            remote.upload(root / path, path)
