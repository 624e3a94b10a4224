"""SIGKILL of the main process and of workers, at random moments of all phases."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from farout.faults import watch
from farout.faults.bench import Bench, Ended, Running, finish_and_compare, last_words
from farout.faults.fault import Verdict
from farout.faults.watch import BETWEEN, PHASES, WRITING, Busy
from farout.study.records import RECORD

LONGEST = 1.5
"""Largest number of seconds from the moment that a kill is due, at random, to be waited for."""
ALONE, MAIN_FRACTION = 0.4, 0.3
"""Fraction of the runs without workers, where every kill hits the main process; and fraction of the kills of the others
that do. A run goes on when a worker is killed."""
POLL = 0.003
"""Seconds between two looks at a run."""


def kills(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Kill processes of runs `count` times; every run is continued by the same command until it is finished.

    The moments are random. A phase that has had its share of kills already is passed over, so that short phases are
    hit as often as long ones.
    """
    verdict = Verdict("SIGKILL of the main process or a worker")
    killer, number = _Killer(verdict, count, rng, done), 0
    while verdict.count < count:
        out = bench.folder / f"killed-{number}"
        number += 1
        killer.kept, killer.share = {}, killer.share + count / len(PHASES)
        while killer.wants_more:
            with bench.started(out, workers=0 if rng.random() < ALONE else None) as running:
                killer.attend(running)
                ended = running.wait()
            killer.judge(out, ended)
            if ended.code == 0:
                break
        verdict.problems += finish_and_compare(bench, out)
        killer.judge_kept(out)
    return verdict


class _Killer:
    """Kills processes of one run after another, and checks that nothing finished is lost."""

    def __init__(self, verdict: Verdict, count: int, rng: random.Random, done: Callable[[int], None]) -> None:
        self.verdict, self.count, self.rng, self.done = verdict, count, rng, done
        self.kept: dict[str, int] = {}
        """Finished results at the last kill, with the inodes of their records."""
        self.phases = dict.fromkeys(PHASES, 0)
        self.share = 0.0
        """Kills of each phase after which it is passed over; larger with every run, since some phases are rare."""
        self._dead: set[int] = set()

    @property
    def wants_more(self) -> bool:
        return self.verdict.count < self.count

    def attend(self, running: Running) -> None:
        """Kill workers of a run until it has ended, or until its main process is killed."""
        while running.alive and self.wants_more:
            alone = running.workers == 0 or self.rng.random() < MAIN_FRACTION
            role = "main process" if alone else "worker"
            victim = self._victim(running, role)
            if victim is not None and self._kill(running, victim, role) and role == "main process":
                return

    def _victim(self, running: Running, role: str) -> Busy | None:
        """Wait for a random moment at which a process of this role is in a phase that needs kills."""
        due = time.monotonic() + self.rng.uniform(0, LONGEST)
        while running.alive:
            if time.monotonic() >= due:
                busy = self._candidates(running, role)
                wanted = [one for one in busy if one.pid not in self._dead and self.phases[one.phase] < self.share]
                if wanted:
                    return self.rng.choice(wanted)
            time.sleep(POLL)
        return None

    def _candidates(self, running: Running, role: str) -> list[Busy]:
        if role == "worker":
            return watch.workers(running.out)
        return [watch.main(running.out, running.process.pid)]

    def _kill(self, running: Running, victim: Busy, role: str) -> bool:
        """Kill a process, and count the kill by the phase that it was in."""
        kept = records(running.out)
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        if role == "main process":
            running.process.wait()
        phase = victim.phase
        if phase == WRITING and victim.pid not in watch.writers(running.out):
            phase = BETWEEN  # the file was complete before the signal arrived
        self.kept |= kept
        self._dead.add(victim.pid)
        self.phases[phase] += 1
        self.verdict.caused(f"{role}, {phase}")
        self.done(1)
        return True

    def judge(self, out: Path, ended: Ended) -> None:
        """Check how a run has ended: killed, finished, or with failures that it names."""
        if ended.code != -signal.SIGKILL and "Traceback (most recent call last)" in ended.text:
            self.verdict.problems.append(f"{out} printed a traceback: {last_words(ended)}")
        if ended.code not in (0, 1, -signal.SIGKILL) or (ended.code == 1 and "failed: " not in ended.text):
            self.verdict.problems.append(f"{out} ended with exit code {ended.code}: {last_words(ended)}")

    def judge_kept(self, out: Path) -> None:
        """Check that the results that were there when processes were killed have not been computed again."""
        now = records(out)
        lost = [cell for cell, inode in self.kept.items() if now.get(cell) != inode]
        if lost:
            self.verdict.problems.append(f"{out}: {len(lost)} finished results were computed again, as {lost[0]}")


def records(out: Path) -> dict[str, int]:
    """Return the finished results of a run with the inodes of their records: new ones if they are written again."""
    found = {}
    for path in (out / "cells").glob(f"[!.]*/{RECORD}"):
        with suppress(FileNotFoundError):
            found[path.parent.name] = path.stat().st_ino
    return found
