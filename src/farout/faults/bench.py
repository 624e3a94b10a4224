"""Bench: one study that is run in processes of its own, and compared with a run that was left alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from farout.faults import often
from farout.faults.starting import Started, start_fresh, start_warm
from farout.files import files_in, sha256
from farout.study.records import RECORD, Damaged
from farout.study.store import Store

DEADLINE = 1800.0
"""Seconds that a run may take before it counts as hanging."""


class Ended(NamedTuple):
    """Exit code of a command and everything that it printed."""

    code: int
    text: str


class Hangs(RuntimeError):
    """A run has not ended."""


@dataclass
class Running:
    """A `farout run` that was started."""

    process: Started
    out: Path
    log: Path
    workers: int

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self.process.poll() is None

    def wait(self, seconds: float = DEADLINE) -> Ended:
        """Return how it ended."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Hangs(f"the run has not ended within {seconds:.0f} s; its output: {self._text()[-500:]}") from None
        return Ended(code, self._text())

    def _text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class Bench:
    """Study that is run again and again, below one folder."""

    folder: Path
    study: Path
    plugins: tuple[Path, ...] = ()
    workers: int = 2

    @property
    def reference(self) -> Path:
        """Folder of the run that is left alone."""
        return self.folder / "reference"

    def command(self, out: Path, workers: int | None = None) -> list[str]:
        """Return the command line that runs the study, and continues it."""
        plugins = (Path(often.__file__), *self.plugins)
        options = ["--out", out, "--workers", self.workers if workers is None else workers, "--quiet"]
        options += [part for plugin in plugins for part in ("--plugin", plugin)]
        return [sys.executable, "-m", "farout", "run", str(self.study), *map(str, options)]

    @contextmanager
    def started(
        self, out: Path, *, workers: int | None = None, prefix: Sequence[str] = (), environment: Mapping[str, str] = {}
    ) -> Iterator[Running]:
        """Start the study in a process, which is killed at the end of the block if it still runs.

        prefix, environment: a command that starts the study's, and variables; a process with either is a new program.
        """
        log = self.folder / "logs" / f"{out.name}-{time.monotonic_ns()}.txt"
        log.parent.mkdir(exist_ok=True)
        if prefix or environment:
            process = start_fresh([*prefix, *self.command(out, workers)], log, self.folder, environment)
        else:
            process = start_warm(self.command(out, workers)[3:], log, self.folder)
        try:
            yield Running(process, out, log, self.workers if workers is None else workers)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait(DEADLINE)

    def finish(self, out: Path, workers: int | None = None, environment: Mapping[str, str] = {}) -> Ended:
        """Run the study to its end."""
        with self.started(out, workers=workers, environment=environment) as running:
            return running.wait()

    def run_reference(self) -> float:
        """Compute the run that the others are compared with; return its seconds. Raise RuntimeError if it fails."""
        began = time.monotonic()
        ended = self.finish(self.reference)
        seconds = time.monotonic() - began
        if ended.code:
            raise RuntimeError(f"the study fails already without any fault:\n{ended.text.strip()}")
        again = self.finish(self.reference)
        if "\n0 results computed" not in again.text:
            raise RuntimeError(
                "the same command computes finished results again, so that nothing can be resumed: the detector has no "
                f"identity that other processes can tell; give it identity() -> its name, version and parameters\n"
                f"{again.text.strip()}"
            )
        return seconds

    @cached_property
    def expected(self) -> dict[str, str]:
        """Checksums of the files of the reference's results."""
        return contents(self.reference)

    def differences(self, out: Path) -> list[str]:
        """Return what a finished run lacks, holds too much or holds otherwise than the reference, in words."""
        found, store = contents(out), Store(out)
        wrong = [
            f"{out / 'cells' / name} {'differs from' if name in found else 'is missing, unlike in'} the run that was "
            f"left alone ({self.title(name.partition('/')[0])})"
            for name, checksum in self.expected.items()
            if found.get(name) != checksum
        ]
        damaged = [why for cell in sorted(results(out)) if (why := store.damaged(cell))]
        left = [f"{path} was left behind" for path in files_in(out / "partial", out)]
        failed = [f"{path} still tells of a failure" for path in files_in(out / "failures", out)]
        return [*wrong, *damaged, *left, *failed]

    def title(self, cell: str) -> str:
        """Return what a result of the reference is, in words."""
        try:
            return str(Store(self.reference).facts(cell).get("title", cell))
        except (FileNotFoundError, Damaged):
            return cell


def contents(root: Path) -> dict[str, str]:
    """Return the checksums of the bytes of all files of results, whatever their records say; without the records, which
    tell when they were made."""
    store = Store(root)
    files = (path for path in files_in(root / "cells", root) if path.name != RECORD)
    found = {f"{path.parent.name}/{path.name}": sha256(path, root) for path in files}
    for cell in store.packs.cells():
        if not store.damaged(cell):
            names = store.facts(cell)["files"]
            found |= {f"{cell}/{name}": hashlib.sha256(store.read(cell, name)).hexdigest() for name in names}
    return found


def results(root: Path) -> set[str]:
    """Return the ids of the results in the folders and packs of a run."""
    folders = {path.parent.name for path in (root / "cells").glob(f"[!.]*/{RECORD}")}
    return folders | Store(root).packs.cells()


def finish_and_compare(bench: Bench, out: Path) -> list[str]:
    """Run the study to its end with the same command, and return what is wrong."""
    ended = bench.finish(out)
    if ended.code:
        return [f"the same command ended with exit code {ended.code} instead of finishing {out}: {last_words(ended)}"]
    return bench.differences(out)


def last_words(ended: Ended) -> str:
    """Return the end of what a command printed."""
    return " ".join(ended.text.split())[-400:] or "it printed nothing"
