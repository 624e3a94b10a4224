"""Time that a study spends on its store, its scheduler and its intervals, as a share of all it takes.

The study of `benchmarks.throughput` is computed in this process, so that every part can be timed. All times are seconds
of the processor, which a busy machine does not change; writing through to the disk is timed by the clock and shown
apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import farout
from benchmarks.throughput import study
from farout.metrics import bootstrap
from farout.protocols import plan
from farout.study import interval_cache
from farout.study.engines.performer import Performer
from farout.study.store import Store
from farout.study.study import from_spec

STORE = ("write", "facts", "content", "has", "put_part", "parts", "keep", "kept", "forget", "scores", "arrays")
LIMIT = 0.02
"""Largest share that store, scheduler and intervals together should have."""


class Stopwatch:
    """Seconds by part; time within a part of another name counts for the inner one."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._parts, self._since = ["scheduler"], time.process_time()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time until the block ends for this part."""
        self._switch()
        self._parts.append(name)
        try:
            yield
        finally:
            self._switch()
            self._parts.pop()

    def _switch(self) -> None:
        now = time.process_time()
        self.seconds[self._parts[-1]] += now - self._since
        self._since = now

    def timing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its time counted for a part."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed


def main(arguments: Sequence[str] = ()) -> None:
    """Print the seconds and the share of every part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="length of the study, about in minutes on two cores")
    given = parser.parse_args(list(arguments))
    watch, waited = Stopwatch(), Counter[str]()

    def synced(number: int, sync: Callable[[int], None] = os.fsync) -> None:
        began = time.perf_counter()
        sync(number)
        waited["disk"] += time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder, watch.part("planning"):
        made = from_spec(study(Path(folder), given.scale))
        plan(made)
        for name in STORE:
            patch.object(Store, name, watch.timing("store", getattr(Store, name))).start()
        for name in ("compute", "finish"):
            patch.object(Performer, name, watch.timing("computing", getattr(Performer, name))).start()
        patch.object(os, "fsync", synced).start()
        intervals = watch.timing("intervals", bootstrap.bootstrap_intervals)
        patch.object(interval_cache, "bootstrap_intervals", intervals).start()
        with watch.part("scheduler"):
            result = farout.run(made, Path(folder) / "run", workers=0)
        with watch.part("report"):
            result.report(Path(folder) / "report.html")
        patch.stopall()
    total = sum(watch.seconds.values())
    print(f"\n{'part':<16}{'seconds':>10}{'share':>9}")
    for name, seconds in watch.seconds.most_common():
        print(f"{name:<16}{seconds:>10.2f}{seconds / total:>9.2%}")
    share = sum(watch.seconds[name] for name in ("store", "scheduler", "intervals")) / total
    print(f"store, scheduler and intervals: {share:.2%} (goal: at most {LIMIT:.0%})")
    print(f"waiting for the disk: {waited['disk']:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
