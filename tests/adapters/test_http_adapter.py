"""A detector behind HTTP: what is sent, what is tried again, what is refused, and what stays secret."""

from __future__ import annotations

import socket
import time
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
import torch
from local_server import Reply, Server, brightness, serving

import farout
from farout.adapters import HTTP, posting
from farout.adapters.posting import RemoteError
from farout.describe import describe
from farout.identity import canonical

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


def test_a_slow_answer_ends_in_time() -> None:
    start = time.monotonic()
    slow = Reply(b"[" + b" " * 200, drip=0.05)
    with serving(lambda *_: slow) as server, pytest.raises(RemoteError, match=r"no whole answer within 0\.3 s"):
        HTTP(server.url, timeout=0.3, retries=1).score(IMAGES)
    assert time.monotonic() - start < 3


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
        ("http://host:port/", "url is no address"),
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
        ("headers", {"A B": "c"}, "'A B' is no name of a header"),
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
