"""POST with retries: time-limited, bounded, discreet about headers; the log tells of long waits."""

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
from farout.adapters.patience import Waiting, noticed
from farout.rng import numpy_generator

MAX_TIMEOUT = 3600
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second try, which double from try to try, and at most."""
_sleep = time.sleep
WORDS = 300
"""Characters of a server's error message that are shown."""


class RemoteError(RuntimeError):
    """An endpoint did not give an answer that can be used."""


class Again(Exception):
    """A failure that may pass; `after` is how many seconds the server asks to wait."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@dataclass
class Endpoint:
    """An address that takes POSTs and answers JSON."""

    url: str
    headers: dict[str, str] = field(repr=False)
    timeout: float
    retries: int

    @property
    def shown(self) -> str:
        """The address in messages: without its query, which may hold a key."""
        return self.url.partition("?")[0].partition("#")[0]

    def post(self, body: bytes, content_type: str, images: int) -> Any:
        """The JSON answer, tried again where the failure may pass."""
        headers = {**self._headers(), "Content-Type": content_type, "Accept": "application/json"}
        request = Request(self.url, body, headers)
        waiting = Waiting(f"http {self.shown}")
        with noticed(waiting):
            return self._tried(request, 1_000_000 + 64 * images, waiting)

    def _tried(self, request: Request, largest: int, waiting: Waiting) -> Any:
        tries = self.retries + 1
        ends = time.monotonic() + self.timeout * tries
        before = ""
        for attempt in range(1, tries + 1):
            waiting.state = f"attempt {attempt} of {tries}{before}"
            try:
                return self._once(request, min(self.timeout, ends - time.monotonic()), largest)
            except Again as failure:
                wait = _wait(request.data, attempt - 1, failure.after)
                if attempt == tries or time.monotonic() + wait >= ends:
                    asked = f"; it asks to wait {failure.after:.0f} s" if failure.after else ""
                    words = f"after {attempt} of {tries} tries: {failure}{asked}"
                    raise RemoteError(f"{self.shown} gave no answer {words}") from None
                before = f"; before: {failure}"
                waiting.state = f"attempt {attempt + 1} of {tries} follows after {wait:.1f} s{before}"
                _sleep(wait)
        raise AssertionError("unreachable")

    def _once(self, request: Request, seconds: float, largest: int) -> Any:
        """The answer to one request, all of it within so many seconds but for the look-up of the host's name."""
        opener = build_opener(_SameHost, *Deadline(time.monotonic() + seconds).handlers())
        try:
            with opener.open(request) as response:
                return self._parsed(_read(response, largest))
        except HTTPError as error:
            with error:
                self._refused(error)
        except TimeoutError:
            raise Again(f"no whole answer within {seconds:.3g} s") from None
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            raise Again(f"no whole answer within {seconds:.3g} s" if slow else f"{error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Again(f"{type(error).__name__}: {error}") from None

    def _parsed(self, text: bytes | None) -> Any:
        if text is None:
            raise RemoteError(f"{self.shown} gave a larger answer than scores can be; expected a list of numbers")
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            start = self._words(text[:5000])[:60]
            raise RemoteError(f"{self.shown} gave no JSON ({str(error)[:80]}); it starts {start!r}") from None

    def _refused(self, error: HTTPError) -> None:
        """Raise what an answer with an error status means."""
        try:
            words = self._words(_read(error, 100_000) or b"")
        except (OSError, http.client.HTTPException):
            words = ""
        why = f"status {error.code} {self._words(str(error.reason).encode())}" + (f": {words}" if words else "")
        if error.code == 429 or error.code >= 500:
            raise Again(why, _asked(error.headers.get("Retry-After")))
        if 300 <= error.code < 400:
            target = urljoin(self.url, error.headers.get("Location") or "").partition("?")[0]
            target = self._words(target.encode())
            raise RemoteError(f"{self.shown} redirects to {target} with status {error.code}; give the right url")
        raise RemoteError(f"{self.shown} refused with {why}")

    def _headers(self) -> dict[str, str]:
        """The headers with what they read from the environment."""
        made = {}
        for name, value in self.headers.items():
            try:
                made[name] = Template(value).substitute(os.environ)
            except KeyError as error:
                raise RemoteError(f"header {name} reads the environment variable {error.args[0]}, not set") from None
            if not made[name].isprintable() or not made[name].isascii():
                raise RemoteError(f"header {name} holds characters that cannot be sent")
        return made

    def _words(self, text: bytes) -> str:
        """What a server says, on one line and cut; without a header's value, should it have repeated one."""
        line = text.decode("utf-8", "replace")
        for value in self._headers().values():
            for secret in sorted({value, *value.split()}, key=len, reverse=True):
                line = line.replace(secret, "***") if len(secret) >= 4 else line
        line = "".join(character if character.isprintable() else "?" for character in " ".join(line.split()))
        return line if len(line) <= WORDS else line[:WORDS] + "…"


class _SameHost(HTTPRedirectHandler):
    """Follows only a redirect that repeats the POST on the same host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if code not in (307, 308) or (old.scheme, old.netloc) != (new.scheme, new.netloc):
            return None
        return Request(newurl, req.data, dict(req.header_items()))


def _read(response: Any, largest: int) -> bytes | None:
    """The body; None where it is larger than that."""
    parts, size = [], 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > largest:
            return None
    if getattr(response, "length", None):  # the connection ended before what was announced had come
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _asked(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date."""
    if not header:
        return None
    try:
        seconds: float = (
            float(header) if header.strip().isdigit() else parsedate_to_datetime(header).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _wait(body: Any, attempt: int, asked: float | None) -> float:
    """Seconds before the next try: twice as many each time, spread by what is sent, and no less than asked for."""
    spread = float(numpy_generator(attempt, "http", zlib.crc32(body)).uniform(0.5, 1.0))
    return max(min(math.ldexp(FIRST_WAIT, attempt), LONGEST_WAIT) * spread, asked or 0.0)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
