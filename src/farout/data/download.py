"""Download the files of `farout.data.urls` once into the cache folder and verify their checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pooch

from farout.data.cache import cache_folder
from farout.data.stamps import Files
from farout.data.urls import SOURCES
from farout.identity import Json
from farout.progress import BYTES, PATIENCE, Event, Listener, shown

_TIMEOUT = 30
_CHUNK = 1 << 16

pooch.get_logger().setLevel("WARNING")


class DownloadError(OSError):
    """Error for a file that could not be downloaded from any of its addresses."""


class NotDownloaded(DownloadError):
    """Error for a file that is missing within `offline`."""


OFFLINE = "FAROUT_OFFLINE"
"""Environment variable that forbids downloads in a process and in those that it starts, as `offline` does."""
_absent: dict[str, str] | None = {} if os.environ.get(OFFLINE) else None
_missing: ContextVar[dict[str, str] | None] = ContextVar("absent", default=_absent)
"""Within `offline`: the missing files that were requested, with their addresses."""


@contextmanager
def offline() -> Iterator[dict[str, str]]:
    """Forbid downloads within the block: a missing file raises `NotDownloaded` and is added to the yielded dict."""
    missing: dict[str, str] = {}
    token = _missing.set(missing)
    try:
        yield missing
    finally:
        _missing.reset(token)


def fetch(key: str) -> Path:
    """Return the path of the file `key` of `SOURCES` in the cache folder; download it if it is missing.

    The file appears there complete and verified, or not at all.
    """
    path, failures = cache_folder() / key, []
    if _missing.get() is not None:
        announce_files(key)
        return path
    for url in SOURCES[key].urls:
        try:
            return _retrieve(url, SOURCES[key].checksum, path)
        except (OSError, ValueError) as error:
            if (refusal := getattr(error, "response", None)) is not None:
                refusal.close()  # else its socket stays open until garbage collection
            failures.append((url, error))
    raise DownloadError(_advice(key, path, failures))


def announce_files(*keys: str) -> None:
    """Announce all files of `SOURCES` that will be fetched: within `offline`, record the missing ones and raise."""
    announce_downloads({key: SOURCES[key].urls[0] for key in keys if not _is_verified(key)})


def announce_downloads(missing: dict[str, str]) -> None:
    """Announce other downloads, name -> address: within `offline`, record them and raise an error."""
    recorded = _missing.get()
    if recorded is not None and missing:
        recorded |= missing
        raise NotDownloaded(f"not downloaded yet: {', '.join(missing)}")


def _is_verified(key: str) -> bool:
    """Return True if the file has its checksum. Outside `offline` always True, since `fetch` verifies the file."""
    algorithm, checksum = SOURCES[key].checksum.split(":")
    path = cache_folder() / key
    return _missing.get() is None or (path.is_file() and _hash(path, algorithm) == checksum)


def _hash(path: Path, algorithm: str) -> Json:
    """Return the hash of a file, which is remembered by the file's stamp."""
    return Files.at(path).remembered("checksum", algorithm, lambda: pooch.file_hash(str(path), alg=algorithm))


def _retrieve(url: str, checksum: str, path: Path) -> Path:
    once = {"Connection": "close"}  # else the socket stays open until garbage collection
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
    """Return an error text: the addresses tried, why each failed, and how to place the file by hand."""
    tried = "\n".join(f"  {url}\n    {_reason(error)}" for url, error in failures)
    algorithm, checksum = SOURCES[key].checksum.split(":")
    found = pooch.file_hash(str(path), alg=algorithm) if path.exists() else None
    other = f"\nThe file at that path is a different one: its {algorithm} is {found}." if found else ""
    return (
        f"cannot download {key}; tried\n{tried}\n"
        f"If this machine has no network, fetch the file elsewhere and put it at\n  {path}\n"
        f"It is used if its {algorithm} is {checksum}.{other}\n"
        "Set the environment variable FAROUT_DATA to use another folder."
    )


def _reason(error: Exception) -> str:
    """Return the error as one line; pooch reports a wrong checksum as ValueError."""
    return f"wrong checksum: {error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
