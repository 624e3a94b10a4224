"""Store of results: records that are complete or absent, parts of unfinished work, and failures.

cells/<id>/    record.json and the files of the cell: scores.parquet, state.safetensors, examples.safetensors
packs/         small records of large runs, many in one file; a record that is in cells/ too is read there
partial/<id>/  finished chunks of unfinished work; removed when the work is finished
failures/<id>.json   why a cell failed in its last attempt; removed when it succeeds
running/       activity of each process of the run, and the run's progress; removed when the process ends

A record holds the checksum of every file, and its own; a part has its checksum in its name. All are verified before
they are read. The folder may come from somebody else: no symbolic link in it is followed.
"""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, load_file, save_file

from farout.files import (
    UnsafePath,
    atomic_folder,
    check_path,
    has_file,
    lock,
    make_folder,
    mode_of,
    open_file,
    remove_folder,
    remove_temporaries,
    remove_tree,
    sync,
    temporary_path,
)  # fmt: skip
from farout.identity import digest
from farout.study.pack_folder import PackFolder
from farout.study.packing import Packing
from farout.study.records import (
    Damaged,
    find_sealed,
    is_plain,
    read_verified_json,
    verify_record,
    write_record,
    write_sealed,
    write_verified_json,
)
from farout.study.table_cache import TABLES

Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
SCORES = "scores.parquet"
"""Name of the file with the per-image columns."""


class StoreError(OSError):
    """The store cannot be written or read, or is in use."""


class Store:
    """Folder of results."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.packs = PackFolder(self.root)
        self._packing = Packing(self.root, self.packs)
        self._locked, self._changing = False, threading.RLock()
        self.removed: set[str] = set()
        """Records that this process has removed."""

    def open(self) -> Store:
        """Create the folders and check that they are writable, before any long work."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for name in ("cells", "partial", "failures", "running"):
                make_folder(self.root / name, self.root)
            probe = temporary_path(self.root / "probe")
            probe.write_bytes(b"farout")
            probe.unlink()
        except UnsafePath:
            raise
        except OSError as error:
            raise StoreError(
                f"cannot write results to {self.root}: {error.strerror or error}; choose another folder with --out"
            ) from error
        return self

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store for one run; the lock is released when the process ends, however it ends."""
        with ExitStack() as stack:
            try:
                stack.enter_context(lock(self.root / ".lock"))
            except BlockingIOError as error:
                raise StoreError(
                    f"another run is writing to {self.root}; wait for it or choose another folder with --out"
                ) from error
            self._remove_temporaries()
            self._locked = True
            stack.callback(setattr, self, "_locked", False)
            yield

    def _remove_temporaries(self) -> None:
        """Remove the temporary files of processes that have ended; other processes may be writing right now."""
        partial = self.root / "partial"
        works = sorted(path for path in check_path(partial).iterdir() if check_path(path).is_dir())
        packs = [self.packs.path] if check_path(self.packs.path, self.root).is_dir() else []
        for folder in (self.root, self.root / "cells", self.root / "failures", *packs, *works):
            remove_temporaries(folder, self.root, folders=folder.name == "cells")

    # Records

    def has(self, cell: str) -> bool:
        """Return True if there is an undamaged record of the cell, with all its files."""
        try:
            self.facts(cell)
        except (Damaged, FileNotFoundError):
            return False
        return True

    def damaged(self, cell: str) -> str | None:
        """Return which file of a record is damaged and why; None if there is no record, or an undamaged one."""
        try:
            self.facts(cell)
        except Damaged as error:
            return str(error)
        except FileNotFoundError:
            return None
        return None

    def path(self, cell: str) -> Path:
        """Return the folder of a cell's record, which is not there if the record is packed."""
        return check_path(self.root / "cells" / _plain(cell), self.root)

    def write(
        self, cell: str, facts: Mapping[str, Any], files: Mapping[str, Callable[[Path], None]], *, durable: bool = True
    ) -> None:
        """Write a record at once: `facts`, and the files that the functions write.

        durable: False = after a power cut the record may be absent, until `sync` is called; it is never damaged.
        """
        with self._writing(), atomic_folder(self.path(cell), self.root, durable=durable) as folder:
            for name, write_file in files.items():
                write_file(folder / name)
            write_record(folder, facts, files, durable=False)  # flushed with the other files of the folder
        self.forget_failure(cell)

    def sync(self) -> None:
        """Make the names of all records that were written durable."""
        with self._writing():
            sync([self.root / "cells"])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn errors of the disk into one that says what is kept and what to do."""
        try:
            yield
        except UnsafePath:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write results to {self.root}: {error}; finished results are kept: free some space and run the "
            "same command again to resume"
        )

    def facts(self, cell: str) -> dict[str, Any]:
        """Return the facts of a record, after verifying all its files."""
        folder = self.path(cell)
        if mode_of(folder) is not None:
            try:
                return verify_record(folder, self.root)
            except (FileNotFoundError, Damaged):
                if mode_of(folder) is not None:  # else it was packed meanwhile
                    raise
        return self.packs.facts(cell)

    def content(self, cell: str) -> str:
        """Return a hash of the content of a record: of its files, or of its facts if it has none."""
        facts = self.facts(cell)
        return digest(facts["files"] or facts)

    def remove_results(self, cells: Collection[str]) -> None:
        """Remove records. The caller must hold the lock if other processes use the store."""
        folders = [self.path(cell) for cell in cells]
        with self._changing:
            self.removed |= set(cells)
            self.packs.remove(cells)
            for folder in folders:
                remove_folder(folder, self.root)

    def pack(self, at_least: int | None = None) -> None:
        """Move small records into packs if there are many, or `at_least` so many; only while the lock is held."""
        if not self._locked:
            return
        try:
            with self._changing:
                self._packing.pack(at_least)
        except UnsafePath:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def file(self, cell: str, name: str) -> Path:
        """Return the path of a verified file of a record: of a copy outside of the store if the record is packed.

        Raise FileNotFoundError if the record has no such file.
        """
        self._checksum(cell, name)
        path = self.path(cell) / name
        if has_file(path, self.root):
            return path
        copy = self._copies / f"{cell}-{name}"
        copy.write_bytes(self.read(cell, name))
        return copy

    @cached_property
    def _copies(self) -> Path:
        """Folder of copies of packed files, which goes with this object."""
        folder = mkdtemp(prefix="farout-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def read(self, cell: str, name: str) -> bytes:
        """Return the content of a verified file of a record."""
        return self._load(cell, name, self._content, bytes)

    def _content(self, path: Path) -> bytes:
        with open_file(path, self.root) as file:
            return file.read()

    def _load(self, cell: str, name: str, from_file: Callable[[Path], T], from_bytes: Callable[[bytes], T]) -> T:
        """Load a verified file of a record from its folder; from its pack if it is packed, perhaps just now."""
        self._checksum(cell, name)
        path = self.path(cell) / name
        with suppress(FileNotFoundError):
            return from_file(path)
        return from_bytes(self.packs.read(cell, name))

    def _checksum(self, cell: str, name: str) -> str:
        """Return the checksum of a verified file of a record."""
        files = self.facts(cell)["files"]
        if name not in files:
            raise FileNotFoundError(f"the result in {self.path(cell)} has no {name}")
        checksum: str = files[name]["sha256"]
        return checksum

    def scores(self, cell: str) -> NDArray[np.float64]:
        """Return the per-image scores of a record."""
        return self.column(cell, "score")

    def columns(self, cell: str) -> list[str]:
        """Return the names of the per-image columns of a record."""
        names: list[str] = self._table(cell).column_names
        return names

    def column(self, cell: str, name: str) -> NDArray[Any]:
        """Return one per-image column of a record."""
        table = self._table(cell)
        if name not in table.column_names:
            raise Damaged(self.path(cell) / SCORES, f"it has no column {name!r}")
        column: NDArray[Any] = table.column(name).to_numpy()
        return column

    def _table(self, cell: str) -> pa.Table:
        with self._parquet_errors(cell):
            return TABLES.get(self._checksum(cell, SCORES), lambda: self.parquet(cell).read(use_threads=False))

    def parquet(self, cell: str) -> pq.ParquetFile:
        """Return the file of per-image columns, opened."""
        with self._parquet_errors(cell):
            return self._load(cell, SCORES, pq.ParquetFile, lambda content: pq.ParquetFile(pa.BufferReader(content)))

    @contextmanager
    def _parquet_errors(self, cell: str) -> Iterator[None]:
        """Convert the errors of Parquet to `Damaged`."""
        try:
            yield
        except (Damaged, UnsafePath, FileNotFoundError):
            raise
        except (pa.ArrowException, OSError) as error:
            raise Damaged(self.path(cell) / SCORES, str(error)) from error

    def arrays(self, cell: str, file: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of one safetensors file of a record; an empty dict if there is no such file."""
        try:
            return dict(self._load(cell, file, load_file, load))
        except FileNotFoundError:
            return {}
        except SafetensorError as error:
            raise Damaged(self.path(cell) / file, str(error)) from error

    # Parts of unfinished work

    def put_part(self, work: str, results: Mapping[str, Arrays], *, durable: bool = True) -> None:
        """Write the results of chunks of unfinished work as one part.

        durable: False = after a power cut it may be damaged, so that its chunks are computed again.
        """
        flat = {f"{chunk}/{key}": value for chunk, arrays in results.items() for key, value in arrays.items()}
        with self._writing():
            write_sealed(self.scratch(work), "part", array_file(flat), durable=durable)

    def parts(self, work: str) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """Yield the stored chunks of unfinished work with their results; damaged parts are skipped."""
        for path in find_sealed(self._partial(work), "part", self.root):
            results: dict[str, dict[str, NDArray[Any]]] = {}
            for name, value in (_load_arrays(path) or {}).items():
                chunk, _, key = name.partition("/")
                results.setdefault(chunk, {})[key] = value
            yield from results.items()

    def has_parts(self, work: str) -> bool:
        """Return True if an earlier run has stored chunks of this work."""
        return any(True for _ in find_sealed(self._partial(work), "part", self.root))

    def scratch(self, work: str) -> Path:
        """Return a folder for intermediate files of unfinished work, such as the checkpoint of a training."""
        return make_folder(self._partial(work), self.root)

    def keep(self, work: str, name: str, arrays: Arrays) -> None:
        """Write the intermediate state of a chunk of unfinished work; it replaces the one stored under that name."""
        with self._writing():
            new = write_sealed(self.scratch(work), name, array_file(arrays))
        for path in find_sealed(self._partial(work), name, self.root):
            if path != new:
                path.unlink(missing_ok=True)

    def kept(self, work: str, name: str) -> dict[str, NDArray[Any]] | None:
        """Return the state that `keep` stored under that name; None if there is none, or only a damaged one."""
        newest = max(
            find_sealed(self._partial(work), name, self.root), key=lambda path: path.stat().st_mtime_ns, default=None
        )
        return None if newest is None else _load_arrays(newest)

    def works(self) -> list[str]:
        """Return the ids of the works with parts or intermediate states."""
        return [path.name for path in sorted(check_path(self.root / "partial", self.root).iterdir())]

    def forget(self, work: str) -> None:
        """Remove the parts of finished work."""
        remove_tree(self._partial(work), self.root)

    def _partial(self, work: str) -> Path:
        return check_path(self.root / "partial" / _plain(work), self.root)

    def running(self) -> Path:
        """Return the folder of activity files, one per process of a run."""
        return make_folder(self.root / "running", self.root)

    # Failures

    def fail(self, cell: str, facts: Mapping[str, Any]) -> None:
        """Record why a cell failed; the next run tries it again."""
        with self._writing():
            write_verified_json(self._failure(cell), facts, self.root)

    def failure(self, cell: str) -> dict[str, Any] | None:
        """Return the record of a cell's last failure; None if there is none, or it is damaged."""
        try:
            facts = read_verified_json(self._failure(cell), self.root)
        except (FileNotFoundError, Damaged):
            return None
        return facts if all(isinstance(facts.get(key), str) for key in ("traceback", "reason")) else None

    def forget_failure(self, cell: str) -> None:
        """Remove the record of a cell's last failure, since it is tried again elsewhere."""
        if has_file(failure := self._failure(cell), self.root):
            failure.unlink(missing_ok=True)

    def _failure(self, cell: str) -> Path:
        return self.root / "failures" / f"{_plain(cell)}.json"

    def remove(self) -> None:
        """Delete the folder with all its content."""
        remove_tree(self.root)


def _plain(name: str) -> str:
    if not is_plain(name):
        raise UnsafePath(f"{name!r} is not a valid name of a result")
    return name


def _load_arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    try:
        return dict(load_file(path))
    except SafetensorError:
        return None


def score_table(columns: Arrays) -> Callable[[Path], None]:
    """Return a function that writes per-image columns as Parquet; equal columns give equal bytes."""
    table = pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    return lambda path: pq.write_table(table, path, compression="zstd")


def array_file(arrays: Arrays) -> Callable[[Path], None]:
    """Return a function that writes arrays as safetensors."""
    return lambda path: save_file({key: np.asarray(value, order="C") for key, value in arrays.items()}, path)
