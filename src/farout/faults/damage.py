"""Damaged files: one byte changed or the end cut off, in finished and unfinished runs."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from farout.api.run import Result, run
from farout.faults.bench import Bench
from farout.faults.fault import Verdict
from farout.files import files_in
from farout.progress import listening, silent
from farout.study.engines.run import Outcome
from farout.study.interval_cache import IntervalCache
from farout.study.records import RECORD
from farout.study.sessions import read_sessions
from farout.study.spec import StudySpec

AT_ONCE = 12
"""Largest number of files that are damaged before the study is run again, each of another result."""
UNFINISHED = 4
"""Every fourth time, the files of an interrupted run are damaged."""
Harm = Callable[[Path, random.Random], None]


def flipped_bytes(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Change one byte of a stored file, `count` times over all kinds of files."""
    return _damaged(Verdict("one changed byte in a stored file"), flip, bench, count, rng, done)


def truncated_files(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Cut off the end of a stored file, `count` times over all kinds of files."""
    return _damaged(Verdict("stored file cut off"), truncate, bench, count, rng, done)


def flip(path: Path, rng: random.Random) -> None:
    """Change one byte and neither size nor name; of JSON, not one space to another."""
    before = path.read_bytes()
    while True:
        content = bytearray(before)
        content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        if path.suffix != ".json" or not _same_json(before, bytes(content)):
            break
    path.write_bytes(bytes(content))


def _same_json(one: bytes, other: bytes) -> bool:
    with suppress(ValueError):
        return bool(json.loads(one) == json.loads(other))
    return False


def truncate(path: Path, rng: random.Random) -> None:
    """Cut the file off at a random byte."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def _damaged(
    verdict: Verdict, harm: Harm, bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]
) -> Verdict:
    """Damage files of a finished run and of an interrupted one in turns, and continue both."""
    finished, turn = _finished(bench, bench.folder / f"{harm.__name__}-finished"), 0
    while verdict.count < count:
        partial = turn % UNFINISHED == UNFINISHED - 1
        out = _interrupted(bench, rng, bench.folder / f"{harm.__name__}-{turn}") if partial else finished
        files = {path: path.read_bytes() for path in _select(out, verdict, rng, min(AT_ONCE, count - verdict.count))}
        for path in files:
            harm(path, rng)
            verdict.caused(kind_of(path, out))
        verdict.problems += [*_unnamed(bench, out, list(files)), *bench.differences(out)]
        for path, content in files.items():
            if path.relative_to(out).parts[0] not in ("cells", "partial"):  # named, and not computed again
                path.write_bytes(content)
        done(len(files))
        turn += 1
    return verdict


def _finished(bench: Bench, out: Path) -> Path:
    """Return the folder of a copy of the reference, with the intervals that a report keeps."""
    shutil.copytree(bench.reference, out)
    with _warnings(), listening(silent):
        assert Result(out, Outcome()).document
    return out


def _interrupted(bench: Bench, rng: random.Random, out: Path) -> Path:
    """Kill a run at a random moment at which it has stored intermediate states; return its folder."""
    results = rng.randrange(sum(1 for _ in (bench.reference / "cells").iterdir()))
    with bench.started(out) as running:
        while running.alive and not (_count(out, f"cells/*/{RECORD}") >= results and _count(out, "partial/*/[!.]*")):
            time.sleep(0.002)
    time.sleep(1)  # the workers end when the main process has ended
    shutil.rmtree(out / "running", ignore_errors=True)
    return out


def _count(out: Path, pattern: str) -> int:
    return sum(1 for _ in out.glob(pattern))


def _select(out: Path, verdict: Verdict, rng: random.Random, count: int) -> list[Path]:
    """Return files to damage, those of the kinds that were hit least first, and at most one of each result.

    Of an interrupted run, these are intermediate states: those computed from a damaged result are discarded unread.
    """
    below = out / "partial" if any((out / "partial").iterdir()) else out
    free = [path for path in files_in(below) if path.stat().st_size and not path.name.startswith(".")]
    rng.shuffle(free)
    hit, selected = verdict.hit.copy(), list[Path]()
    while free and len(selected) < count:
        path = min(free, key=lambda one: hit[kind_of(one, out)])
        hit[kind_of(path, out)] += 1
        selected.append(path)
        result = path.parent if path.parent.parent == out / "cells" else path
        free = [one for one in free if result not in (one, one.parent)]
    return selected


def kind_of(path: Path, out: Path) -> str:
    """Return the kind of a stored file: its name, or what its folder holds."""
    folder, *rest = path.relative_to(out).parts
    if folder == "partial":
        return f"intermediate {re.split(r'[-.]', path.name)[0]}"
    return path.name if folder == "cells" or not rest else f"{folder}/{path.suffix}"


def _unnamed(bench: Bench, out: Path, files: list[Path]) -> list[str]:
    """Run the study again in this process, and read what a report reads; return the damaged files that are not
    named."""
    with _warnings() as told:
        spec, plugins = StudySpec.read(bench.study), tuple(map(str, bench.plugins))
        outcome = run(spec, out, workers=0, plugins=plugins, progress=silent).outcome
        read_sessions(out)
        IntervalCache(out)
    if outcome.failed:
        return [f"{out}: {len(outcome.failed)} results fail after damage: {next(iter(outcome.failed.values()))}"]
    said = "\n".join([*outcome.damaged, *told])
    return [f"{path} was damaged and is not named" for path in files if str(path) not in said]


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect the warnings of farout within the block."""
    told, logger = list[str](), logging.getLogger("farout")
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield told
    finally:
        logger.removeHandler(handler)
