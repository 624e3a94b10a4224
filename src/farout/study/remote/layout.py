"""Which files of a run folder are kept at its address: results, plan, sessions, failures, report, unfinished work.

Other files, such as those of the user, are left alone in both places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from farout.files import check_path, files_in, has_file, is_temporary
from farout.study.engines.journal import PROGRESS
from farout.study.pack_folder import PACK_NAME
from farout.study.records import RECORD

LOCK = "lock.json"
_NAME = r"\w[\w.=-]*"
_KEPT = re.compile(
    rf"(plan\.json|intervals\.json|report\.html|(?:failures|sessions)/{_NAME}|tables/[^/\\]+|running/{PROGRESS}"
    rf"|packs/{PACK_NAME}|cells/{_NAME}/{_NAME}|partial/{_NAME}/{_NAME}\.safetensors)"
)


def is_kept(path: str) -> bool:
    """Return True for the path of a file that is kept; such a path stays below its folder."""
    return _KEPT.fullmatch(path) is not None and ".." not in path.split("/")


def local_files(root: Path, folders: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return size and time of the kept files in these folders; "" stands for the files beside them.

    Of a record in a folder, the files come before its record.json, without which they are no result.
    """
    found = {}
    for folder in folders:
        if folder:
            paths = [path for path in files_in(root / folder, root) if not _hidden(path, root)]
        else:
            paths = [root / name for name in sorted(os.listdir(root)) if is_kept(name)]  # noqa: PTH208
            paths = [path for path in paths if has_file(check_path(path, root))]
        for path in sorted(paths, key=lambda path: path.name == RECORD):
            name = path.relative_to(root).as_posix()
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if is_kept(name):
                found[name] = status.st_size, status.st_mtime_ns
    return found


def _hidden(path: Path, root: Path) -> bool:
    return any(is_temporary(one) for one in (path, *path.parents) if one != root and one.is_relative_to(root))
