"""`http`: a detector behind an HTTP endpoint."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from string import Template
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch
from torch import Tensor

from farout.adapters.catalog import adapter
from farout.adapters.posting import MAX_TIMEOUT, Endpoint
from farout.checks import check_count
from farout.core import Detector
from farout.identity import Json
from farout.tensors import chunks

HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@adapter
class HTTP(Detector):
    """Detector behind an HTTP endpoint, queried in batches.

    Every batch is one POST of a .npy file (float32 [B, C, H, W] in [0, 1], content type application/x-npy); the
    response is JSON, a list of B numbers or {"scores": [...]}, larger = more outlying.

    url: an http or https address.
    batch: images per request.
    timeout: seconds for one request: connection, headers and body together (without the DNS lookup); all attempts of
    a batch together get (retries + 1) times as many, waits included. With the defaults a batch fails after 150 s at
    the latest. After every 10 s without a response the logger "farout" warns.
    retries: further attempts after a broken connection, a timeout, "too many requests" (429) or a server error (5xx).
        The first follows after half a second at most, each further one after twice as long, or when the server asks.
    headers: sent with every request; "$FAROUT_TOKEN" in a value is read from the environment; only variables that start
        with FAROUT_ are allowed. Values are not shown in identities, messages and records; the url is.
    version: change it when the endpoint's scores change, so that stored scores are not reused.
    """

    name = "http"

    def __init__(
        self,
        url: str,
        *,
        batch: int = 64,
        timeout: float = 30.0,
        retries: int = 4,
        headers: Mapping[str, str] | None = None,
        version: str = "",
    ) -> None:
        check_url(url)
        check_count("batch", batch)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT:
            raise ValueError(f"timeout must be a number of seconds in (0, {MAX_TIMEOUT}], got {timeout!r}")
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 100:
            raise ValueError(f"retries must be a whole number from 0 to 100, got {retries!r}")
        check_headers(headers or {})
        self.url, self.version, self.batch = url, str(version), batch
        self._endpoint = Endpoint(url, dict(headers or {}), float(timeout), retries)

    @classmethod
    def check_study(cls, params: Mapping[str, Any]) -> None:
        """Raise ValueError for a header that holds its value, which may be a secret, instead of a variable."""
        headers = params.get("headers")
        for name, value in headers.items() if isinstance(headers, Mapping) else ():
            if not isinstance(value, str) or not Template(value).get_identifiers():
                raise ValueError(
                    f"header {name}: a study is stored with its results, so give the name of an environment variable "
                    'instead of the value: "$FAROUT_TOKEN"'
                )

    def score(self, images: Tensor) -> Tensor:
        batches = [images[part] for part in chunks(len(images), self.batch)]
        numbers = [number for batch in batches for number in self._request_scores(batch)]
        return torch.tensor(numbers, dtype=torch.float64, device=images.device)

    def _request_scores(self, images: Tensor) -> list[float]:
        file = io.BytesIO()
        np.save(file, np.ascontiguousarray(images.detach().cpu().float().numpy()), allow_pickle=False)
        answer = self._endpoint.post(file.getvalue(), "application/x-npy", len(images))
        return parse_scores(answer, len(images), self._endpoint.display_url)

    def identity(self) -> Json:
        """Return the address and the version; headers and limits do not affect scores."""
        return {"adapter": "http", "version": 1, "url": self.url, "endpoint_version": self.version}


def parse_scores(answer: Any, expected: int, name: str) -> list[float]:
    """Parse the scores of a JSON response; errors say what was got instead."""
    scores = answer.get("scores") if isinstance(answer, dict) else answer
    if not isinstance(scores, list):
        got = f"keys {', '.join(sorted(answer))[:100]!r}" if isinstance(answer, dict) else type(answer).__name__
        raise ValueError(f'{name} answered {got}, expected a list of numbers or {{"scores": [...]}}')
    if len(scores) != expected:
        raise ValueError(f"{name} answered {len(scores)} scores for {expected} images")
    for place, score in enumerate(scores):
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise ValueError(f"{name} answered {str(score)[:50]!r} as score {place}, expected a number")
        if not abs(score) < math.inf or abs(score) > 1e300:
            raise ValueError(f"{name} answered {str(score)[:50]} as score {place}, expected a finite number")
    return [float(score) for score in scores]


def check_url(url: object) -> None:
    """Raise unless it is an http or https address with a host and without a password."""
    if not isinstance(url, str):
        raise TypeError(f"url must be text, got {type(url).__name__}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"url is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", url) or not url.isascii():
        raise ValueError(
            f"url must start with http:// or https:// and name a host, got {url.partition('?')[0][:100]!r}"
        )
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            'url must not hold a user name or password; send them in a header: {Authorization: "$FAROUT_TOKEN"}'
        )


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise unless names and values can be sent; errors do not show values."""
    for name, value in headers.items():
        if not isinstance(name, str) or not HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if not isinstance(value, str) or not Template(value).is_valid():
            raise ValueError(
                f'the value of header {name} must be text; "$FAROUT_TOKEN" is read from the environment, $$ is a $'
            )
        for variable in Template(value).get_identifiers():
            if not variable.startswith("FAROUT_"):
                raise ValueError(
                    f"header {name} reads the environment variable {variable}; only those that start with FAROUT_ are "
                    f"sent: call it FAROUT_{variable}"
                )
