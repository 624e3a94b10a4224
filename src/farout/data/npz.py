"""Reader of .npz files: large arrays are memory-mapped, in place if they are stored as they are, else unpacked once."""

from __future__ import annotations

import logging
import shutil
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farout.data.arrays import ATTRIBUTE_ARRAYS, ArraySet
from farout.data.cache import cache_folder
from farout.data.mapped import Header, Mapped, read_header
from farout.data.stamps import Files
from farout.files import atomic_file
from farout.identity import digest
from farout.progress import BYTES, task

HELD = 1 << 25
"""Bytes up to which an array is held in memory; a larger one is memory-mapped."""
_ALWAYS_FINE, _EXPANSION = 1 << 30, 100
"""Bytes that an array may always have; maximum ratio of unpacked to stored bytes of a larger one."""
_PIECE = 1 << 20
_ENCRYPTED = 1
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Header of a member: its mark, and the lengths of the name and the extra field that follow it."""
_DAMAGE = (
    zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, TypeError, struct.error, OSError,
)  # fmt: skip
"""Exceptions that damaged files lead to."""
_log = logging.getLogger(__name__)


def list_npz_arrays(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file; an empty list for any other file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return list(file)
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, EOFError, NotImplementedError):
        return []


def read_npz(path: Path, split: str = "test", name: str | None = None) -> ArraySet:
    """Return the set in an .npz file: arrays `images`, `labels` and `ATTRIBUTE_ARRAYS`, or `{split}_images` …."""
    try:
        return _read_npz(path, split, name or path.stem)
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened, or is not there
            raise
        raise ValueError(f"{path} is damaged or no .npz file ({error}); write it again with numpy.savez") from error


def _read_npz(path: Path, split: str, name: str) -> ArraySet:
    files = Files.at(path)
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as file:
        prefix = "" if "images" in file else f"{split}_"
        if f"{prefix}images" not in file:
            raise ValueError(
                f"{path} has the arrays {', '.join(file) or 'none'}; expected 'images' (and 'labels'), "
                f"or '{split}_images' (and '{split}_labels')"
            )
        wanted = [what for what in ("images", "labels", *ATTRIBUTE_ARRAYS) if f"{prefix}{what}" in file]
        headers = {what: _check_member(archive, f"{prefix}{what}.npy", path) for what in wanted}
        beside = {what: file[f"{prefix}{what}"] for what in wanted if what != "images"}
        images = _open_images(archive, f"{prefix}images.npy", headers["images"], files)
    labels = beside.pop("labels", None)
    return ArraySet(images, labels, name=name, attributes=beside, files=files, part=split)


def _open_images(archive: zipfile.ZipFile, member: str, header: Header, files: Files) -> NDArray[Any] | Mapped:
    """Return an array of the file: itself if it is small, else where it lies, in this file or in the cache folder."""
    about, path = archive.getinfo(member), Path(str(archive.filename))
    if header.values > HELD and about.compress_type == zipfile.ZIP_STORED and not about.flag_bits & _ENCRYPTED:
        start = _find_start(path, about)
        files.remembered("crc32", member, lambda: _check_crc(path, start, about))
        return Mapped.at(path, start)
    if header.values > HELD:
        try:
            return Mapped.at(_unpack_once(archive, about, path))
        except OSError as error:
            _log.warning(
                "%s: %s is held in memory, by every process: it could not be unpacked into the cache folder (%s); "
                "numpy.savez, which does not compress, needs no copy", path, member, error,
            )  # fmt: skip
    with archive.open(about) as file:
        images: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read()  # to the end, where the checksum is compared
    return images


def _find_start(path: Path, about: zipfile.ZipInfo) -> int:
    """Return the number of bytes before the content of a member."""
    with path.open("rb") as file:
        file.seek(about.header_offset)
        mark, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if mark != b"PK\3\4":
        raise zipfile.BadZipFile(f"no header of {about.filename}")
    return about.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)


def _check_crc(path: Path, start: int, about: zipfile.ZipInfo) -> bool:
    """Return True; raise an error if the bytes do not have the checksum that the archive has of them."""
    checksum, left = 0, about.file_size
    with path.open("rb") as file, task(f"checking {path.name}", left, BYTES) as count:
        file.seek(start)
        while left and (piece := file.read(min(_PIECE, left))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
            count(len(piece))
    if left or checksum != about.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {about.filename!r}")
    return True


def _unpack_once(archive: zipfile.ZipFile, about: zipfile.ZipInfo, path: Path) -> Path:
    """Return an unpacked copy of a member in the cache folder. Copies of what the file held before are removed."""
    folder, place = cache_folder() / "unpacked", digest([str(path.resolve()), about.filename])
    copy = folder / f"{place}-{about.CRC:08x}-{about.file_size}.npy"
    if not _is_copy(copy, about):
        folder.mkdir(parents=True, exist_ok=True)
        _log.warning(
            "%s is compressed: its %s bytes are unpacked once, into %s; numpy.savez, which does not compress, needs no "
            "copy", path, f"{about.file_size:,}", folder,
        )  # fmt: skip
        with atomic_file(copy) as temporary, archive.open(about) as source, temporary.open("wb") as target:
            shutil.copyfileobj(source, target, _PIECE)  # which compares the checksum at the end
    for old in set(folder.glob(f"{place}-*.npy")) - {copy}:
        old.unlink(missing_ok=True)
    return copy


def _is_copy(copy: Path, about: zipfile.ZipInfo) -> bool:
    """Return True if there is an undamaged copy of a member."""
    try:
        files = Files.at(copy)
        return bool(files.remembered("crc32", about.CRC, lambda: _check_crc(copy, 0, about)))
    except (OSError, zipfile.BadZipFile):
        return False


def _check_member(archive: zipfile.ZipFile, member: str, path: Path) -> Header:
    """Return the header; raise an error, before memory is allocated, for a wrong size or an extreme compression."""
    about = archive.getinfo(member)
    if about.file_size > max(_ALWAYS_FINE, _EXPANSION * about.compress_size):
        raise ValueError(
            f"{path}: {member} takes {about.compress_size:,} bytes in the file and {about.file_size:,} in memory; more "
            f"than {_EXPANSION} times the stored size is refused: write it with numpy.savez, which does not compress"
        )
    with archive.open(about) as file:
        header = _header(file, f"{path}: {member}")
    if header.values != about.file_size - header.size:
        raise ValueError(
            f"{path} is damaged: {member} does not have the size of its header, {header.dtype} {list(header.shape)}"
        )
    return header


def _header(file: BinaryIO | Any, what: str) -> Header:
    try:
        return read_header(file)
    except ValueError as error:
        raise ValueError(f"{what} cannot be read ({error})") from error
