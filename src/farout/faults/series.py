"""Series of all faults on one bench, with progress, and its outcome in sentences."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from farout import rng
from farout.faults.bench import Bench
from farout.faults.clock import clock_set_back
from farout.faults.damage import flipped_bytes, truncated_files
from farout.faults.disks import full_disks
from farout.faults.fault import Fault, Verdict
from farout.faults.kills import kills
from farout.faults.read_only import read_only_store
from farout.faults.stopped import stopped_worker
from farout.faults.twice import two_runs
from farout.progress import task

FAULTS: Mapping[str, Fault] = {
    "kills": Fault(kills, 1),
    "full disks": Fault(full_disks, 0.3),
    "changed bytes": Fault(flipped_bytes, 2),
    "files cut off": Fault(truncated_files, 0.5),
    "stopped worker": Fault(stopped_worker(5), 0.1),
}
"""Faults of `farout check --faults`."""
MACHINE: Mapping[str, Fault] = {
    "two runs": Fault(two_runs, 0.02),
    "clock set back": Fault(clock_set_back, 0.02),
    "read-only store": Fault(read_only_store, 0.01),
}
"""Faults that no detector can make worse: only `make faults` causes them too."""


def counts(kills: int, faults: Mapping[str, Fault] = FAULTS) -> dict[str, int]:
    """Return how often each fault is caused beside so many kills."""
    return {name: max(1, round(fault.per_kills * kills)) for name, fault in faults.items()}


def run_series(
    bench: Bench, times: Mapping[str, int], seed: int = 0, faults: Mapping[str, Fault] = FAULTS
) -> Iterator[Verdict]:
    """Compute the reference, then yield the verdict on every fault."""
    with task("the run that is left alone", sum(times.values()) + 1, unit="faults") as done:
        bench.run_reference()
        done(1)
    for name, count in times.items():
        yield _caused(bench, name, faults[name], count, seed)


def _caused(bench: Bench, name: str, fault: Fault, count: int, seed: int) -> Verdict:
    with task(name, 0, unit="faults") as done:
        return fault.cause(bench, count, random.Random(rng.seed_of(seed, "faults", name)), done)


def sentences(verdict: Verdict) -> Iterator[str]:
    """Yield what a fault did, in plain words."""
    what = ", ".join(f"{hit} {number}" for hit, number in sorted(verdict.hit.items()))
    how = f" ({verdict.means})" if verdict.means else ""
    good = "all results are there, equal to those of the run that was left alone, byte for byte"
    outcome = f"{len(verdict.problems)} problems" if verdict.problems else good
    yield f"{verdict.fault}{how}, {verdict.count} times: {outcome}"
    if what:
        yield f"  {what}"
    yield from (f"  {problem}" for problem in dict.fromkeys(verdict.problems))


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    return {**asdict(verdict), "hit": dict(verdict.hit)}
