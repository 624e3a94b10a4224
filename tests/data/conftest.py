"""A cache folder per test, and a local server that stands in for the true addresses."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farout.data import urls as sources
from farout.data.urls import Source
from helpers.originals import Serve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of this test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("FAROUT_DATA", str(folder))
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(key, content)`: from now on `SOURCES[key]` is this content on a local server."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    server.daemon_threads = False  # so that closing waits for the last answer
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def add(key: str, content: bytes) -> Path:
        assert key in sources.SOURCES
        path = folder / key.replace("/", "-")
        path.write_bytes(content)
        url = f"http://127.0.0.1:{server.server_port}/{path.name}"
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        monkeypatch.setitem(sources.SOURCES, key, Source((url,), checksum))
        return path

    yield add
    server.shutdown()
    server.server_close()
