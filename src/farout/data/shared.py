"""Images that two sets have in common, found by their pixels."""

from __future__ import annotations

import hashlib

from farout.core import ImageSet
from farout.data.arrays import ArraySet, as_bytes
from farout.data.encoded import EncodedSet
from farout.data.items import FloatSet, ItemSet
from farout.data.joined import Joined
from farout.data.matched import Matched, match
from farout.data.memo import remembered
from farout.data.subset import Subset

LARGEST = 200_000
"""Largest number of images of a set that are compared."""
READ = (ArraySet, EncodedSet, FloatSet, ItemSet)
"""Sets whose images are read; those that are rendered, generated or shifted are not."""


def count_equal(a: ImageSet, b: ImageSet, shape: tuple[int, int, int]) -> int:
    """Return the number of images of one set that the other holds too, as 8-bit values in this shape.

    0 if a set is not read, or has more than `LARGEST` images. The number is remembered by both fingerprints.
    """
    if not (is_read(a) and is_read(b)) or max(len(a), len(b)) > LARGEST:
        return 0
    key = [1, a.fingerprint, b.fingerprint, list(shape)]
    count = remembered("equal images", key, lambda: _count(match(a, shape), match(b, shape)))
    assert isinstance(count, int)
    return count


def is_read(images: ImageSet) -> bool:
    """Return True for sets of arrays or files, parts of them and resized ones."""
    if isinstance(images, Subset | Matched):
        return is_read(images.parent)
    return all(map(is_read, images.parts)) if isinstance(images, Joined) else isinstance(images, READ)


def _count(a: ImageSet, b: ImageSet) -> int:
    known = set(_hashes(b))
    return sum(one in known for one in _hashes(a))


def _hashes(images: ImageSet) -> list[bytes]:
    """Return the hash of every image's 8-bit values."""
    return [hashlib.blake2b(one.tobytes(), digest_size=16).digest() for part in images for one in as_bytes(part)]
