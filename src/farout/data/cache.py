"""Cache folder: downloads, and what is remembered of sets and networks."""

from __future__ import annotations

import os
from pathlib import Path

import pooch


def cache_folder() -> Path:
    """Return the folder of downloads: `$FAROUT_DATA`, else the user's cache folder."""
    return Path(os.environ.get("FAROUT_DATA") or pooch.os_cache("farout"))
