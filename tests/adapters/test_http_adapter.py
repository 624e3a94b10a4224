"""A detector behind HTTP: what is sent, what is tried again, what is refused, and what stays secret."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.adapters import HTTP, patience, posting
from farout.adapters.posting import RemoteError
from farout.identity import canonical, describe
from helpers.local_server import Reply, Server, brightness, serving

IMAGES = torch.rand(10, 3, 4, 4, generator=torch.Generator().manual_seed(0))
EXPECTED = IMAGES.double().mean((1, 2, 3))


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is slept between tries, not slept; no proxy stands between."""
    slept: list[float] = []
    monkeypatch.setattr(posting, "_sleep", slept.append)
    monkeypatch.setenv("no_proxy", "*")
    return slept


def after(failures: int, failure: Reply) -> Any:
    """Fails so many times, then answers."""
    return lambda images, number: failure if number < failures else brightness(images)


def test_images_are_sent_in_batches_and_scores_come_back_in_order() -> None:
    with serving() as server:
        scores = HTTP(server.url, batch=4, headers={"X-Kind": "test"}).score(IMAGES)
    assert torch.allclose(scores, EXPECTED, rtol=1e-6)
    assert scores.dtype == torch.float64
    assert server.shapes == [(4, 3, 4, 4), (4, 3, 4, 4), (2, 3, 4, 4)]
    assert np.array_equal(np.concatenate([one["images"] for one in server.seen]), IMAGES.numpy())
    assert server.seen[0]["images"].dtype == np.float32
    headers = {name.lower(): value for name, value in server.seen[0]["headers"].items()}
    assert (headers["content-type"], headers["x-kind"]) == ("application/x-npy", "test")


def test_scores_may_stand_under_a_key() -> None:
    with serving(lambda images, _: Reply({"scores": list(range(len(images))), "model": "x"})) as server:
        assert HTTP(server.url).score(IMAGES).tolist() == list(range(10))


def test_it_passes_the_battery() -> None:
    with serving() as server:
        assert [finding for finding in farout.check(HTTP(server.url, batch=7)) if finding.problem] == []


@pytest.mark.parametrize(
    "failure",
    [
        Reply(b"busy", 503),
        Reply(b"slow down", 429),
        Reply(b"oops", 500),
        Reply(b"[1, 2, 3]", cut=True),
        Reply(b"[]", pause=1.0),
    ],
)
def test_a_failure_that_passes_is_tried_again(failure: Reply, waits: list[float]) -> None:
    with serving(after(2, failure)) as server:
        scores = HTTP(server.url, timeout=0.4).score(IMAGES)
    assert torch.allclose(scores, EXPECTED, rtol=1e-6)
    assert len(server.seen) == 3
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0
    assert len(waits) == 2


def test_waits_double_and_are_the_same_every_time(waits: list[float]) -> None:
    for _ in range(2):
        with serving(after(9, Reply(b"", 500))) as server, pytest.raises(RemoteError, match="after 5 of 5 tries"):
            HTTP(server.url).score(IMAGES)
    assert waits[:4] == waits[4:]
    for place, wait in enumerate(waits[:4]):
        assert 0.25 * 2**place <= wait <= 0.5 * 2**place


def test_what_always_fails_is_an_error_with_the_servers_words() -> None:
    with serving(lambda *_: Reply(b"out of\nmemory", 500)) as server:
        with pytest.raises(RemoteError, match=r"/score gave no answer after 3 of 3 tries: status 500 .*out of memory"):
            HTTP(server.url, retries=2).score(IMAGES)
        assert len(server.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refusal_is_not_tried_again(status: int, waits: list[float]) -> None:
    with serving(lambda *_: Reply(b"no such model " + b"x" * 5000, status)) as server:
        with pytest.raises(RemoteError, match=f"refused with status {status} .*no such model x+…$") as caught:
            HTTP(server.url).score(IMAGES)
        assert len(server.seen) == 1
    assert len(str(caught.value)) < 500
    assert waits == []


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(RemoteError, match=r"gave no answer after 2 of 2 tries: .*refused"):
            HTTP(f"http://127.0.0.1:{port}/", retries=1).score(IMAGES)


@pytest.mark.parametrize("date", [False, True])
def test_the_server_may_ask_for_a_wait(date: bool, waits: list[float]) -> None:
    asked = formatdate(time.time() + 30, usegmt=True) if date else "30"
    with serving(after(1, Reply(b"", 429, {"Retry-After": asked}))) as server:
        HTTP(server.url).score(IMAGES)
    (wait,) = waits
    assert 20 <= wait <= 30 if date else wait == 30


@pytest.mark.parametrize("nonsense", ["soon", "-5", "1e9999", "Wed, 99 Foo"])
def test_a_wait_that_makes_no_sense_is_not_heard(nonsense: str, waits: list[float]) -> None:
    with serving(after(1, Reply(b"", 503, {"Retry-After": nonsense}))) as server:
        HTTP(server.url).score(IMAGES)
    assert waits[0] <= 0.5


def test_a_wait_beyond_the_limit_is_an_error_at_once(waits: list[float]) -> None:
    with serving(lambda *_: Reply(b"", 429, {"Retry-After": "3600"})) as server:
        with pytest.raises(RemoteError, match=r"after 1 of 5 tries: status 429 .*asks to wait 3600 s"):
            HTTP(server.url, timeout=1).score(IMAGES)
        assert len(server.seen) == 1
    assert waits == []


@pytest.mark.parametrize(
    "slow",
    [
        Reply([0.5] * 10, header_drip=0.02),
        Reply([0.5] * 10, drip=0.05),
        Reply([0.5] * 10, drip=0.02, chunked=True),
        Reply([0.5] * 10, pause=2.0),
        Reply([0.5] * 10, 500, header_drip=0.02),
    ],
    ids=["headers", "body", "chunks", "all of it", "an error's headers"],
)
def test_the_time_limit_is_for_the_whole_answer(slow: Reply) -> None:
    """Each of them is whole in the end, a byte at a time that comes well within the limit."""
    message = r"after 1 of 1 tries: no whole answer within 0\.3 s"
    with serving(lambda *_: slow) as server, pytest.raises(RemoteError, match=message):
        HTTP(server.url, timeout=0.3, retries=0).score(IMAGES)


def test_headers_are_not_waited_for_to_the_end() -> None:
    with serving(lambda *_: Reply([0.5] * 10, header_drip=0.02)) as server:
        with pytest.raises(RemoteError, match="no whole answer"):
            HTTP(server.url, timeout=0.3, retries=0).score(IMAGES)
        assert not server.sent.get(timeout=60)


def test_chunks_that_come_in_time_are_read() -> None:
    with serving(lambda *_: Reply([0.5] * 10, chunked=True)) as server:
        assert HTTP(server.url).score(IMAGES).tolist() == [0.5] * 10


def test_one_that_accepts_and_says_nothing_ends_in_time() -> None:
    message = r"after 1 of 1 tries: no whole answer within 0\.2 s"
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RemoteError, match=message):
        HTTP(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2, retries=0).score(IMAGES)


def test_one_that_takes_no_images_ends_in_time() -> None:
    """More than the buffers of both sides hold."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        many = torch.zeros(64, 3, 224, 224)
        with pytest.raises(RemoteError, match=r"after 1 of 1 tries: no whole answer within 0\.2 s"):
            HTTP(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2, retries=0).score(many)


def test_a_long_wait_is_told_while_it_lasts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(patience, "NOTICE", 0.1)
    with serving(lambda images, _: dataclasses.replace(brightness(images), pause=0.3)) as server:
        scores = HTTP(server.url + "?key=hidden").score(IMAGES)
    assert torch.allclose(scores, EXPECTED, rtol=1e-6)
    assert caplog.messages[0] == f"http {server.url}: no answer for 0 s (attempt 1 of 5)"
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert {record.name for record in caplog.records} == {"farout"}


def test_tries_are_told_with_what_came_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "NOTICE", 0.05)
    with (
        serving(lambda _, number: Reply(b"busy", 503) if not number else Reply(b"[]", pause=1.0)) as server,
        pytest.raises(RemoteError),
    ):
        HTTP(server.url, timeout=0.3, retries=1).score(IMAGES)
    assert "(attempt 2 of 2; before: status 503 Service Unavailable: busy)" in caplog.messages[-1]


def test_an_answer_in_time_is_told_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        HTTP(server.url).score(IMAGES)
    assert caplog.messages == []
    assert not [thread for thread in threading.enumerate() if thread.name == "farout-notices"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([1, 2, 3], "answered 3 scores for 10 images"),
        ({"score": [1] * 10}, "answered keys 'score', expected a list of numbers"),
        ("fine", "answered str, expected a list"),
        (["1"] * 10, "answered '1' as score 0, expected a number"),
        ([True] * 10, "answered 'True' as score 0"),
        ([None] * 10, "answered 'None' as score 0"),
        ([0.5] * 9 + [10**400], "as score 9, expected a finite number"),
        (b"[1e999" + b",1" * 9 + b"]", "answered inf as score 0, expected a finite number"),
        (b"[NaN" + b",1" * 9 + b"]", "gave no JSON .NaN is no number"),
        (b"<html>hello</html>", "gave no JSON .*it starts '<html>hello"),
        (b"\xff\xfe\x00", "gave no JSON"),
        (b"[" * 100_000, "gave no JSON"),
        (b"", "gave no JSON"),
        (b" " * 3_000_000, "larger answer than scores can be"),
    ],
)
def test_an_answer_that_is_no_scores_is_refused(body: Any, message: str) -> None:
    with serving(lambda *_: Reply(body)) as server:
        with pytest.raises((RemoteError, ValueError), match=message) as caught:
            HTTP(server.url).score(IMAGES)
        assert len(server.seen) == 1
    assert len(str(caught.value)) < 400


def test_redirects_stay_on_the_host_and_repeat_the_post() -> None:
    def moved(images: np.ndarray, number: int) -> Reply:
        return brightness(images) if number else Reply(b"", 307, {"Location": "/there"})

    with serving(moved) as server:
        assert torch.allclose(HTTP(server.url).score(IMAGES), EXPECTED, rtol=1e-6)
        assert [one["path"] for one in server.seen] == ["/score", "/there"]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_drop_the_images_is_refused(status: int) -> None:
    with serving(lambda *_: Reply(b"", status, {"Location": "/there"})) as server:
        with pytest.raises(RemoteError, match=f"redirects to .*/there with status {status}"):
            HTTP(server.url).score(IMAGES)
        assert len(server.seen) == 1


def test_a_redirect_to_another_host_is_refused() -> None:
    with serving() as other, serving(lambda *_: Reply(b"", 307, {"Location": other.url})) as server:
        with pytest.raises(RemoteError, match=r"redirects to .*with status 307; give the right url"):
            HTTP(server.url, headers={"Authorization": "Bearer hidden"}).score(IMAGES)
        assert other.seen == []


def secret(server: Server) -> HTTP:
    return HTTP(server.url + "?key=in-the-query", headers={"Authorization": "Bearer $FAROUT_TEST_TOKEN"}, retries=0)


@pytest.mark.parametrize("status", [200, 403, 500])
def test_secrets_are_sent_and_told_nobody(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAROUT_TEST_TOKEN", "open-sesame")
    repeated = b"bad token open-sesame, Bearer open-sesame" + b"." * 250 + b"open-sesame"  # the last one is cut
    with serving(lambda *_: Reply(repeated, status)) as server:
        detector = secret(server)
        with pytest.raises(RemoteError) as caught:
            detector.score(IMAGES)
    assert server.seen[0]["headers"]["Authorization"] == "Bearer open-sesame"
    for text in (str(caught.value), repr(detector), repr(detector._endpoint), canonical(describe(detector))):
        assert "open-" not in text
    assert "in-the-query" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAROUT_TEST_TOKEN", raising=False)
    with serving() as server:
        with pytest.raises(RemoteError, match=r"header Authorization reads .* FAROUT_TEST_TOKEN, not set"):
            secret(server).score(IMAGES)
        monkeypatch.setenv("FAROUT_TEST_TOKEN", "two\nlines")
        with pytest.raises(RemoteError, match="header Authorization holds characters") as caught:
            secret(server).score(IMAGES)
        assert server.seen == []
    assert "lines" not in str(caught.value)


def test_identity_is_address_and_version() -> None:
    base = HTTP("http://host/score", version="1")
    assert describe(base) == describe(HTTP("http://host/score", version="1", batch=8, timeout=5, headers={"A": "b"}))
    assert describe(base) != describe(HTTP("http://host/score", version="2"))
    assert describe(base) != describe(HTTP("http://host/other", version="1"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "must start with http:// or https://"),
        ("ftp://host/x", "must start with http:// or https://"),
        ("host/score", "must start with http:// or https://"),
        ("http://", "name a host"),
        ("http://host/a b", "must start with"),
        ("http://host/\r\nX: y", "must start with"),
        ("http://host:port/", "url is not an address"),
        ("https://me:hush@host/", "must not hold a user name or password"),
    ],
)
def test_addresses_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HTTP(url)
    assert "hush" not in str(caught.value)
    with pytest.raises(TypeError, match="url must be text, got int"):
        HTTP(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch", 0, "batch must be a whole number"),
        ("timeout", 0, "timeout must be a number of seconds"),
        ("timeout", float("nan"), "timeout must be a number of seconds"),
        ("timeout", "3", "timeout must be a number of seconds"),
        ("retries", -1, "retries must be a whole number"),
        ("headers", {"A B": "c"}, "'A B' is not a valid header name"),
        ("headers", {"A": 3}, "the value of header A must be text"),
        ("headers", {"A": "sesame $"}, "the value of header A must be text"),
        ("headers", {"A": "sesame ${HOME}"}, "reads the environment variable HOME; .* call it FAROUT_HOME"),
        ("headers", {"A": "$FAROUT_A$AWS_SECRET_ACCESS_KEY"}, "only those that start with FAROUT_ are sent"),
    ],
)
def test_parameters_that_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HTTP("http://host/", **{name: value})
    assert "sesame" not in str(caught.value)
