"""Fetching: whole and verified, or an error that says what to do."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farout.data import urls as sources
from farout.data.cache import cache_folder
from farout.data.download import DownloadError, fetch
from farout.data.urls import SOURCES, Source
from farout.progress import listening
from helpers.counting import Counting
from helpers.originals import Serve

KEY = "svhn/test_32x32.mat"
DEAD = "http://127.0.0.1:9/file"


def test_the_table_is_well_formed() -> None:
    lengths = {"sha256": 64, "md5": 32}
    for key, source in SOURCES.items():
        algorithm, checksum = source.checksum.split(":")
        assert len(checksum) == lengths[algorithm], key
        assert int(checksum, 16), key
        assert all(url.startswith(("https://", "http://")) for url in source.urls), key
        assert len(key.split("/")) == 2, key


def test_fetched_once(serve: Serve, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = serve(KEY, b"content" * 100_000)
    with listening(Counting()) as counting:
        path = fetch(KEY)
    assert path == cache / KEY
    assert path.read_bytes() == b"content" * 100_000
    assert counting.announced == counting.swept == 700_000
    assert {title for title, _ in counting.steps} == {"downloading test_32x32.mat"}
    served.unlink()
    assert fetch(KEY) == path
    assert capsys.readouterr() == ("", "")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_next_address_is_tried(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(KEY, b"content")
    good = SOURCES[KEY]
    monkeypatch.setitem(sources.SOURCES, KEY, Source((DEAD, f"{good.urls[0]}-gone", *good.urls), good.checksum))
    assert fetch(KEY).read_bytes() == b"content"


def test_a_refusal_leaves_no_socket_open(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that is only collected is a warning, and so an error here; it would fall on whatever test runs then."""
    serve(KEY, b"content")
    good = SOURCES[KEY]
    monkeypatch.setitem(sources.SOURCES, KEY, Source((f"{good.urls[0]}-gone",), good.checksum))
    with pytest.raises(DownloadError, match="404"):
        fetch(KEY)
    gc.collect()


def test_no_network(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setitem(sources.SOURCES, KEY, Source((DEAD,), "sha256:" + "0" * 64))
    with pytest.raises(DownloadError) as error:
        fetch(KEY)
    text = str(error.value)
    assert f"cannot download {KEY}" in text
    assert DEAD in text
    assert str(cache / KEY) in text
    assert "sha256 is " + "0" * 64 in text
    assert "FAROUT_DATA" in text


def test_wrong_checksum(serve: Serve, cache: Path) -> None:
    serve(KEY, b"content").write_bytes(b"changed")
    with pytest.raises(DownloadError, match="wrong checksum: SHA256 hash of downloaded file"):
        fetch(KEY)
    assert list((cache / "svhn").iterdir()) == []


def test_put_there_by_hand(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    checksum = hashlib.sha256(b"content").hexdigest()
    monkeypatch.setitem(sources.SOURCES, KEY, Source((DEAD,), f"sha256:{checksum}"))
    (cache / "svhn").mkdir(parents=True)
    (cache / KEY).write_bytes(b"another")
    with pytest.raises(DownloadError, match="different one: its sha256 is " + hashlib.sha256(b"another").hexdigest()):
        fetch(KEY)
    (cache / KEY).write_bytes(b"content")
    assert fetch(KEY).read_bytes() == b"content"


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAROUT_DATA")
    assert cache_folder().name == "farout"


def test_a_process_with_the_variable_downloads_nothing(cache: Path) -> None:
    code = "from farout.data.download import fetch; from farout.data.urls import SOURCES; fetch(next(iter(SOURCES)))"
    environment = {**os.environ, "FAROUT_OFFLINE": "1", "FAROUT_DATA": str(cache)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "NotDownloaded: not downloaded yet" in ended.stderr
