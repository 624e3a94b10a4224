"""Fetching: brings the local folder of a run up to date with its address, where what differs is taken from.

Packs and parts are named by their content, and every record has its checksums: what is there already is not fetched
again, and what is damaged on the way is found when it is read, as in any run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from farout.files import atomic_file, atomic_folder, has_file, make_folder, remove_folder
from farout.progress import track
from farout.study.packs import Pack
from farout.study.records import RECORD, Damaged, is_plain
from farout.study.remote.address import Remote, RemoteError
from farout.study.remote.layout import is_kept
from farout.study.store import Store

LARGEST_RECORD = 1 << 26
"""Largest size of a record.json."""
ALONE = ("plan.json", "intervals.json")
CHANGING = ("failures/", "running/")
SEALED = re.compile(r"-[0-9a-f]{64}\.safetensors$")
"""Files whose names hold their checksum, so that those of one name are the same everywhere."""
CONNECTIONS = 8
"""Number of files that are fetched at a time."""


def fetch(remote: Remote, store: Store, *, unfinished: bool) -> dict[str, tuple[int, int]]:
    """Fetch the results of a run, and unfinished work if asked for; the caller holds the lock of the local folder.

    Return the kept files at the address, with the local size and time of each that is the same here.
    """
    listing = {path: size for path, size in remote.list().items() if is_kept(path)}
    packs = _missing_packs(listing, store)
    records = _other_records(listing, remote, store)
    parts = _missing_parts(listing, store) if unfinished else []
    small = [path for path in listing if path in ALONE or path.startswith(CHANGING)]
    small += [
        path for path in listing if path.startswith("sessions/") and _stamp(store.root / path)[0] != listing[path]
    ]
    _check_space([*packs, *parts, *(path for paths in records.values() for path in paths)], listing, store.root)

    def get(what: str) -> None:
        if what in records:
            _fetch_record(remote, what, records[what], listing, store)
        else:
            _fetch_file(remote, what, listing[what], store.root)

    wanted = [*packs, *records, *parts, *small]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in track(pool.map(get, wanted), len(wanted), f"fetching {remote}", "files"):
            pass
    _remove_conflicts(listing, store)
    kept = [path for path in listing if path.startswith("partial/") and path not in parts]
    other = {path for path in kept if not SEALED.search(path)}
    other |= {path for path in listing if path.startswith("cells/") and _record_of(path) not in listing}
    return {path: (-1, -1) if path in other else _stamp(store.root / path) for path in listing}


def _record_of(path: str) -> str:
    """Return the path of the record.json beside a file of a record."""
    return f"{path.rpartition('/')[0]}/{RECORD}"


def _stamp(path: Path) -> tuple[int, int]:
    """Return size and time of a local file; (-1, -1) if there is none."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _missing_packs(listing: Mapping[str, int], store: Store) -> list[str]:
    """Return the packs that are not here, or damaged here."""
    whole = {f"packs/{pack.path.name}" for pack in store.packs.packs() if _is_whole(pack)}
    return [path for path in listing if path.startswith("packs/") and path not in whole]


def _is_whole(pack: Pack) -> bool:
    try:
        for cell in pack.entries:
            pack.facts(cell)
    except (Damaged, FileNotFoundError):
        return False
    return True


def _other_records(listing: Mapping[str, int], remote: Remote, store: Store) -> dict[str, list[str]]:
    """Return the complete records in folders that are not the same here: their files, by cell."""
    records: dict[str, list[str]] = {}
    for path in listing:
        kind, _, rest = path.partition("/")
        cell = rest.partition("/")[0]
        if kind == "cells" and _record_of(path) in listing:
            records.setdefault(cell, []).append(path)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        same = pool.map(lambda cell: _is_same(cell, listing, remote, store), records)
        return {cell: paths for (cell, paths), is_same in zip(records.items(), same, strict=True) if not is_same}


def _is_same(cell: str, listing: Mapping[str, int], remote: Remote, store: Store) -> bool:
    path = f"cells/{cell}/{RECORD}"
    if not has_file(store.root / path, store.root) or store.damaged(cell) is not None:
        return False
    return listing[path] <= LARGEST_RECORD and (store.root / path).read_bytes() == remote.read(path)


def _missing_parts(listing: Mapping[str, int], store: Store) -> list[str]:
    """Return the files of unfinished work that are not here; those that are here may be newer."""
    parts = [path for path in listing if path.startswith("partial/")]
    return [path for path in parts if not has_file(store.root / path, store.root)]


def _check_space(paths: Iterable[str], listing: Mapping[str, int], root: Path) -> None:
    needed, free = sum(listing[path] for path in paths), shutil.disk_usage(root).free
    if needed > free:
        raise OSError(
            f"the results take {needed / 1e9:.1f} GB, and {root} has {free / 1e9:.1f} GB left; free some space, or set "
            "FAROUT_DATA to a folder on a larger disk"
        )


def _fetch_file(remote: Remote, path: str, size: int, root: Path) -> None:
    target = root / path
    make_folder(target.parent, root)
    try:
        with atomic_file(target, root) as temporary:
            _download(remote, path, size, temporary)
    except FileNotFoundError:  # removed meanwhile by the run that writes there
        if path.startswith("packs/"):
            raise RemoteError(f"{remote} changes while it is read; try again") from None


def _fetch_record(remote: Remote, cell: str, paths: Iterable[str], listing: Mapping[str, int], store: Store) -> None:
    names = [path.rpartition("/")[2] for path in paths]
    assert is_plain(cell)
    with atomic_folder(store.path(cell), store.root) as folder:
        for name in names:
            path = f"cells/{cell}/{name}"
            _download(remote, path, listing[path], folder / name)


def _download(remote: Remote, path: str, size: int, target: Path) -> None:
    """Download a file. Its size may change if it is small, since the run that writes there goes on."""
    remote.download(path, target)
    found = target.stat().st_size
    if found != size and path.startswith(("packs/", "cells/")):
        raise RemoteError(f"{remote}/{path} has {size:,} bytes, and {found:,} were read; try again")


def _remove_conflicts(listing: Mapping[str, int], store: Store) -> None:
    """Remove local results of which the address holds a pack or a folder: those there count."""
    packs = {f"packs/{pack.path.name}": pack for pack in store.packs.packs()}
    there = {cell for path, pack in packs.items() if path in listing for cell in pack.entries}
    folders = {path.split("/")[1] for path in listing if path.startswith("cells/") and path.endswith(f"/{RECORD}")}
    for path, pack in packs.items():
        if path not in listing and not (there | folders).isdisjoint(pack.entries):
            store.packs.drop(pack, there | folders)
    for cell in there - folders:
        remove_folder(store.path(cell), store.root)
