"""Files: atomic writes, checksums, locks between processes, paths without symbolic links, and mapped arrays."""

from farout.files.locks import holders, lock
from farout.files.mapping import blocks, release
from farout.files.paths import (
    UnsafePath,
    check_path,
    files_in,
    has_file,
    has_size,
    make_folder,
    mode_of,
    open_file,
    remove_tree,
    sha256,
)
from farout.files.writing import (
    atomic_file,
    atomic_files,
    atomic_folder,
    is_temporary,
    read_json,
    remove_folder,
    remove_temporaries,
    sync,
    temporary_path,
    write_json,
    write_text,
)

__all__ = [
    "UnsafePath",
    "atomic_file",
    "atomic_files",
    "atomic_folder",
    "blocks",
    "check_path",
    "files_in",
    "has_file",
    "has_size",
    "holders",
    "is_temporary",
    "lock",
    "make_folder",
    "mode_of",
    "open_file",
    "read_json",
    "release",
    "remove_folder",
    "remove_temporaries",
    "remove_tree",
    "sha256",
    "sync",
    "temporary_path",
    "write_json",
    "write_text",
]
