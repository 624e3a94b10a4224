"""Fetching the files of `farout.data.sources`, once, with their checksums verified."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pooch

from farout.data.progress import DownloadBar
from farout.data.sources import SOURCES

_TIMEOUT = 30
_CHUNK = 1 << 16

pooch.get_logger().setLevel("WARNING")


class DownloadError(OSError):
    """A file that could not be had from any of its addresses."""


def cache_folder() -> Path:
    """Where downloads are kept: `$FAROUT_DATA`, else the user's cache folder."""
    return Path(os.environ.get("FAROUT_DATA") or pooch.os_cache("farout"))


def fetch(key: str) -> Path:
    """The file `key` of `SOURCES`, from the cache folder or downloaded into it.

    It appears there whole and verified, or not at all.
    """
    path, failures = cache_folder() / key, []
    for url in SOURCES[key].urls:
        try:
            return _retrieve(url, SOURCES[key].checksum, path)
        except (OSError, ValueError) as error:
            if (refusal := getattr(error, "response", None)) is not None:
                refusal.close()  # else its socket stays open until it is collected
            failures.append((url, error))
    raise DownloadError(_advice(key, path, failures))


def _retrieve(url: str, checksum: str, path: Path) -> Path:
    bar = DownloadBar(path.name)
    try:
        once = {"Connection": "close"}  # else the socket stays open until it is collected
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=_TIMEOUT, headers=once)
        found = pooch.retrieve(url, checksum, fname=path.name, path=path.parent, downloader=downloader)
    finally:
        bar.close()
    return Path(found)


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
