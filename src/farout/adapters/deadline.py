"""HTTP exchanges with one deadline for connection, request, headers and body together."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, Request

PIECE = 1 << 16
"""Bytes sent at a time."""


@dataclass(frozen=True)
class Deadline:
    """Deadline in seconds of `time.monotonic`."""

    ends: float

    def left(self) -> float:
        """Return the seconds left; raise TimeoutError after the deadline."""
        seconds = self.ends - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time is up")
        return seconds

    def handlers(self) -> list[HTTPHandler | HTTPSHandler]:
        """Return handlers for an opener of `urllib.request` whose exchanges end by the deadline."""
        return [_Plain(self), _Secure(self)]


class _Reader(io.RawIOBase):
    """Raw stream of a socket until a deadline (a socket's own timeout restarts with every byte)."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open until the response is read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass
class _Source:
    """Stand-in for a socket that a response reads from."""

    sock: socket.socket
    deadline: Deadline

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self.sock, self.deadline))


class _Connection(http.client.HTTPConnection):
    """Connection that ends by the deadline."""

    def __init__(self, deadline: Deadline, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline = deadline
        self._create_connection: Callable[..., socket.socket] = self._connect_socket
        self.response_class = self._response  # type: ignore[assignment]

    def _connect_socket(self, address: tuple[str, int], *_: Any) -> socket.socket:
        """Return a socket to the first of the host's addresses that accepts."""
        failure: OSError = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _name, place in socket.getaddrinfo(*address, 0, socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self._deadline.left())
                sock.connect(place)
                sock.settimeout(self._deadline.left())  # the TLS handshake uses it as its own timeout
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure

    def _response(self, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        source: Any = _Source(sock, self._deadline)
        return http.client.HTTPResponse(source, *args, **kwargs)

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), PIECE):
            self.sock.settimeout(self._deadline.left())
            self.sock.sendall(data[start : start + PIECE])


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    """TLS connection that ends by the deadline."""


class _Plain(HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Connection, self._deadline), req)


class _Secure(HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_SecureConnection, self._deadline), req)
