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
    cut: bool = False
    """Is the connection closed before the body is whole?"""


@dataclass
class Server:
    """Where it listens, and what it was sent."""

    url: str
    seen: list[dict[str, Any]] = field(default_factory=list)

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
            with suppress(BrokenPipeError, ConnectionResetError):
                self.reply(answer(images, len(server.seen) - 1))

        def do_GET(self) -> None:
            server.seen.append({"images": np.empty(0), "method": "GET"})
            self.reply(Reply({"scores": []}))

        def reply(self, reply: Reply) -> None:
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            time.sleep(reply.pause)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for part in [body] if not reply.drip else (body[i : i + 1] for i in range(len(body))):
                self.wfile.write(part[: len(part) // 2] if reply.cut else part)
                time.sleep(reply.drip)
            self.close_connection = True

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
