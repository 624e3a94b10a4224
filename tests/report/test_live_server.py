"""The server of the live view: who is answered, with what."""

from __future__ import annotations

import hmac
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from farout.report.live import server as live
from farout.report.live.server import ADDRESS, LiveServer, Page, json_page


@pytest.fixture
def server() -> Iterator[LiveServer]:
    pages = {"": Page(lambda: "<p>ä", policy="script-src 'none'"), "status.json": json_page(lambda: {"a": 1})}
    server = LiveServer(pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def ask(server: LiveServer, path: str, method: str = "GET", host: str | None = "") -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an answer; host: the header, None = none."""
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host or f"{ADDRESS}:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_pages_under_the_token(server: LiveServer) -> None:
    status, body, headers = ask(server, f"/{server.token}/")
    assert (status, body, headers["Content-Type"]) == (200, "<p>ä".encode(), "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("script-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    status, body, headers = ask(server, f"/{server.token}/status.json?x=1")
    assert (status, body, headers["Content-Type"]) == (200, b'{"a": 1}', "application/json; charset=utf-8")


def test_head_has_the_length_and_no_body(server: LiveServer) -> None:
    status, body, headers = ask(server, f"/{server.token}/status.json", "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", "8")


@pytest.mark.parametrize("path", ["/", "/status.json", "//", "/x/", "/%2e%2e/status.json", "/TOKENx/", "/%C3%A9/"])
def test_without_the_token_nothing_is_answered(server: LiveServer, path: str) -> None:
    assert ask(server, path.replace("TOKEN", server.token))[:2] == (403, b"Forbidden")
    assert ask(server, f"/{server.token[:-1]}/")[0] == ask(server, f"/{server.token.swapcase()}/")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_only_get_and_head_are_allowed(server: LiveServer, method: str) -> None:
    status, body, headers = ask(server, f"/{server.token}/", method)
    assert (status, body, headers["Allow"]) == (405, b"Method Not Allowed", "GET, HEAD")
    assert ask(server, "/", method)[0] == 403


@pytest.mark.parametrize("name", ["plan.json", "../plan.json", "cells/", "%2e%2e/", "status.json/", "/etc/passwd"])
def test_no_path_names_a_file(server: LiveServer, name: str) -> None:
    assert ask(server, f"/{server.token}/{name}")[:2] == (404, b"Not Found")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "0.0.0.0", "[::1]", None, ":", "x@127.0.0.1"]
)
def test_other_hosts_are_refused(server: LiveServer, host: str | None) -> None:
    assert ask(server, f"/{server.token}/", host=host)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "LOCALHOST", "127.0.0.1:1"])
def test_this_machine_may_be_called_so(server: LiveServer, host: str) -> None:
    assert ask(server, f"/{server.token}/", host=host)[0] == 200


def test_the_token_is_long_new_and_compared_in_constant_time(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = LiveServer({})
    other.server_close()
    assert len(server.token) >= 32
    assert server.token != other.token
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(live.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    assert ask(server, "/guess/")[0] == 403
    assert compared == [(b"guess", server.token.encode())]


def test_only_this_machine_is_served(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"


def test_a_port_in_use_is_an_error_that_says_what_to_do(server: LiveServer) -> None:
    with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{server.server_port}: .*choose another --port"):
        LiveServer({}, server.server_port)


def test_a_client_that_hangs_up_or_talks_nonsense_harms_nobody(
    server: LiveServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for text in (b"", b"GET", b"\x16\x03\x01\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection((ADDRESS, server.server_port), timeout=10) as client:
            client.sendall(text)
    assert ask(server, f"/{server.token}/")[0] == 200
    assert capfd.readouterr() == ("", "")
