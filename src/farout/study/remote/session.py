"""Sessions at an address: `farout run` computes in a local folder and sends results; readers fetch them."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farout.data.cache import cache_folder
from farout.files import holders
from farout.study.remote.address import Remote, RemoteError, is_address
from farout.study.remote.fetching import fetch
from farout.study.remote.owner import RemoteLock
from farout.study.remote.sending import Sender
from farout.study.store import Store, StoreError

SEND_SECONDS, UNFINISHED_SECONDS = 10.0, 300.0
"""Seconds between two times when finished results, and the states of unfinished work, are sent."""
TRIES, PAUSE = 4, 5.0
"""Number of tries to fetch results and to send the last ones, and seconds between the latter."""
log = logging.getLogger("farout")


def local_folder(address: str) -> Path:
    """Return the folder of this machine in which a run at an address is computed and read."""
    name = re.sub(r"\W+", "-", address.rstrip("/").rpartition("/")[2])[:40]
    key = hashlib.sha256(address.rstrip("/").encode()).hexdigest()[:16]
    return cache_folder() / "runs" / f"{name}-{key}"


def readable(place: str | Path, *, may_be_empty: bool = False) -> Path:
    """Return the folder of a run for a reader: that at an address is fetched first, unless it is computed here.

    may_be_empty: do not raise if the address holds no run.
    """
    if not isinstance(place, str) or not is_address(place):
        return Path(place)
    remote, folder = Remote(place), local_folder(place)
    if "plan.json" not in remote.list():
        if may_be_empty:
            return folder
        raise FileNotFoundError(f"{place} holds no run (no plan.json); give the address that `farout run` wrote to")
    if not holders(folder / ".lock"):
        store = Store(folder).open()
        with store.lock():
            _fetch_patiently(remote, store)
    return folder


def _fetch_patiently(remote: Remote, store: Store) -> None:
    """Fetch results; try again if the run that writes there has replaced a file meanwhile."""
    for left in reversed(range(TRIES)):
        try:
            fetch(remote, store, unfinished=False)
            return
        except RemoteError:
            if not left:
                raise


@contextmanager
def kept_at(address: str | None, store: Store) -> Iterator[None]:
    """Fetch what is at the address, and keep it up to date with the store within the block and at its end.

    The caller holds the lock of the store. None: there is no address.
    """
    if address is None:
        yield
        return
    remote = Remote(address)
    lock = RemoteLock(remote)
    with lock.held():
        sending = _Sending(Sender(remote, store, fetch(remote, store, unfinished=True)), lock, remote, store)
        sending.start()
        try:
            yield
        finally:
            sending.finish()


class _Sending(threading.Thread):
    """Thread that sends results every few seconds, as long as the lock is held."""

    def __init__(self, sender: Sender, lock: RemoteLock, remote: Remote, store: Store) -> None:
        super().__init__(daemon=True)
        self._sender, self._remote_lock, self._remote, self._store = sender, lock, remote, store
        self._ended, self._warned = threading.Event(), False

    def run(self) -> None:
        unfinished = time.monotonic()
        while not self._ended.wait(SEND_SECONDS):
            whole = time.monotonic() - unfinished >= UNFINISHED_SECONDS
            try:
                self._send(unfinished=whole)
                self._warned = False
            except OSError as error:
                self._warn(f"{error}; results stay in {self._store.root} and are sent as soon as possible")
            unfinished = time.monotonic() if whole else unfinished

    def _send(self, *, unfinished: bool) -> None:
        if self._remote_lock.lost:
            raise StoreError(f"another run has taken over {self._remote}: nothing more is sent there")
        self._sender.send(unfinished=unfinished)

    def _warn(self, text: str) -> None:
        if not self._warned:
            log.warning(text)
        self._warned = True

    def finish(self) -> None:
        """Send everything, with some patience."""
        self._ended.set()
        self.join()
        for left in reversed(range(TRIES)):
            try:
                self._remote_lock.beat()
                self._send(unfinished=True)
                return
            except OSError as error:
                if self._remote_lock.lost or not left:
                    kept = f"the results are kept in {self._store.root}, and the same command sends them"
                    raise StoreError(f"{error}; {kept}") from error
                time.sleep(PAUSE)
