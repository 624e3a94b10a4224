"""Faults of the machine: full disks, read-only stores, two runs, a clock set back, a stopped worker."""

from __future__ import annotations

import os
import random

import pytest

from farout.faults import Bench, Verdict, clock, disks, stopped_worker
from farout.faults.bench import Ended
from farout.faults.clock import clock_set_back
from farout.faults.disks import full_disks
from farout.faults.read_only import read_only_store
from farout.faults.twice import two_runs

pytestmark = pytest.mark.skipif(not hasattr(os, "setsid"), reason="no process groups on this system")


def quiet(done: int) -> None: ...


@pytest.mark.parametrize("root", [True, False])
def test_a_full_disk_is_named_and_the_run_goes_on(
    bench: Bench, rng: random.Random, monkeypatch: pytest.MonkeyPatch, root: bool
) -> None:
    if not root:
        monkeypatch.setattr(disks, "run_as_root", lambda *command: False)
    verdict = full_disks(bench, 2, rng, quiet)
    assert verdict.problems == []
    assert verdict.count == 2
    assert ("tmpfs" if root and verdict.means.startswith("a tmpfs") else "RLIMIT_FSIZE") in verdict.means


def test_an_error_that_does_not_tell_of_the_disk_is_a_problem() -> None:
    verdict = Verdict("full disk")
    disks._judge(verdict, Ended(1, "error: KeyError: 'lost'"), quiet)
    disks._judge(verdict, Ended(2, "error: [Errno 28] No space left on device: 'x'"), quiet)
    disks._judge(verdict, Ended(0, ""), quiet)
    assert verdict.hit == {"at the start of a run": 2}
    assert verdict.problems == ["exit code 1 does not tell of the full disk: error: KeyError: 'lost'"]


def test_a_read_only_store_is_refused_by_name(bench: Bench, rng: random.Random) -> None:
    verdict = read_only_store(bench, 1, rng, quiet)
    assert (verdict.problems, verdict.count) == ([], 1)


def test_of_two_runs_on_one_store_both_are_right(bench: Bench, rng: random.Random) -> None:
    verdict = two_runs(bench, 1, rng, quiet)
    assert (verdict.problems, verdict.count) == ([], 1)


@pytest.mark.slow
@pytest.mark.parametrize("library", [True, False])
def test_a_clock_that_is_set_back_changes_nothing(
    bench: Bench, rng: random.Random, monkeypatch: pytest.MonkeyPatch, library: bool
) -> None:
    if not library:
        monkeypatch.setattr(clock, "LIBRARIES", ())
    verdict = clock_set_back(bench, 1, rng, quiet)
    assert (verdict.problems, verdict.count) == ([], 1)


@pytest.mark.slow
def test_a_stopped_worker_goes_on(bench: Bench, rng: random.Random) -> None:
    with_workers = Bench(bench.folder, bench.study, workers=1)
    verdict = stopped_worker(0.5)(with_workers, 1, rng, quiet)
    assert verdict.problems == []
