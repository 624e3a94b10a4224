"""Server of the live view: this machine only, reading only, and only for those who know the address.

The address holds a random token; without it every request is refused. Requests that name another host are refused too,
so that no web page can reach the server through a name that it controls (DNS rebinding). No path names a file.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")
"""Names by which a request may call this machine; a forwarded port may differ from ours."""
CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Part of the content security policy that a page cannot set itself."""
HEADERS = {
    "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
HTML, JSON, TEXT = (f"{kind}; charset=utf-8" for kind in ("text/html", "application/json", "text/plain"))
SECONDS = 20
"""Seconds that a client may take to send its request."""


class Page(NamedTuple):
    """Content of one address, its type, and the policy for what it may load and run."""

    content: Callable[[], str]
    kind: str = HTML
    policy: str = "default-src 'none'"


def json_page(content: Callable[[], Mapping[str, Any]]) -> Page:
    """Return a page of JSON."""
    return Page(lambda: json.dumps(content(), allow_nan=False), JSON)


class LiveServer(ThreadingHTTPServer):
    """Server of a few pages by name, at an address with a new token; port 0: a free port."""

    daemon_threads = True

    def __init__(self, pages: Mapping[str, Page], port: int = 0) -> None:
        self.pages, self.token = pages, secrets.token_urlsafe(24)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OSError(
                f"cannot listen on {ADDRESS}:{port}: {reason}; choose another --port, or leave it out for a free one"
            ) from error

    @property
    def url(self) -> str:
        """Address of the first page."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version, sys_version = "farout", ""
    timeout = SECONDS

    def do_GET(self) -> None:
        status, page = self._find()
        body, kind, policy = (status.phrase if page is None else ""), TEXT, "default-src 'none'"
        if page is not None:
            body, kind, policy = page.content(), page.kind, page.policy
        content = body.encode("utf-8", "replace")
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), **HEADERS}
        for name, value in {**headers, "Content-Security-Policy": f"{policy}; {CLOSED}"}.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def __getattr__(self, name: str) -> Any:
        """Answer every method; all but GET and HEAD are refused."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def _find(self) -> tuple[HTTPStatus, Page | None]:
        """Return the page of a request, or why there is none."""
        token, _, name = urlsplit(self.path).path.removeprefix("/").partition("/")
        if self._host() not in HOSTS or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return HTTPStatus.FORBIDDEN, None
        if self.command not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, None
        page = self.server.pages.get(name)
        return (HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK), page

    def _host(self) -> str:
        """Return the host that the request names, without its port; empty if it names none, or several."""
        named = self.headers.get_all("Host") or []
        return named[0].strip().lower().rpartition(":")[0] or named[0].strip().lower() if len(named) == 1 else ""

    def log_message(self, *_: Any) -> None:
        """Log nothing: every line would show the token."""
