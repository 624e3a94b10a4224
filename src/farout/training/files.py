"""Files of trained generators and detectors: safetensors with the name, version and settings in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from farout.networks.weights import write_tensors

Kind = Literal["generator", "detector"]


class Header(NamedTuple):
    """Name, version and settings of a trained model."""

    name: str
    version: int
    params: Mapping[str, Any]
    extra_data: str | None = None
    """Names of the outlier sets that it learned from, "" if none; None if that is not known."""


def save(path: Path, kind: Kind, tensors: Mapping[str, Tensor], header: Header) -> None:
    """Write the weights of a trained model atomically."""
    write_tensors(path, tensors, {"format": "pt", _key(kind): json.dumps(header._asdict())})


def header(path: Path, kind: Kind) -> Header:
    """Return the header of a file; raise if it holds no model of this kind."""
    if not path.is_file():
        raise FileNotFoundError(f"no {kind} at {path}; expected a .safetensors file that its save wrote")
    try:
        with safe_open(path, "pt") as file:
            return Header(**json.loads((file.metadata() or {})[_key(kind)]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or holds no {kind}; expected a file that its save wrote") from error


def _key(kind: Kind) -> str:
    """Return the entry of the file's header that holds name, version and settings as JSON."""
    return f"farout_{kind}"


def check(path: Path, kind: Kind, expected: Header) -> None:
    """Raise if a file is of another model, or of one with other settings."""
    found = header(path, kind)
    check_model(path, kind, found, expected)
    wanted = json.loads(json.dumps(expected.params))
    other = [f"{key}={found.params.get(key)!r} (expected {value!r})" for key, value in wanted.items()
             if found.params.get(key) != value]  # fmt: skip
    if other:
        raise ValueError(
            f"{path} holds {found.name} with other settings: {', '.join(other)}; create it with these settings, or "
            f"read it by farout.{kind}s.load"
        )


def check_model(path: Path, kind: Kind, found: Header, expected: Header) -> None:
    """Raise if a file is of another model than expected, or of another version of it."""
    if found.name != expected.name:
        raise ValueError(f"{path} holds {found.name}, expected {expected.name}; farout.{kind}s.load reads any")
    if found.version != expected.version:
        raise ValueError(f"{path} was written by version {found.version} of {found.name}, this is {expected.version}")
