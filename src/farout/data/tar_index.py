"""Index of a tar archive in WebDataset's layout: where every image lies, and its label.

Members that share a name up to the first dot are one sample: 0001.jpg and 0001.cls, or 0001.json. Only the index is
read from the archive's headers; nothing is unpacked, so that no member can land anywhere.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from farout.data.archives import UnsafeArchive, check_name
from farout.data.arrays import MOST_CLASSES
from farout.data.kept import Arrays, kept
from farout.data.pixels import SUFFIXES
from farout.data.stamps import Files
from farout.progress import BYTES, task

LABEL_KEYS = ("cls", "label", "labels", "target", "class")
"""Keys of a .json member that hold the class."""
LARGEST_IMAGE = 1 << 30
"""Maximum number of bytes of an encoded image."""
_VERSION = 1
_LARGEST_LABEL = 1 << 20
_LARGEST_READ = 1 << 20
_BLOCK = 512
_KEY = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)", re.DOTALL)
"""Name of a member: the sample's, and what follows the first dot."""
_META = re.compile(r"__[^/]*__($|/)")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class _Sample(NamedTuple):
    image: tuple[str, int, int] | None = None
    """Name, offset and size."""
    label: int | None = None


def read_index(path: Path) -> Arrays:
    """Return `names` (bytes between zeros), `offsets`, `sizes` and `labels` (empty without any); kept by file stamp."""
    return kept("indexes", ["tar", _VERSION], Files.at(path), lambda: _index(path))


def _index(path: Path) -> Arrays:
    samples = dict[str, _Sample]()
    with path.open("rb") as file:
        _check_kind(file, path)
        for name, offset, size in _members(file, path):
            if (found := _KEY.fullmatch(name)) and not name.rpartition("/")[2].startswith("."):
                key, extension = found.groups()
                known = samples.get(key, _Sample())
                samples[key] = _add(known, name, extension.lower(), offset, size, file, path)
    return _arrays(samples, path)


def _members(file: BinaryIO, path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of every file in an archive; raise an error for whatever is not a plain file."""
    seen, length = set[str](), path.stat().st_size
    try:
        with (
            tarfile.open(fileobj=cast(BinaryIO, _Guarded(file)), mode="r:") as tar,
            task(f"indexing {path.name}", length, BYTES) as count,
        ):
            reached = 0
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # else it keeps all of them
                if member.size < 0 or tar.offset <= reached:
                    raise tarfile.ReadError(f"{member.name!r} is of negative size")
                if member.offset_data + member.size > length:
                    raise tarfile.ReadError(f"{member.name!r} goes on after its end, byte {length:,}")
                count(tar.offset - reached)
                reached = tar.offset
                if member.isdir() or _META.search(member.name):
                    continue
                _check_member(member, seen, path)
                yield member.name, member.offset_data, member.size
            _check_end(file, tar.offset, length)
    except (tarfile.TarError, EOFError, RecursionError, OverflowError, UnicodeError) as error:
        raise ValueError(f"{path} is damaged or no tar archive ({error}); write it again") from error


class _Guarded:
    """File in which no header can ask for gigabytes of memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell = file, file.tell

    def seek(self, place: int) -> int:
        if place < 0:
            raise tarfile.ReadError("a header leads to before the beginning")
        return self._file.seek(place)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST_READ:
            raise tarfile.ReadError(f"a header takes {size:,} bytes")
        return self._file.read(size)


def _check_kind(file: BinaryIO, path: Path) -> None:
    start = file.read(8)
    for mark, name in _COMPRESSED.items():
        if start.startswith(mark):
            raise ValueError(
                f"{path} is compressed ({name}), so that its images cannot be read one by one; unpack it to a plain "
                ".tar (images are compressed already)"
            )
    file.seek(0)


def _check_member(member: tarfile.TarInfo, seen: set[str], path: Path) -> None:
    check_name(member.name, path)
    if not member.isreg() or member.issparse():
        raise UnsafeArchive(f"{path}: member {member.name!r} is a link, a device or a sparse file; refused")
    if member.name in seen:
        raise ValueError(f"{path} has two members {member.name!r}; write it again with every name once")
    seen.add(member.name)


def _check_end(file: BinaryIO, offset: int, length: int) -> None:
    """Raise an error unless the archive ends with blocks of zeros: `tarfile` takes any damage for its end."""
    file.seek(offset)
    if file.read(_BLOCK) != bytes(_BLOCK):
        raise tarfile.ReadError(f"it ends without an end mark, or is damaged, at byte {offset:,} of {length:,}")
    while piece := file.read(_LARGEST_READ):
        if piece.count(0) != len(piece):
            raise tarfile.ReadError("there is more after its end mark, as in joined archives; give them apart")


def _add(known: _Sample, name: str, extension: str, offset: int, size: int, file: BinaryIO, path: Path) -> _Sample:
    """Return a sample with one more member."""
    if f".{extension}" in SUFFIXES:
        if known.image is not None:
            raise ValueError(f"{path}: the sample of {name!r} has another image, {known.image[0]!r}; expected one")
        if size > LARGEST_IMAGE:
            raise ValueError(f"{path}: {name!r} has {size:,} bytes, at most {LARGEST_IMAGE:,} are allowed")
        return known._replace(image=(name, offset, size))
    if extension not in ("cls", "json"):
        return known
    if size > _LARGEST_LABEL:
        raise ValueError(f"{path}: {name!r} has {size:,} bytes; expected a class, at most {_LARGEST_LABEL:,} bytes")
    file.seek(offset)
    label = (_parse_cls if extension == "cls" else _parse_json)(file.read(size), f"{path}: {name!r}")
    return known if label is None or (extension == "json" and known.label is not None) else known._replace(label=label)


def _parse_cls(content: bytes, where: str) -> int:
    if not re.fullmatch(rb"\s*\d{1,6}\s*", content) or int(content) >= MOST_CLASSES:
        raise ValueError(
            f"{where} holds {content[:40]!r}; expected the index of a class, a whole number from 0 to "
            f"{MOST_CLASSES - 1:,}"
        )
    return int(content)


def _parse_json(content: bytes, where: str) -> int | None:
    """Return the class in a .json member: the number itself, or that of a known key; None if there is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error})") from error
    if isinstance(value, dict):
        value = next((value[key] for key in LABEL_KEYS if key in value), None)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < MOST_CLASSES:
        raise ValueError(
            f"{where} gives the class {str(value)[:40]!r}; expected its index, a whole number from 0 to "
            f"{MOST_CLASSES - 1:,}"
        )
    return value


def _arrays(samples: dict[str, _Sample], path: Path) -> Arrays:
    """Return the index; raise an error for samples without an image, or of which only some have a label."""
    if bare := [key for key, sample in samples.items() if sample.image is None]:
        raise ValueError(
            f"{path}: {len(bare):,} of {len(samples):,} samples have no image, such as {bare[0]!r}; expected members "
            f"such as {bare[0]}.jpg ({', '.join(sorted(SUFFIXES))})"
        )
    images = [sample.image for sample in samples.values() if sample.image is not None]
    if not images:
        raise ValueError(f"{path} has no images; expected members ending in {', '.join(sorted(SUFFIXES))}")
    labels = [sample.label for sample in samples.values() if sample.label is not None]
    if labels and len(labels) < len(samples):
        without = next(key for key, sample in samples.items() if sample.label is None)
        raise ValueError(
            f"{path}: {len(samples) - len(labels):,} of {len(samples):,} samples have no class, such as {without!r}; "
            f"expected {without}.cls or .json in all of them, or in none"
        )
    names = "\0".join(name for name, _, _ in images).encode("utf-8", "surrogateescape")
    return {
        "names": np.frombuffer(names, np.uint8),
        "offsets": np.array([offset for _, offset, _ in images], np.int64),
        "sizes": np.array([size for _, _, size in images], np.int64),
        "labels": np.array(labels, np.int64),
    }
