"""Checkpoints: the state of a training in one safetensors file, written atomically."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from farout.files import has_file
from farout.identity import bytes_of, digest, digest_arrays
from farout.networks.weights import write_tensors

KEY = "farout"
"""Entry of the file's header that holds the position as JSON."""


class Checkpoint(NamedTuple):
    """State of a training between two steps."""

    position: dict[str, Any]
    """State other than tensors, as JSON."""
    tensors: dict[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names start with a prefix, without it."""
        return {
            key.removeprefix(f"{prefix}/"): value for key, value in self.tensors.items() if key.startswith(f"{prefix}/")
        }


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with a prefix before their names."""
    return {f"{prefix}/{key}": value for key, value in tensors.items()}


def save(path: Path, identity: str, state: Checkpoint) -> None:
    """Write a checkpoint of the training with this identity."""
    header = {"identity": identity, "position": state.position, "content": _content(identity, state)}
    write_tensors(path, state.tensors, {KEY: json.dumps(header)})


def load(path: Path, identity: str) -> Checkpoint | None:
    """Return the checkpoint; None if it is missing, damaged, or of another training."""
    try:
        if not has_file(path):
            return None
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})[KEY])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        found = Checkpoint(header["position"], tensors)
        if header["content"] == _content(header["identity"], found):
            return found if header["identity"] == identity else None
    except (SafetensorError, KeyError, TypeError, ValueError):
        pass
    logging.getLogger("farout").warning(f"the checkpoint {path} is damaged; the training starts again")
    return None


def _content(identity: str, state: Checkpoint) -> str:
    """Return the checksum of a whole checkpoint; training never resumes from a damaged one."""
    arrays = ((key, bytes_of(value)) for key, value in sorted(state.tensors.items()))
    return digest([identity, state.position, digest_arrays(arrays)])
