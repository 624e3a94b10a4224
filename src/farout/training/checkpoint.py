"""Checkpoints: where a training stands, in one safetensors file that is written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from farout.files import has_file
from farout.identity import bytes_of, digest, digest_arrays
from farout.networks.weights import write_tensors

KEY = "farout"
"""The entry of the file's header that holds the position as JSON."""


class Checkpoint(NamedTuple):
    """State of a training between two steps."""

    position: dict[str, Any]
    """Everything that is no tensor, as JSON."""
    tensors: dict[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names start with a prefix, without it."""
        return {
            key.removeprefix(f"{prefix}/"): value for key, value in self.tensors.items() if key.startswith(f"{prefix}/")
        }


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with a prefix before their names."""
    return {f"{prefix}/{key}": value for key, value in tensors.items()}


def save(path: Path, identity: str, state: Checkpoint) -> None:
    """Write a checkpoint of the training with this identity."""
    header = {"identity": identity, "position": state.position, "content": _content(state)}
    write_tensors(path, state.tensors, {KEY: json.dumps(header)})


def load(path: Path, identity: str) -> Checkpoint | None:
    """Return the checkpoint; None where there is none, a damaged one, or one of another training."""
    try:
        if not has_file(path):
            return None
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})[KEY])
            if not isinstance(header, dict) or header.get("identity") != identity:
                return None
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError):
        return None
    found = Checkpoint(header.get("position") or {}, tensors)
    return found if header.get("content") == _content(found) else None


def _content(state: Checkpoint) -> str:
    """Return the checksum of all of it: training does not go on from a damaged state."""
    arrays = ((key, bytes_of(value)) for key, value in sorted(state.tensors.items()))
    return digest([state.position, digest_arrays(arrays)])
