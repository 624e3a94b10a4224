"""Log messages while waiting for a response."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LOG = logging.getLogger("farout")
NOTICE = 10.0
"""Seconds between log messages while there is no response."""


@dataclass
class Waiting:
    """Pending request: the endpoint, and the current attempt."""

    name: str
    state: str = ""


@contextmanager
def warn_while_waiting(waiting: Waiting) -> Iterator[None]:
    """Log a warning every `NOTICE` seconds inside the block."""
    done = threading.Event()
    start = time.monotonic()

    def warn() -> None:
        while not done.wait(NOTICE):
            LOG.warning("%s: no answer for %.0f s (%s)", waiting.name, time.monotonic() - start, waiting.state)

    thread = threading.Thread(target=warn, name="farout-notices", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
