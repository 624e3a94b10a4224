"""Memo: small facts that take long to compute, kept in the user's cache folder for later processes.

A fact is kept under a hash of everything that it follows from: what the caller names, the source of farout, and the
versions of the libraries and the processor's instructions that compute it. So a fact never has to be renewed: where
anything differs, it has another name.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import torch

import farout
from farout.data.cache import cache_folder
from farout.files import read_json, write_json
from farout.identity import Json, digest

LIBRARIES = ("torch", "numpy", "timm", "torchvision")


def remembered(kind: str, key: Json, compute: Callable[[], Json], holds: Callable[[], bool] = lambda: True) -> Json:
    """Return the fact that `compute` gives for this key: from the cache folder, else computed and kept there.

    holds: called once it is computed; False = it may not follow from the key, and is not kept.
    """
    path = memo_folder() / kind / f"{digest(key)}.json"
    if (known := _read(path)) is not None:
        return known["value"]
    value = compute()
    if not holds():
        return value
    with suppress(OSError):  # without a memo it is computed again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"value": value, "digest": digest(value)}, durable=False)  # its digest tells damage
    return value


def memo_folder() -> Path:
    """Return the folder of the facts that this version of the software knows."""
    return cache_folder() / "known" / software()[:16]


def _read(path: Path) -> dict[str, Json] | None:
    """Return what a file holds; None if there is none, or it is damaged."""
    with suppress(OSError, ValueError):
        known = read_json(path)
        if isinstance(known, dict) and "value" in known and known.get("digest") == digest(known["value"]):
            return known
    return None


@lru_cache(maxsize=1)
def software() -> str:
    """Return a hash of the source of farout, the versions of its libraries and the processor's instructions."""
    root = Path(farout.__file__).parent
    source = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        source.update(f"{path.relative_to(root).as_posix()}|".encode() + path.read_bytes())
    machine = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    return digest([source.hexdigest(), [_version(name) for name in LIBRARIES], machine])


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
