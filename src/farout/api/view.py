"""Live view of a run folder: its status and the tables so far, for a page in the browser."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from farout.files import holders
from farout.progress import listening, silent
from farout.protocols.document import document
from farout.report.content import Document
from farout.report.html import render
from farout.report.live.page import frame, tables
from farout.report.live.server import LiveServer, Page, json_page
from farout.study.interval_cache import IntervalCache
from farout.study.remote.address import Remote, is_address
from farout.study.remote.owner import is_active
from farout.study.remote.session import readable
from farout.study.results import Results
from farout.study.status import Status, StatusReader

READ_SECONDS = 1.0
"""Smallest number of seconds between two readings of the folder, however many pages ask."""
FETCH_SECONDS = 15.0
"""Seconds between two times when a run at an address is fetched."""
WATCHED_SECONDS = 30.0
"""Seconds after the last question of a page in which tables are still computed."""
SHARE = 5
"""Tables are computed at most this fraction of the time, 1/5, so that the run keeps its cores."""
SANDBOX = "sandbox allow-scripts allow-downloads allow-modals"
"""Policy of the report, which thereby cannot ask this server anything."""


class RunView:
    """Content of the pages of one run. Nothing in the folder is changed."""

    def __init__(self, place: str | Path) -> None:
        self._place, self._lock = place, threading.Lock()
        folder, self._active = readable(place).absolute(), False
        elsewhere = None
        if is_address(place) and not holders(folder / ".lock"):  # else it is computed on this machine
            self._active = is_active(Remote(str(place)))
            elsewhere = lambda: self._active  # noqa: E731
        self._copied, self._reader = elsewhere is not None, StatusReader(folder, elsewhere)
        self._status = self._reader.read()
        self._read_at, self._asked_at, self._problem = time.monotonic(), 0.0, ""
        self._document: Document | None = None
        self._tables, self._version = "<p>Tables are computed from the results so far …</p>", 0
        self._intervals: IntervalCache | None = None

    def pages(self) -> dict[str, Page]:
        """Return the pages by name."""
        return {
            "": frame(str(self._place)), "status.json": json_page(self.status), "tables": Page(lambda: self._tables),
            "report": Page(self._report, policy=SANDBOX),
        }  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Return the status for the page's script; while the folder cannot be read, the last one and the reason."""
        self._asked_at = time.monotonic()
        status, problem = self._current()
        progress = status.progress
        return {
            **status._asdict(), "parts": [part._asdict() for part in status.parts],
            "current": [one._asdict() for one in status.current],
            "failures": [one._asdict() for one in status.failures],
            "images": progress._asdict() if progress else None, "left": status.seconds_left,
            "tables": self._version, "problem": problem,
        }  # fmt: skip

    def _current(self) -> tuple[Status, str]:
        with self._lock:
            if time.monotonic() - self._read_at >= READ_SECONDS:
                try:
                    self._status, self._problem = self._reader.read(), ""
                except (OSError, ValueError) as error:
                    self._problem = str(error)
                self._read_at = time.monotonic()
            return self._status, self._problem

    def fetch(self, ended: threading.Event) -> None:
        """Fetch a run at an address again and again, until the event."""
        while self._copied and not ended.wait(FETCH_SECONDS):
            with suppress(OSError):
                readable(self._place)
                self._active = is_active(Remote(str(self._place)))

    def compute_tables(self, ended: threading.Event) -> None:
        """Compute the tables again whenever there are new results and somebody looks, until the event."""
        seen, pause = (-1, -1), READ_SECONDS
        while not ended.wait(pause):
            pause = READ_SECONDS
            status, problem = self._current()
            if problem or (status.done, status.failed) == seen or not self._watched():
                continue
            seen, began = (status.done, status.failed), time.monotonic()
            self._compute()
            pause = max(READ_SECONDS, (SHARE - 1) * (time.monotonic() - began))

    def _watched(self) -> bool:
        return self._asked_at > 0 and time.monotonic() - self._asked_at < WATCHED_SECONDS

    def _compute(self) -> None:
        """Compute tables from the results stored by now; a folder that vanishes meanwhile leaves the last ones."""
        try:
            results = Results(self._reader.store.root)
            self._intervals = results.intervals = self._intervals or _KeptIntervals(self._reader.store.root)
            self._document = document(results)
        except (OSError, ValueError):
            return
        self._tables, self._version = tables(self._document), self._version + 1

    def _report(self) -> str:
        if self._document is None:
            return "<!doctype html><title>farout</title><p>No results yet; reload this page later.</p>"
        return render(self._document)


class _KeptIntervals(IntervalCache):
    """Intervals that are kept in memory, since the folder must not be written."""

    def save(self, finished: bool = True) -> None:
        """Keep the intervals that were used for the next tables."""
        self._stored |= self._used


class Viewing:
    """Server of the live view of a run folder; `serve` answers until it is interrupted."""

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        self._view = RunView(folder)
        self._server = LiveServer(self._view.pages(), port)
        self.url = self._server.url
        """Address of the page, which holds the token."""

    def serve(self) -> None:
        """Answer requests until `close`, or an interrupt."""
        ended = threading.Event()
        tasks = (self._view.compute_tables, self._view.fetch)
        with listening(silent):
            for task in tasks:
                threading.Thread(target=task, args=(ended,), daemon=True).start()
            try:
                self._server.serve_forever(poll_interval=0.1)
            finally:
                ended.set()
                self._server.server_close()

    def close(self) -> None:
        """End `serve`, from another thread."""
        self._server.shutdown()
