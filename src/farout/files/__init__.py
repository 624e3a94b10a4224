"""Files: atomic writes, checksums, locks between processes, and paths that lead through no symbolic link."""

from farout.files.locks import lock
from farout.files.paths import UnsafePath, below, files_in, has_size, make_folder, opened, present, remove_tree, sha256
from farout.files.writing import (
    all_whole,
    hidden,
    is_hidden,
    read_json,
    remove_hidden,
    sync,
    whole,
    whole_folder,
    write_json,
    write_text,
)

__all__ = [
    "UnsafePath",
    "all_whole",
    "below",
    "files_in",
    "has_size",
    "hidden",
    "is_hidden",
    "lock",
    "make_folder",
    "opened",
    "present",
    "read_json",
    "remove_hidden",
    "remove_tree",
    "sha256",
    "sync",
    "whole",
    "whole_folder",
    "write_json",
    "write_text",
]
