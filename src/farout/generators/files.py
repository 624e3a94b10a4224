"""Weights of generators on disk: safetensors with the generator's name and settings in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from farout.networks.weights import read_tensors, write_tensors

KEY = "farout_generator"
"""Entry of the file's header that holds name, version and settings as JSON."""


class Header(NamedTuple):
    """Name, version and settings of a generator."""

    name: str
    version: int
    params: Mapping[str, Any]


def save(path: Path, tensors: Mapping[str, Tensor], header: Header) -> None:
    """Write the weights of a generator atomically."""
    write_tensors(path, tensors, {"format": "pt", KEY: json.dumps(header._asdict())})


def tensors(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file."""
    return read_tensors(path)


def header(path: Path) -> Header:
    """Return the header of a file; raise if it is no file of a generator."""
    if not path.is_file():
        raise FileNotFoundError(f"no generator at {path}; expected a .safetensors file that its save wrote")
    try:
        with safe_open(path, "pt") as file:
            return Header(**json.loads((file.metadata() or {})[KEY]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or holds no generator; expected a file that its save wrote") from error


def check(path: Path, expected: Header) -> None:
    """Raise if a file is of another generator, or of one with other settings."""
    found = header(path)
    if found.name != expected.name:
        raise ValueError(f"{path} holds a {found.name}, expected a {expected.name}; farout.generators.load reads any")
    if found.version != expected.version:
        raise ValueError(f"{path} was written by version {found.version} of {found.name}, this is {expected.version}")
    wanted = json.loads(json.dumps(expected.params))
    other = [f"{key}={found.params.get(key)!r} (expected {value!r})" for key, value in wanted.items()
             if found.params.get(key) != value]  # fmt: skip
    if other:
        raise ValueError(
            f"{path} holds a {found.name} with other settings: {', '.join(other)}; create it with these settings, or "
            "read it by farout.generators.load"
        )
