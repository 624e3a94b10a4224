"""POST with retries, time limits and size limits; header values are never shown; long waits are logged."""

from __future__ import annotations

import http.client
import json
import math
import os
import time
import zlib
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from string import Template
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from farout.adapters.deadline import Deadline
from farout.adapters.patience import Waiting, warn_while_waiting
from farout.rng import numpy_generator

MAX_TIMEOUT = 3600
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second attempt, doubled with each attempt, and the maximum."""
_sleep = time.sleep
EXCERPT_LENGTH = 300
"""Number of characters shown of a server's error message."""


class RemoteError(RuntimeError):
    """Error: an endpoint did not return a usable response."""


class TransientError(Exception):
    """Failure that is worth a retry; `after`: seconds the server asks to wait."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@dataclass
class Endpoint:
    """Address that accepts POST requests and returns JSON."""

    url: str
    headers: dict[str, str] = field(repr=False)
    timeout: float
    retries: int

    @property
    def display_url(self) -> str:
        """Address for messages, without its query, which may hold a key."""
        return self.url.partition("?")[0].partition("#")[0]

    def post(self, body: bytes, content_type: str, images: int) -> Any:
        """Return the JSON response, with retries after transient failures."""
        headers = {**self._headers(), "Content-Type": content_type, "Accept": "application/json"}
        request = Request(self.url, body, headers)
        waiting = Waiting(f"http {self.display_url}")
        with warn_while_waiting(waiting):
            return self._post_with_retries(request, 1_000_000 + 64 * images, waiting)

    def _post_with_retries(self, request: Request, largest: int, waiting: Waiting) -> Any:
        tries = self.retries + 1
        ends = time.monotonic() + self.timeout * tries
        previous = ""
        for attempt in range(1, tries + 1):
            waiting.state = f"attempt {attempt} of {tries}{previous}"
            try:
                return self._post_once(request, min(self.timeout, ends - time.monotonic()), largest)
            except TransientError as failure:
                wait = _backoff(request.data, attempt - 1, failure.after)
                if attempt == tries or time.monotonic() + wait >= ends:
                    asked = f"; it asks to wait {failure.after:.0f} s" if failure.after else ""
                    excerpt = f"after {attempt} of {tries} tries: {failure}{asked}"
                    raise RemoteError(f"{self.display_url} gave no answer {excerpt}") from None
                previous = f"; before: {failure}"
                waiting.state = f"attempt {attempt + 1} of {tries} follows after {wait:.1f} s{previous}"
                _sleep(wait)
        raise AssertionError("unreachable")

    def _post_once(self, request: Request, seconds: float, largest: int) -> Any:
        """Return the response to one request within the time limit, not counting the DNS lookup."""
        opener = build_opener(_SameHost, *Deadline(time.monotonic() + seconds).handlers())
        try:
            with opener.open(request) as response:
                return self._parse(_read(response, largest))
        except HTTPError as error:
            with error:
                self._raise_for_status(error)
        except TimeoutError:
            raise TransientError(f"no whole answer within {seconds:.3g} s") from None
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            raise TransientError(f"no whole answer within {seconds:.3g} s" if slow else f"{error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(f"{type(error).__name__}: {error}") from None

    def _parse(self, text: bytes | None) -> Any:
        if text is None:
            raise RemoteError(f"{self.display_url} gave a larger answer than scores can be; expected a list of numbers")
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            start = self._excerpt(text[:5000])[:60]
            raise RemoteError(f"{self.display_url} gave no JSON ({str(error)[:80]}); it starts {start!r}") from None

    def _raise_for_status(self, error: HTTPError) -> None:
        """Raise the error for a response with an error status."""
        try:
            excerpt = self._excerpt(_read(error, 100_000) or b"")
        except (OSError, http.client.HTTPException):
            excerpt = ""
        why = f"status {error.code} {self._excerpt(str(error.reason).encode())}" + (f": {excerpt}" if excerpt else "")
        if error.code == 429 or error.code >= 500:
            raise TransientError(why, _retry_after(error.headers.get("Retry-After")))
        if 300 <= error.code < 400:
            target = urljoin(self.url, error.headers.get("Location") or "").partition("?")[0]
            target = self._excerpt(target.encode())
            raise RemoteError(f"{self.display_url} redirects to {target} with status {error.code}; give the right url")
        raise RemoteError(f"{self.display_url} refused with {why}")

    def _headers(self) -> dict[str, str]:
        """Return the headers with environment variables filled in."""
        headers = {}
        for name, value in self.headers.items():
            try:
                headers[name] = Template(value).substitute(os.environ)
            except KeyError as error:
                raise RemoteError(f"header {name} reads the environment variable {error.args[0]}, not set") from None
            if not headers[name].isprintable() or not headers[name].isascii():
                raise RemoteError(f"header {name} holds characters that cannot be sent")
        return headers

    def _excerpt(self, text: bytes) -> str:
        """Return a server's message on one line, truncated, with header values masked."""
        line = text.decode("utf-8", "replace")
        for value in self._headers().values():
            for secret in sorted({value, *value.split()}, key=len, reverse=True):
                line = line.replace(secret, "***") if len(secret) >= 4 else line
        line = "".join(character if character.isprintable() else "?" for character in " ".join(line.split()))
        return line if len(line) <= EXCERPT_LENGTH else line[:EXCERPT_LENGTH] + "…"


class _SameHost(HTTPRedirectHandler):
    """Redirect handler that only follows redirects that repeat the POST on the same host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if code not in (307, 308) or (old.scheme, old.netloc) != (new.scheme, new.netloc):
            return None
        return Request(newurl, req.data, dict(req.header_items()))


def _read(response: Any, largest: int) -> bytes | None:
    """Return the body; None if it is larger than `largest`."""
    parts, size = [], 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > largest:
            return None
    if getattr(response, "length", None):  # the connection ended early
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _retry_after(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number, or a date."""
    if not header:
        return None
    try:
        seconds: float = (
            float(header) if header.strip().isdigit() else parsedate_to_datetime(header).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _backoff(body: Any, attempt: int, asked: float | None) -> float:
    """Return the seconds before the next attempt: doubled each time, with jitter, and at least `asked`."""
    spread = float(numpy_generator(attempt, "http", zlib.crc32(body)).uniform(0.5, 1.0))
    return max(min(math.ldexp(FIRST_WAIT, attempt), LONGEST_WAIT) * spread, asked or 0.0)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
