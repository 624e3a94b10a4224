"""Where results live: records that exist whole or not at all, parts of unfinished work, and failures.

cells/<id>/    record.json, and what the cell made: scores.parquet, state.safetensors, examples.safetensors
partial/<id>/  finished chunks of work that is not finished; gone once it is
failures/<id>.json   why a cell failed last time; gone once it succeeds
running/       what each process of the run is computing; gone once it ends
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from farout.data.writing.whole import sync

Arrays = Mapping[str, NDArray[Any]]


class StoreError(OSError):
    """The store cannot be written or read, or is in use."""


class Store:
    """A folder of results."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def open(self) -> Store:
        """Make the folders and prove that they can be written, before any long work."""
        try:
            for name in ("cells", "partial", "failures", "running"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            probe = self.root / f".probe-{uuid.uuid4().hex}"
            probe.write_bytes(b"farout")
            probe.unlink()
        except OSError as error:
            raise StoreError(
                f"cannot write results to {self.root}: {error.strerror or error}; choose another folder with --out"
            ) from error
        return self

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the store for one run; the lock goes with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            yield
            return
        with (self.root / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    f"another run is writing to {self.root}; wait for it or choose another folder with --out"
                ) from error
            self._sweep()
            yield

    def _sweep(self) -> None:
        """Remove what runs that were killed had not finished writing."""
        for place in (".*-????????????????????????????????", "cells/.*", "failures/.*", "partial/*/.*"):
            for path in self.root.glob(place):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    # Records

    def has(self, cell: str) -> bool:
        """Is there a result, with all its files? What a damaged disk has left of one is as good as none."""
        try:
            files = self.facts(cell)["files"]
            return all((self.path(cell) / name).stat().st_size == size for name, size in files.items())
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return False

    def path(self, cell: str) -> Path:
        """The folder of a cell's record."""
        return self.root / "cells" / cell

    def write(self, cell: str, facts: Mapping[str, Any], files: Mapping[str, Callable[[Path], None]]) -> None:
        """Write a record: `facts` and the files that the functions make. All of it appears at once."""
        with self._staged(self.path(cell)) as folder:
            for name, make in files.items():
                make(folder / name)
            sizes = {name: (folder / name).stat().st_size for name in files}
            (folder / "record.json").write_text(json.dumps({**facts, "files": sizes}, indent=1, sort_keys=True))
        (self.root / "failures" / f"{cell}.json").unlink(missing_ok=True)

    def facts(self, cell: str) -> dict[str, Any]:
        """The small facts of a record."""
        facts: dict[str, Any] = json.loads((self.path(cell) / "record.json").read_text())
        return facts

    def scores(self, cell: str) -> NDArray[np.float64]:
        """The per-image scores of a record."""
        return self.column(cell, "score")

    def columns(self, cell: str) -> list[str]:
        """The per-image columns of a record."""
        names: list[str] = pq.read_schema(self.path(cell) / "scores.parquet").names
        return names

    def column(self, cell: str, name: str) -> NDArray[Any]:
        """One per-image column of a record."""
        table = pq.read_table(self.path(cell) / "scores.parquet", columns=[name])
        column: NDArray[Any] = table.column(name).to_numpy()
        return column

    def arrays(self, cell: str, file: str) -> dict[str, NDArray[Any]]:
        """The arrays in one safetensors file of a record; none where there is no such file."""
        path = self.path(cell) / file
        return dict(load_file(path)) if path.exists() else {}

    # Parts of unfinished work

    def put_part(self, work: str, results: Mapping[str, Arrays]) -> None:
        """Keep the results of some chunks of unfinished work."""
        flat = {f"{chunk}/{key}": value for chunk, arrays in results.items() for key, value in arrays.items()}
        temporary = self.scratch(work) / f".{uuid.uuid4().hex}"
        array_file(flat)(temporary)
        sync([temporary])
        temporary.rename(temporary.with_name(f"part-{uuid.uuid4().hex}.safetensors"))

    def parts(self, work: str) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """The kept chunks of unfinished work with their results; a damaged part is as good as none."""
        for path in sorted((self.root / "partial" / work).glob("part-*.safetensors")):
            results: dict[str, dict[str, NDArray[Any]]] = {}
            try:
                arrays = load_file(path)
            except (OSError, SafetensorError):
                path.unlink(missing_ok=True)
                continue
            for name, value in arrays.items():
                chunk, _, key = name.partition("/")
                results.setdefault(chunk, {})[key] = value
            yield from results.items()

    def has_parts(self, work: str) -> bool:
        """Has an earlier run kept chunks of this work?"""
        return any((self.root / "partial" / work).glob("part-*.safetensors"))

    def scratch(self, work: str) -> Path:
        """A folder for what unfinished work keeps for itself (a training's checkpoint)."""
        folder = self.root / "partial" / work
        folder.mkdir(exist_ok=True)
        return folder

    def keep(self, work: str, name: str, arrays: Arrays) -> None:
        """Keep what a chunk of unfinished work has come to; it takes the place of what was kept by that name."""
        temporary = self.scratch(work) / f".{uuid.uuid4().hex}"
        array_file(arrays)(temporary)
        sync([temporary])
        temporary.replace(temporary.with_name(f"{name}.safetensors"))

    def kept(self, work: str, name: str) -> dict[str, NDArray[Any]] | None:
        """What `keep` kept by that name; None where there is nothing, or nothing whole."""
        try:
            return dict(load_file(self.root / "partial" / work / f"{name}.safetensors"))
        except (OSError, SafetensorError):
            return None

    def forget(self, work: str) -> None:
        """Drop the parts of work that is finished."""
        shutil.rmtree(self.root / "partial" / work, ignore_errors=True)

    def running(self) -> Path:
        """The folder of activity notes, one per process of a run."""
        return self.root / "running"

    # Failures

    def fail(self, cell: str, facts: Mapping[str, Any]) -> None:
        """Record why a cell failed; it is tried again next time."""
        self.put_json(f"failures/{cell}.json", facts)

    def failure(self, cell: str) -> dict[str, Any] | None:
        """Why a cell failed last time, if it did."""
        path = self.root / "failures" / f"{cell}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def put_json(self, name: str, value: Any) -> None:
        """Write a JSON file whole or not at all."""
        target = self.root / name
        temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True))
        sync([temporary])
        temporary.replace(target)

    def remove(self) -> None:
        """Delete the folder and all there is in it."""
        shutil.rmtree(self.root, ignore_errors=True)

    @contextmanager
    def _staged(self, target: Path) -> Iterator[Path]:
        """A temporary folder that becomes `target` if all goes well and vanishes if not."""
        temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
        temporary.mkdir(parents=True)
        try:
            yield temporary
            sync([*temporary.iterdir(), temporary])
            if target.exists():  # an older run got here first: same identity, same result
                shutil.rmtree(target)
            temporary.rename(target)
            sync([target.parent])
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def score_table(columns: Arrays) -> Callable[[Path], None]:
    """Writer of per-image columns as Parquet; equal columns give equal bytes."""
    table = pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})
    return lambda path: pq.write_table(table, path, compression="zstd")


def array_file(arrays: Arrays) -> Callable[[Path], None]:
    """Writer of arrays as safetensors."""
    return lambda path: save_file({key: np.asarray(value, order="C") for key, value in arrays.items()}, path)
