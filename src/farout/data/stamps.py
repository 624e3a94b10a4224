"""Stamps of files: what the file system says of them, by which facts of large files are remembered.

A file that is written again within the resolution of its time stamps may keep its stamp. So nothing is remembered of
files that were changed within `RESOLUTION` seconds of being read, or that changed while they were read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from farout.data.memo import remembered
from farout.identity import Json

RESOLUTION = 2.0
"""Seconds: the coarsest time stamps in use, those of FAT."""


class Files(NamedTuple):
    """Files with their stamps at one moment, before they are read."""

    stamps: list[list[Json]]
    settled: bool
    """True if a change after that moment will show in a stamp."""

    @classmethod
    def at(cls, root: Path, names: Sequence[str] = ("",)) -> Files:
        """Return the stamps of these files below `root`, or of the one file `root`."""
        now = time.time()
        stats = [(root / name).stat() for name in names]
        stamps = [
            [name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
            for name, stat in zip(names, stats, strict=True)
        ]
        changed = max((max(stat.st_mtime, stat.st_ctime) for stat in stats), default=0.0)
        return cls([[str(root.resolve())], *stamps], changed < now - RESOLUTION)

    @property
    def unchanged(self) -> bool:
        """True if the files still have these stamps, and a change would show."""
        root, names = Path(self.stamps[0][0]), [str(stamp[0]) for stamp in self.stamps[1:]]
        try:
            return self.settled and Files.at(root, names).stamps == self.stamps
        except OSError:
            return False

    def remembered(self, kind: str, key: Json, compute: Callable[[], Json]) -> Json:
        """Return a fact of the files: remembered from when they had the same stamps, else computed."""
        return remembered(kind, [key, self.stamps], compute, lambda: self.unchanged) if self.settled else compute()
