"""Fetching the files of `farout.data.urls`, once, with their checksums verified."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pooch

from farout.data.urls import SOURCES
from farout.progress import BYTES, PATIENCE, Event, Listener, shown

_TIMEOUT = 30
_CHUNK = 1 << 16

pooch.get_logger().setLevel("WARNING")


class DownloadError(OSError):
    """A file that could not be had from any of its addresses."""


class NotDownloaded(DownloadError):
    """A file that is not there, while nothing may be downloaded."""


_absent: ContextVar[dict[str, str] | None] = ContextVar("absent", default=None)
"""While nothing may be downloaded: what was asked for and is not there, with where it would come from."""


@contextmanager
def offline() -> Iterator[dict[str, str]]:
    """Download nothing within the block: what is not there raises `NotDownloaded`, and is added to what is yielded."""
    absent: dict[str, str] = {}
    token = _absent.set(absent)
    try:
        yield absent
    finally:
        _absent.reset(token)


def cache_folder() -> Path:
    """Where downloads are kept: `$FAROUT_DATA`, else the user's cache folder."""
    return Path(os.environ.get("FAROUT_DATA") or pooch.os_cache("farout"))


def fetch(key: str) -> Path:
    """The file `key` of `SOURCES`, from the cache folder or downloaded into it.

    It appears there whole and verified, or not at all.
    """
    path, failures = cache_folder() / key, []
    if _absent.get() is not None:
        expect(key)
        return path
    for url in SOURCES[key].urls:
        try:
            return _retrieve(url, SOURCES[key].checksum, path)
        except (OSError, ValueError) as error:
            if (refusal := getattr(error, "response", None)) is not None:
                refusal.close()  # else its socket stays open until it is collected
            failures.append((url, error))
    raise DownloadError(_advice(key, path, failures))


def expect(*keys: str) -> None:
    """Announce files of `SOURCES` that will be fetched, so that all of them are told where nothing is downloaded."""
    expect_from({key: SOURCES[key].urls[0] for key in keys if not _verified(key)})


def expect_from(absent: dict[str, str]) -> None:
    """Announce what will be downloaded from anywhere, by name with its address: an error within `offline`."""
    told = _absent.get()
    if told is not None and absent:
        told |= absent
        raise NotDownloaded(f"not downloaded yet: {', '.join(absent)}")


def _verified(key: str) -> bool:
    """Is the file there, with its checksum? Looked at where nothing is downloaded only: `fetch` sees for itself."""
    algorithm, checksum = SOURCES[key].checksum.split(":")
    path = cache_folder() / key
    return _absent.get() is None or (path.is_file() and pooch.file_hash(str(path), alg=algorithm) == checksum)


def _retrieve(url: str, checksum: str, path: Path) -> Path:
    once = {"Connection": "close"}  # else the socket stays open until it is collected
    with shown(patience=PATIENCE) as listener:
        counter: Any = _Counter(listener, f"downloading {path.name}")
        downloader = pooch.HTTPDownloader(progressbar=counter, chunk_size=_CHUNK, timeout=_TIMEOUT, headers=once)
        found = pooch.retrieve(url, checksum, fname=path.name, path=path.parent, downloader=downloader)
    return Path(found)


class _Counter:
    """Reports bytes, in the form of a progress bar that `pooch.HTTPDownloader` takes."""

    def __init__(self, listener: Listener, title: str) -> None:
        self._listener, self._title, self._total, self._done = listener, title, 0, 0

    @property
    def total(self) -> int:
        """Bytes to come."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._listener(Event(self._title, total=size - self._total, unit=BYTES))
        self._total = size

    def update(self, size: int) -> None:
        """Count bytes that have come."""
        self._listener(Event(self._title, size, unit=BYTES))
        self._done += size

    def reset(self) -> None:
        """Start again at none."""
        self.update(-self._done)

    def close(self) -> None:
        """Nothing is left to do: the listener outlives the file."""


def _advice(key: str, path: Path, failures: Sequence[tuple[str, Exception]]) -> str:
    """What was tried, why it failed, and what to do by hand."""
    tried = "\n".join(f"  {url}\n    {_reason(error)}" for url, error in failures)
    algorithm, checksum = SOURCES[key].checksum.split(":")
    found = pooch.file_hash(str(path), alg=algorithm) if path.exists() else None
    other = f"\nThe file that lies there now is another one: its {algorithm} is {found}." if found else ""
    return (
        f"cannot download {key}; tried\n{tried}\n"
        f"If this machine has no network, fetch the file elsewhere and put it at\n  {path}\n"
        f"It is used if its {algorithm} is {checksum}.{other}\n"
        "The environment variable FAROUT_DATA names another folder than the default."
    )


def _reason(error: Exception) -> str:
    """The error in a line; pooch reports a wrong checksum as ValueError."""
    return f"wrong checksum: {error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
