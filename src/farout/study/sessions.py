"""Sessions of a run: on which machine, with which versions and for how long its results were computed.

Every session writes one small JSON file into the run's folder. Sessions are facts for the reader of a report: no
identity and no result depends on them, and a run without them is complete.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from farout.files import files_in, make_folder
from farout.study.records import Damaged, read_verified_json, write_verified_json

FOLDER = "sessions"
PACKAGES = ("farout", "torch", "numpy", "scipy")


@contextmanager
def session(root: Path, *, engine: str, workers: int, device: str) -> Iterator[dict[str, Any]]:
    """Record the block as one session, also if it ends by an error; the block may add facts."""
    began, now = monotonic(), datetime.now(UTC)
    facts: dict[str, Any] = {"started": now.isoformat(timespec="seconds"), **machine(device)}
    facts |= {"engine": engine, "workers": workers}
    try:
        yield facts
    finally:
        facts["seconds"] = round(monotonic() - began, 1)
        with suppress(OSError):  # a full disk: the results are what counts
            folder = make_folder(root / FOLDER, root)
            write_verified_json(folder / f"{now:%Y%m%dT%H%M%S%f}-{os.getpid()}.json", facts, root)


def machine(device: str) -> dict[str, Any]:
    """Return facts about this computer and its software; neither its name nor its user."""
    kind = torch.device(device).type
    names = {
        "device": torch.cuda.get_device_name(device) if kind == "cuda" and torch.cuda.is_available() else kind,
        "processor": _processor(),
    }
    system = {"cores": os.cpu_count() or 0, "system": f"{platform.system()} {platform.machine()}"}
    return {**names, **system, "python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _processor() -> str:
    """Return the name of the processor, as Linux tells it; elsewhere what Python knows."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_sessions(root: Path) -> list[dict[str, Any]]:
    """Return the sessions of a run, the oldest first; damaged files are named in a warning and left out."""
    found = []
    for path in _files(root):
        try:
            found.append(read_verified_json(path, root))
        except Damaged as error:
            logging.getLogger("farout").warning(f"{error}: this session is left out")
    return found


def _files(root: Path) -> Sequence[Path]:
    return [path for path in files_in(root / FOLDER, root) if path.suffix == ".json"]
