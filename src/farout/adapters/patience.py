"""Log messages while an answer is awaited."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LOG = logging.getLogger("farout")
NOTICE = 10.0
"""Seconds without an answer after which, and between which, the log says so."""


@dataclass
class Waiting:
    """An answer that is awaited: from whom, and what is being tried."""

    who: str
    state: str = ""


@contextmanager
def noticed(waiting: Waiting) -> Iterator[None]:
    """While this lasts, warn in the log every `NOTICE` seconds that there is no answer yet."""
    done = threading.Event()
    start = time.monotonic()

    def warn() -> None:
        while not done.wait(NOTICE):
            LOG.warning("%s: no answer for %.0f s (%s)", waiting.who, time.monotonic() - start, waiting.state)

    thread = threading.Thread(target=warn, name="farout-notices", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
