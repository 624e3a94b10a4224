"""Two runs on one store at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from farout.faults.bench import Bench, finish_and_compare, last_words
from farout.faults.fault import Verdict

REFUSAL = "another run is writing to"


def two_runs(bench: Bench, count: int, rng: random.Random, done: Callable[[int], None]) -> Verdict:
    """Start the same command twice, at about the same time: one is refused by name, and one finishes."""
    verdict = Verdict("two runs on one store")
    for number in range(count):
        out = bench.folder / f"twice-{number}"
        with bench.started(out) as first:
            time.sleep(rng.uniform(0, 0.5))
            with bench.started(out) as second:
                ends = [one.wait() for one in (first, second)]
        refused = [end for end in ends if end.code == 2 and REFUSAL in end.text]
        finished = [end for end in ends if end.code == 0]
        if len(refused) + len(finished) < 2 or not finished:
            verdict.problems += [f"{out}: exit code {end.code}: {last_words(end)}" for end in ends]
        verdict.caused("the second was refused" if refused else "both finished, one after the other")
        verdict.problems += finish_and_compare(bench, out)
        done(1)
    return verdict
