"""A worker that is stopped (SIGSTOP) for a while, as by a debugger or a suspended virtual machine."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from farout.faults import watch
from farout.faults.bench import Bench, Running, finish_and_compare, last_words
from farout.faults.fault import Cause, Verdict

SECONDS = 60.0


def stopped_worker(seconds: float = SECONDS) -> Cause:
    """Return the function that stops a worker for so many seconds, once it computes something."""

    def cause(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
        verdict = Verdict(f"worker stopped for {seconds:.0f} s")
        for number in range(count):
            out = bench.folder / f"stopped-{number}"
            with bench.started(out) as running:
                _stop(running, rng, seconds, verdict)
                ended = running.wait()
            if ended.code:
                verdict.problems.append(f"{out} ended with exit code {ended.code}: {last_words(ended)}")
            verdict.problems += finish_and_compare(bench, out)
            done(1)
        return verdict

    return cause


def _stop(running: Running, rng: random.Random, seconds: float, verdict: Verdict) -> None:
    """Stop a worker that computes something for a while."""
    until = time.monotonic() + rng.uniform(0, 2)
    while running.alive:
        busy = [one for one in watch.workers(running.out) if one.phase != watch.BETWEEN]
        if busy and time.monotonic() > until:
            victim = rng.choice(busy)
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(victim.pid, signal.SIGCONT)
            verdict.caused(victim.phase)
            return
        time.sleep(0.003)
