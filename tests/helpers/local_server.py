"""A small HTTP server of scores, which can be told to misbehave."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import numpy as np


@dataclass
class Reply:
    """One answer: a status, a body (bytes, or anything that becomes JSON) and headers."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    """Seconds before it."""
    drip: float = 0.0
    """Seconds between the bytes of the body."""
    header_drip: float = 0.0
    """Seconds between the bytes of the headers."""
    chunked: bool = False
    """Is the body sent in chunks of one byte?"""
    cut: bool = False
    """Is the connection closed before the body is whole?"""


@dataclass
class Server:
    """Where it listens, and what it was sent."""

    url: str
    seen: list[dict[str, Any]] = field(default_factory=list)
    sent: Queue[bool] = field(default_factory=Queue)
    """Of every answer, was it sent whole before the other side hung up?"""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [one["images"].shape for one in self.seen]


Answer = Callable[[np.ndarray, int], Reply]


def brightness(images: np.ndarray, _: int = 0) -> Reply:
    """The mean of every image."""
    return Reply(images.astype(np.float64).mean((1, 2, 3)).tolist())


@contextmanager
def serving(answer: Answer = brightness) -> Iterator[Server]:
    """A server whose answer depends on the images and on how many requests came before."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            images = np.load(io.BytesIO(body), allow_pickle=False)
            sent = {"images": images, "headers": dict(self.headers), "path": self.path, "time": time.monotonic()}
            server.seen.append(sent)
            whole = False
            with suppress(BrokenPipeError, ConnectionResetError):
                self.reply(answer(images, len(server.seen) - 1))
                whole = True
            server.sent.put(whole)

        def do_GET(self) -> None:
            server.seen.append({"images": np.empty(0), "method": "GET"})
            self.reply(Reply({"scores": []}))

        def reply(self, reply: Reply) -> None:
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            time.sleep(reply.pause)
            self.send_response(reply.status)
            size = {"Transfer-Encoding": "chunked"} if reply.chunked else {"Content-Length": str(len(body))}
            for name, value in {**size, **reply.headers}.items():
                self.send_header(name, value)
            self.protocol_version = "HTTP/1.1" if reply.chunked else "HTTP/1.0"
            if reply.header_drip:
                self.drip(b"".join(self._headers_buffer), reply.header_drip)
                self._headers_buffer = []
            self.end_headers()
            if reply.chunked:
                self.drip(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n", reply.drip)
            elif reply.drip:
                self.drip(body, reply.drip)
            else:
                self.wfile.write(body[: len(body) // 2] if reply.cut else body)
            self.close_connection = True

        def drip(self, data: bytes, pause: float) -> None:
            """Send one byte after the other."""
            for place in range(len(data)):
                self.wfile.write(data[place : place + 1])
                time.sleep(pause)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server = Server(f"http://127.0.0.1:{listening.server_address[1]}/score")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
