"""Facts of files are remembered by their stamps, and never of files that have changed or may change unseen."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from farout.data import arrays, load, stamps
from farout.data.stamps import RESOLUTION, Files


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is ahead, so that the files of the test are old."""
    real = time.time
    monkeypatch.setattr(stamps.time, "time", lambda: real() + 2 * RESOLUTION)


def length(path: Path, calls: list[int]) -> int:
    def compute() -> int:
        calls.append(1)
        return len(path.read_bytes())

    return int(Files.at(path).remembered("length", "", compute))


@pytest.mark.usefixtures("later")
def test_a_fact_of_an_unchanged_file_is_remembered(tmp_path: Path) -> None:
    path, calls = tmp_path / "a", list[int]()
    path.write_bytes(b"123")
    assert [length(path, calls) for _ in range(3)] == [3, 3, 3]
    assert len(calls) == 1


@pytest.mark.usefixtures("later")
def test_a_file_of_the_same_size_and_time_is_another_file(tmp_path: Path) -> None:
    path, calls = tmp_path / "a", list[int]()
    path.write_bytes(b"123")
    first = path.stat()
    length(path, calls)
    path.write_bytes(b"124")  # the same inode and size, and the old time
    os.utime(path, ns=(first.st_atime_ns, first.st_mtime_ns))
    length(path, calls)
    other = tmp_path / "b"
    other.write_bytes(b"125")
    os.utime(other, ns=(first.st_atime_ns, first.st_mtime_ns))
    other.replace(path)  # another inode
    length(path, calls)
    assert len(calls) == 3


def test_nothing_is_remembered_of_a_file_that_has_just_changed(tmp_path: Path) -> None:
    path, calls = tmp_path / "a", list[int]()
    path.write_bytes(b"123")
    assert not Files.at(path).settled
    assert [length(path, calls) for _ in range(2)] == [3, 3]
    assert len(calls) == 2


@pytest.mark.usefixtures("later")
def test_nothing_is_remembered_of_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"123")

    def compute() -> int:
        path.write_bytes(b"12345")
        return 3

    assert Files.at(path).remembered("length", "", compute) == 3
    path.write_bytes(b"123")
    assert length(path, calls := []) == 3
    assert calls == [1]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_the_fingerprint_of_arrays_in_a_file_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path, hashed = tmp_path / f"set{suffix}", list[int]()
    real = arrays.digest_arrays
    monkeypatch.setattr(arrays, "digest_arrays", lambda named: hashed.append(1) or real(named))

    def write(value: int) -> None:
        images = np.full((4, 8, 8, 3), value, np.uint8)
        np.save(path, images) if suffix == ".npy" else np.savez(path, images=images, labels=np.arange(4))

    write(1)
    first = load(path).fingerprint
    assert (load(path).fingerprint, len(hashed)) == (first, 1)
    in_memory = arrays.ArraySet(np.full((4, 8, 8, 3), 1, np.uint8), np.arange(4) if suffix == ".npz" else None)
    assert in_memory.fingerprint == first
    write(2)
    assert load(path).fingerprint != first


@pytest.mark.usefixtures("later")
def test_labels_beside_an_array_are_part_of_its_fingerprint(tmp_path: Path) -> None:
    np.save(tmp_path / "set.npy", np.zeros((4, 8, 8, 3), np.uint8))
    bare = load(tmp_path / "set.npy").fingerprint
    np.save(tmp_path / "labels.npy", np.arange(4))
    labeled = load(tmp_path / "set.npy").fingerprint
    np.save(tmp_path / "labels.npy", np.arange(4)[::-1])
    assert len({bare, labeled, load(tmp_path / "set.npy").fingerprint}) == 3


@pytest.mark.usefixtures("later")
def test_splits_of_one_file_have_their_own_fingerprints(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "set.npz", train_images=images[0], test_images=images[1])
    prints = [load(tmp_path / "set.npz", split).fingerprint for split in ("train", "test", "train")]
    assert prints[0] == prints[2] != prints[1]
