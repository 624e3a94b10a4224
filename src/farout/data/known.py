"""Fingerprints of published image sets, by which a result can be told to be on the images that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.data.catalog import load
from farout.files import read_json
from farout.identity import canonical, digest_arrays

RENDERED = ("toy", "noise", "shapes", "chars")
"""Sets that are rendered from a seed: their fingerprints are computed, without rendering an image."""
LARGEST = 1_000_000
"""Largest number in the options of a rendered set whose fingerprint is computed."""


def key_of(name: str, split: str, options: Mapping[str, Any]) -> str:
    """Return the key of a set in a table of fingerprints: "cifar10:test", with its options as JSON if it has any."""
    return f"{name}:{split}{canonical(dict(options)) if options else ''}"


class Known(NamedTuple):
    """Facts about a published set."""

    fingerprint: str
    content: str = ""
    """Hash of its labels and attributes, see `content_of`; empty if unknown."""


def known_sets(table: Path | None = None) -> dict[str, Known]:
    """Return the sets that farout knows, and those of a JSON file {"cifar10:train": {"fingerprint": "…"}}."""
    shipped = json.loads(files("farout.data").joinpath("fingerprints.json").read_text("utf-8"))
    own = {} if table is None else read_json(table)
    try:
        return {key: Known(**value) for key, value in {**shipped, **own}.items()}
    except TypeError:
        raise ValueError(
            f'{table} is no table of fingerprints; expected {{"cifar10:train": {{"fingerprint": "40 digits"}}, …}}'
        ) from None


def rendered(name: str, split: str, options: Mapping[str, Any]) -> ImageSet | None:
    """Return a built-in set that is rendered; None for other sets, and for options that could name files."""
    plain = all(type(value) is int and 0 <= value <= LARGEST for value in options.values())
    return load(name, split, **options) if name in RENDERED and plain else None


def content_of(labels: NDArray[np.int64] | None, attributes: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of what is known of the images of a set besides their pixels."""
    known = {"label": labels} if labels is not None else {}
    columns = {name: np.asarray(values) for name, values in {**known, **attributes}.items()}
    return digest_arrays((name, _plain(columns[name])) for name in sorted(columns))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts as UTF-8 bytes: an array of Python objects has no bytes of its own."""
    return np.frombuffer(canonical(values.tolist()).encode(), np.uint8) if values.dtype.kind in "OUT" else values
