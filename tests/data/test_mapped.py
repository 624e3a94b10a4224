"""Large arrays stay in their files: memory, checksums, damage, and what another process is sent."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import farout
from farout.data import npz, stamps
from farout.data.arrays import ArraySet
from farout.data.mapped import Mapped
from helpers.originals import random_pixels

IMAGES, LABELS = random_pixels(12, 8, 7, 3), np.arange(12) % 4
FLOATS = (IMAGES.transpose(0, 3, 1, 2) / 255).astype(np.float32)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array counts as large, and every file as old."""
    monkeypatch.setattr(npz, "HELD", 0)
    monkeypatch.setattr(stamps, "RESOLUTION", -60.0)


def is_mapped(images: farout.ImageSet) -> bool:
    assert isinstance(images, ArraySet)
    return isinstance(images._mapped, Mapped)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "images",
    [IMAGES, IMAGES[..., 0], FLOATS, FLOATS.astype(np.float64), np.asfortranarray(IMAGES), FLOATS.astype(">f4")],
    ids=["uint8", "gray", "float32", "float64", "fortran", "big endian"],
)
def test_a_mapped_set_is_the_set_in_memory(tmp_path: Path, images: np.ndarray, write: object) -> None:
    write(tmp_path / "set.npz", labels=LABELS, images=images)  # type: ignore[operator]
    mapped, held = farout.load(tmp_path / "set.npz"), ArraySet(images, LABELS)
    assert is_mapped(mapped)
    assert mapped.fingerprint == held.fingerprint
    order = [11, 0, 3, 3]
    np.testing.assert_array_equal(mapped.batch(order), held.batch(order))
    assert mapped.labels is not None
    assert mapped.labels.tolist() == LABELS.tolist()


def test_images_and_labels_in_a_folder(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    np.save(tmp_path / "labels.npy", LABELS)
    for path in (tmp_path, tmp_path / "images.npy"):
        images = farout.load(path)
        assert is_mapped(images)
        assert images.fingerprint == ArraySet(IMAGES, LABELS).fingerprint
    assert farout.load(tmp_path).name == tmp_path.name
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    np.save(tmp_path / "train" / "images.npy", IMAGES[:5])
    np.save(tmp_path / "test" / "images.npy", IMAGES[5:])
    assert [len(farout.load(tmp_path, split)) for split in ("train", "test")] == [5, 7]
    np.save(tmp_path / "labels.npy", [*LABELS, 0])
    with pytest.raises(ValueError, match=r"labels: expected 12 whole numbers, got int64 of shape \(13,\)"):
        farout.load(tmp_path / "images.npy")


def test_a_compressed_file_is_unpacked_once(tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "set.npz"
    np.savez_compressed(path, images=IMAGES)
    with caplog.at_level(logging.WARNING, "farout"):
        first = farout.load(path)
        assert farout.load(path).fingerprint == first.fingerprint
    (said,) = caplog.messages
    assert f"{path} is compressed: its {IMAGES.nbytes + 128:,} bytes are unpacked once" in said
    (copy,) = (cache / "unpacked").iterdir()
    content = bytearray(copy.read_bytes())
    content[200] ^= 1
    copy.write_bytes(content)
    assert farout.load(path).fingerprint == first.fingerprint  # it is unpacked again
    assert len(caplog.messages) == 2
    np.savez_compressed(path, images=IMAGES[::-1])
    np.testing.assert_array_equal(farout.load(path).batch([0]), ArraySet(IMAGES).batch([11]))
    assert len(list((cache / "unpacked").iterdir())) == 1  # the copy of what the file held before is gone


def test_without_a_cache_folder_it_is_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "set.npz"
    np.savez_compressed(path, images=IMAGES)
    monkeypatch.setenv("FAROUT_DATA", str(path))  # a file
    with caplog.at_level(logging.WARNING, "farout"):
        images = farout.load(path)
    assert not is_mapped(images)
    np.testing.assert_array_equal(images.batch([3]), ArraySet(IMAGES).batch([3]))
    assert "held in memory, by every process" in caplog.messages[-1]


@pytest.mark.parametrize("place", [130, 400, -400])
def test_a_flipped_byte_in_a_stored_array_is_found(tmp_path: Path, place: int) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=IMAGES)
    assert is_mapped(farout.load(path))
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.npz"):
        farout.load(path)


def test_a_checksum_is_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "set.npz", images=FLOATS)
    farout.load(tmp_path / "set.npz")
    monkeypatch.setattr(npz, "_check_crc", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr("farout.data.arrays._check_range", lambda *_: pytest.fail("read again"))
    farout.load(tmp_path / "set.npz")


def test_the_range_of_floats_is_checked(tmp_path: Path) -> None:
    wrong = FLOATS.copy()
    wrong[11, 2, 7, 6] = 1.5
    np.save(tmp_path / "a.npy", wrong)
    wrong[3, 0, 0, :3] = np.nan
    np.save(tmp_path / "b.npy", wrong)
    for name, got in (("a", "0 NaN and values from 0 to 1.5"), ("b", "3 NaN and values from 0 to 1.5")):
        with pytest.raises(ValueError, match=rf"{name}: float images must lie in \[0, 1\], got {got}"):
            farout.load(tmp_path / f"{name}.npy")


def test_a_file_that_changes_while_it_is_open_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", IMAGES)
    images = farout.load(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(b"")  # reading the mapped pages would kill the process
    with pytest.raises(RuntimeError, match=r"a\.npy has changed or is gone since it was opened; load the set again"):
        images.batch([0])


def test_another_process_is_sent_no_pixels(tmp_path: Path) -> None:
    many = random_pixels(200, 8, 7, 3)
    np.savez(tmp_path / "set.npz", images=many)
    images = farout.load(tmp_path / "set.npz")
    packed = pickle.dumps(images)
    assert len(packed) < many.nbytes / 4
    again = pickle.loads(packed)
    np.testing.assert_array_equal(again.batch(range(12)), ArraySet(many).batch(range(12)))
    assert again.fingerprint == images.fingerprint


def test_a_member_that_lies_where_its_header_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=IMAGES)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("images.npy").header_offset
    content = bytearray(path.read_bytes())
    content[start + 28] ^= 8  # the length of the extra field
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.npz"):
        farout.load(path)


MEASURE = """
import re, sys
from pathlib import Path
import farout

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10

farout.load(sys.argv[2]).batch([0])
before = peak()
images = farout.load(sys.argv[1])
images.fingerprint
means = [batch.mean().item() for batch in images]
print(len(images), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no peak of memory here")
@pytest.mark.parametrize("form", ["npy", "npz"])
def test_a_set_is_never_whole_in_memory(tmp_path: Path, cache: Path, form: str) -> None:
    """400 MB are fingerprinted and scored within 150 MB: two blocks of 64 MB, and a batch."""
    shape = (6400, 145, 145, 3)
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    path, few = tmp_path / f"large.{form}", tmp_path / "few.npy"
    np.save(few, np.zeros((1, *shape[1:]), np.uint8))
    archive = zipfile.ZipFile(path, "w") if form == "npz" else None
    with archive.open("images.npy", "w", force_zip64=True) if archive else path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        if form == "npy":
            file.truncate(file.tell() + int(np.prod(shape)))  # sparse: it takes no disk
        else:
            for _ in range(shape[0]):
                file.write(bytes(int(np.prod(shape[1:]))))
    if archive:
        archive.close()
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(few)], capture_output=True, text=True, check=False,
        env={**os.environ, "FAROUT_DATA": str(cache)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    total, megabytes = map(int, ran.stdout.split())
    assert total == shape[0]
    assert megabytes < 150
