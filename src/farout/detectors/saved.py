"""What a saved panel holds, and the digest of what a detector has learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from farout.core import PostHoc
from farout.detectors.catalog import catalog
from farout.identity import digest_arrays


def state_digest(detector: PostHoc) -> str:
    """Hash of what a detector has learned."""
    return digest_arrays((key, value.cpu().numpy()) for key, value in sorted(detector.state.items()))


def opened(path: str | Path) -> Any:
    """The file, open for reading; an error that says so where it is none of ours."""
    try:
        return safe_open(str(path), framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a saved panel ({error})") from error


def facts_of(metadata: dict[str, str] | None, path: str | Path) -> dict[str, Any]:
    """The facts that a saved panel carries beside its tensors."""
    if not metadata or "farout" not in metadata:
        raise ValueError(f"{path} is not a saved panel")
    facts: dict[str, Any] = json.loads(metadata["farout"])
    if facts["format"] != 1:
        raise ValueError(f"{path} has format {facts['format']}, this version reads format 1")
    return facts


def member(spec: dict[str, Any]) -> PostHoc:
    """The detector of this identity, not fitted."""
    detector = catalog.create(spec["name"], **spec["params"])
    assert isinstance(detector, PostHoc)
    return detector
