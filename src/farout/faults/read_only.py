"""A store that cannot be written: a read-only mount, or folders without write permission."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from farout.faults.bench import Bench, contents, finish_and_compare, last_words
from farout.faults.disks import run_as_root
from farout.faults.fault import Verdict
from farout.study.records import RECORD


def read_only_store(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Continue a run whose store is read-only: it is refused in one error, changes nothing, and goes on afterwards."""
    verdict = Verdict("read-only store")
    for number in range(count):
        out = bench.folder / f"read-only-{number}"
        shutil.copytree(bench.reference, out)
        for record in rng.sample(sorted(out.glob(f"cells/*/{RECORD}")), 3):
            shutil.rmtree(record.parent)
        before = contents(out)
        with _read_only(out) as verdict.means:
            ended = bench.finish(out)
            verdict.caused("at the start of a run")
        error = next((line for line in ended.text.splitlines() if line.startswith("error: ")), "")
        if ended.code != 2 or str(out) not in error or "Traceback" in ended.text:
            verdict.problems.append(f"exit code {ended.code} does not name {out}: {last_words(ended)}")
        if contents(out) != before:
            verdict.problems.append(f"{out} has changed while it was read-only")
        verdict.problems += finish_and_compare(bench, out)
        done(1)
    return verdict


@contextmanager
def _read_only(folder: Path) -> Iterator[str]:
    """Make a folder read-only within the block; yield how."""
    if run_as_root("mount", "--bind", str(folder), str(folder)):
        try:
            run_as_root("mount", "-o", "remount,bind,ro", str(folder))
            yield "mount -o remount,bind,ro"
        finally:
            run_as_root("umount", "-l", str(folder))
        return
    paths = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in paths:
        path.chmod(0o555)
    try:
        yield "chmod a-w: not root"
    finally:
        for path in paths:
            path.chmod(0o755)
