"""Unpack archives; members that would land outside the target folder are refused."""

from __future__ import annotations

import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from farout.progress import track


class UnsafeArchive(ValueError):
    """Archive with a member that would land outside its folder, or that is neither file nor folder."""


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a .zip or .tar.* into `folder` unless it exists; `folder` appears complete or not at all."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacking-") as scratch:
        whole = Path(scratch) / folder.name
        whole.mkdir()
        (_unzip if zipfile.is_zipfile(archive) else _untar)(archive, whole)
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():  # if it exists, another process has unpacked it first
                raise
    return folder


def read_tar_members(archive: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of these members of a .tar.* by name, read in one pass."""
    wanted, found = set(wanted), {}
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name in wanted else None
            if content is not None:
                found[member.name] = content.read()
    if missing := wanted - set(found):
        raise ValueError(f"{archive} lacks {', '.join(sorted(missing))}; delete it to have it downloaded again")
    return found


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in track(tar, None, f"unpacking {archive.name}", "files"):
            check_name(member.name, archive)
            if not (member.isfile() or member.isdir()):
                raise UnsafeArchive(f"{archive}: member {member.name!r} is a link or a device; refused")
            tar.extract(member, folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as pack:
        members = pack.infolist()
        for member in members:
            check_name(member.filename, archive)
            if stat.S_ISLNK(member.external_attr >> 16):
                raise UnsafeArchive(f"{archive}: member {member.filename!r} is a link; refused")
        for member in track(members, len(members), f"unpacking {archive.name}", "files"):
            pack.extract(member, folder)


def check_name(name: str, archive: Path) -> None:
    """Raise an error for absolute names and names with "..", as POSIX or as Windows paths."""
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        if path.is_absolute() or path.anchor or ".." in path.parts:
            raise UnsafeArchive(f"{archive}: member {name!r} would land outside the folder; refused")
