"""Shards and large arrays that are not what they should be: one clear error each, before any work."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import farout
from farout.data import npz, parquet, tar_index
from helpers.command_line import refused
from helpers.originals import png
from helpers.shards import cells, samples, write_table, write_tar
from helpers.written_runs import lenet_weights

IMAGES = [png(value) for value in (1, 2, 3, 4)]
Make = Callable[[Path], Any]


def _special(kind: bytes, name: str = "0.png", target: str = "/etc/passwd") -> Make:
    def write(folder: Path) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        write_tar(folder / "a.tar", [member, *samples(IMAGES, None, 1)])

    return write


def _tar(*members: tuple[str, bytes]) -> Make:
    return lambda folder: write_tar(folder / "a.tar", members)


def _changed(place: int, value: bytes) -> Make:
    """Other bytes in the header of the second sample's image, with a checksum that fits."""

    def write(folder: Path) -> None:
        content = bytearray(write_tar(folder / "a.tar", samples(IMAGES)).read_bytes())
        header = content[1024:1536]
        header[place : place + len(value)] = value
        header[148:156] = b" " * 8
        header[148:156] = f"{sum(header):06o}\0 ".encode()
        content[1024:1536] = header
        (folder / "a.tar").write_bytes(content)

    return write


def _edited(change: Callable[[bytes], bytes]) -> Make:
    return lambda folder: (folder / "a.tar").write_bytes(
        change(write_tar(folder / "a.tar", samples(IMAGES)).read_bytes())
    )


def _content(name: str, content: bytes) -> Make:
    return lambda folder: (folder / name).write_bytes(content)


def _table(**columns: Any) -> Make:
    return lambda folder: write_table(folder / "a.parquet", columns)


def _two_tables(one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...] = ()) -> Make:
    def write(folder: Path) -> None:
        write_table(folder / "1.parquet", {"image": cells(IMAGES), **one}, names)
        write_table(folder / "2.parquet", {"image": cells(IMAGES), **other})

    return write


def _damaged_table(place: int | None, size: int | None = None) -> Make:
    def write(folder: Path) -> None:
        content = bytearray(write_table(folder / "a.parquet", {"image": cells(IMAGES)}).read_bytes()[:size])
        if place is not None:
            content[place] ^= 0xFF
        (folder / "a.parquet").write_bytes(content)

    return write


def _shards(*names: str) -> Make:
    return lambda folder: [write_tar(folder / name, samples(IMAGES)) for name in names]


def _both(folder: Path) -> None:
    write_tar(folder / "a.tar", samples(IMAGES))
    write_table(folder / "b.parquet", {"image": cells(IMAGES)})


def _some_with_labels(folder: Path) -> None:
    write_tar(folder / "a.tar", samples(IMAGES))
    write_tar(folder / "b.tar", samples(IMAGES, [0, 1, 0, 1]))


def _npz_in_part(folder: Path) -> None:
    np.savez(folder / "a.npz", images=np.zeros((9, 8, 8, 3), np.uint8))
    content = (folder / "a.npz").read_bytes()
    (folder / "a.npz").write_bytes(content[:300] + content[600:])


def _npz_of_objects(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.npz", "w") as pack, pack.open("images.npy", "w") as file:
        np.lib.format.write_array(file, np.array([{}] * 4), allow_pickle=True)


def _zip_named_npy(folder: Path) -> None:
    with (folder / "a.npy").open("wb") as file:
        np.savez(file, images=np.zeros((4, 8, 8, 3), np.uint8))


LONG_NAME = tarfile.TarInfo("././@LongLink")
LONG_NAME.type, LONG_NAME.size = tarfile.GNUTYPE_LONGNAME, 1 << 40

CASES: dict[str, tuple[str, Make, str]] = {
    "a link": ("a.tar", _special(tarfile.SYMTYPE), "is a link, a device or a sparse file; refused"),
    "a hard link": ("a.tar", _special(tarfile.LNKTYPE), "is a link, a device or a sparse file; refused"),
    "a pipe": ("a.tar", _special(tarfile.FIFOTYPE), "is a link, a device or a sparse file; refused"),
    "a device": ("a.tar", _special(tarfile.CHRTYPE), "is a link, a device or a sparse file; refused"),
    "a way out": ("a.tar", _tar(("../0.png", IMAGES[0])), "would land outside the folder"),
    "an absolute name": ("a.tar", _tar(("/tmp/0.png", IMAGES[0])), "would land outside the folder"),
    "a drive": ("a.tar", _tar(("C:\\0.png", IMAGES[0])), "would land outside the folder"),
    "two of one name": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.png", IMAGES[1])), "has two members '0.png'"),
    "two images": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.jpg", IMAGES[1])), "has another image, '0.png'"),
    "no image": ("a.tar", _tar(("0.png", IMAGES[0]), ("1.cls", b"1")), "1 of 2 samples have no image, such as '1'"),
    "only texts": ("a.tar", _tar(("0.txt", b"a")), "1 of 1 samples have no image"),
    "no members": ("a.tar", _tar(), "has no images"),
    "class of words": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.cls", b"dog")), "holds b'dog'; expected the index"),
    "class -1": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.cls", b"-1")), "holds b'-1'; expected the index"),
    "class 100000": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.cls", b"100000")), "a whole number from 0 to 99,999"),
    "class 1.5": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.json", b'{"label": 1.5}')), "gives the class '1.5'"),
    "class true": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.json", b"true")), "gives the class 'True'"),
    "no JSON": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.json", b"{")), "'0.json' is not JSON"),
    "deep JSON": ("a.tar", _tar(("0.png", IMAGES[0]), ("0.json", b"[" * 200_000)), "'0.json' is not JSON"),
    "large JSON": ("a.tar", _tar(("0.json", b" " * (1 << 21)), ("0.png", IMAGES[0])), "at most 1,048,576 bytes"),
    "some classes": (
        "a.tar", _tar(("0.png", IMAGES[0]), ("0.cls", b"1"), ("1.png", IMAGES[1])),
        "1 of 2 samples have no class, such as '1'",
    ),
    "no PNG": ("a.tar", _tar(("0.png", b"hello"), ("1.png", IMAGES[0])), "1 of 2 images in"),
    "an empty PNG": ("a.tar", _tar(("0.png", b"")), "there are no bytes"),
    "two sizes": ("a.tar", _tar(("0.png", png(1, 4)), ("1.png", png(1, 5))), "images of 2 sizes: 4×4 (1), 5×5 (1)"),
    "gzip": ("a.tar", _edited(gzip.compress), "is compressed (gzip)"),
    "an empty tar": ("a.tar", _content("a.tar", b""), "is damaged or no tar archive"),
    "text": ("a.tar", _content("a.tar", b"hello " * 200), "is damaged or no tar archive"),
    "cut in an image": ("a.tar", _edited(lambda content: content[:3600]), "is damaged or no tar archive"),
    "cut between members": ("a.tar", _edited(lambda content: content[:3072]), "it ends without an end mark"),
    "cut in a header": ("a.tar", _edited(lambda content: content[:1100]), "is damaged or no tar archive"),
    "a damaged header": (
        "a.tar", _edited(lambda content: content[:1030] + b"\xff" + content[1031:]), "is damaged, at byte 1,024",
    ),
    "joined tars": ("a.tar", _edited(lambda content: content * 2), "there is more after its end mark"),
    "a negative size": ("a.tar", _changed(124, b"\xff" * 12), "is damaged or no tar archive"),
    "a size without end": ("a.tar", _changed(124, b"\x80" + b"\x7f" * 11), "is damaged or no tar archive"),
    "a long name": ("a.tar", _content("a.tar", LONG_NAME.tobuf(tarfile.GNU_FORMAT)), "a header takes"),
    "shards of two kinds": ("", _both, "expected shards of one kind"),
    "labels in one shard": ("", _some_with_labels, "1 of 2 shards have no labels, such as"),
    "a missing shard": ("a-{0..3}.tar", _shards("a-0.tar", "a-2.tar"), "names 2 files that are not there"),
    "a pattern of nothing": ("*.tar", lambda folder: None, "names 1 files that are not there"),
    "a shard twice": ("{a,a}.tar", _shards("a.tar"), "a.tar twice"),
    "a pattern without end": ("{0..999999999999}.tar", lambda folder: None, "at most 100,000 are allowed"),
    "a pattern of patterns": ("{0..999}{0..999}.tar", lambda folder: None, "names 1,000,000 files"),
    "a pattern of images": (
        "*.png", lambda folder: (folder / "a.png").write_bytes(IMAGES[0]), "of images one by one, give their folder",
    ),
    "a pattern of folders": ("{a,b}.tar", lambda folder: [(folder / f"{n}.tar").mkdir() for n in "ab"], "is no file"),
    "a column of numbers": ("a.parquet", _table(image=[1, 2]), "holds int64; expected encoded images"),
    "a column of texts": ("a.parquet", _table(image=["a.png"]), "holds string; expected encoded images"),
    "pixels": ("a.parquet", _table(image=[[[1, 2]]]), "expected encoded images"),
    "paths": ("a.parquet", _table(image=pa.array([{"bytes": None, "path": "/etc/passwd"}],
                                                 pa.struct({"bytes": pa.binary(), "path": pa.string()}))),
              "there are no bytes (an empty entry, or only the path of a file)"),
    "null": ("a.parquet", _table(image=cells([IMAGES[0], None])), "1 of 2 images in"),
    "bytes of no image": ("a.parquet", _table(image=[b"hello"]), "not an image of a known format"),
    "labels of words": ("a.parquet", _table(image=cells(IMAGES), label=list("abcd")), "'label' holds string"),
    "null labels": ("a.parquet", _table(image=cells(IMAGES), label=[0, None, 1, 1]), "1 of 4 rows have no 'label'"),
    "label -1": ("a.parquet", _table(image=cells(IMAGES), label=[0, -1, 1, 1]), "runs from -1 to 1"),
    "label 100000": ("a.parquet", _table(image=cells(IMAGES), label=[0, 1, 2, 100_000]), "classes, 0 to 99,999"),
    "a label without a name": (
        "a.parquet", lambda at: write_table(at / "a.parquet", {"image": cells(IMAGES), "label": [0, 1, 2, 2]}, "ab"),
        "runs from 0 to 2; expected indices of classes, 0 to 1",
    ),
    "no rows": ("a.parquet", _table(image=pa.array([], pa.binary())), "has no rows"),
    "other columns": ("a.parquet", _table(pixels=[b"a"], label=[1]), "is no table of configurations"),
    "other columns in a pattern": ("*.parquet", _table(pixels=[b"a"]), "has the columns pixels; expected 'image'"),
    "half a table": ("a.parquet", _damaged_table(None, 300), "is damaged or no Parquet file"),
    "a damaged end": ("a.parquet", _damaged_table(-6), "is damaged or no Parquet file"),
    "names of one shard": ("", _two_tables({"label": [0] * 4}, {"label": [0] * 4}, ("a", "b")), "names other classes"),
    "label of one shard": ("", _two_tables({"label": [0] * 4}, {}), "1 of 2 shards have no labels"),
    "other splits": ("", _shards("train-0.tar", "val-0.tar"), "'test'. Known: train, val"),
    "a part of an .npz": ("a.npz", _npz_in_part, "is damaged"),
    "an .npz of objects": ("a.npz", _npz_of_objects, "Object arrays are not read"),
    "an .npz named .npy": ("a.npy", _zip_named_npy, "is damaged or no .npy file"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_odd_shards(tmp_path: Path, case: str) -> None:
    name, make, words = CASES[case]
    folder = tmp_path / "set"
    folder.mkdir()
    make(folder)
    with pytest.raises((ValueError, OSError)) as raised:
        _ = farout.load(folder / name).shape
    assert words in str(raised.value)
    assert words.split("\n")[0] in refused(
        "corrupt", folder / name, "--out", tmp_path / "out", "--shift", "contrast", "--workers", "0"
    )
    assert not (tmp_path / "out").exists()


def test_braces_in_a_list_on_one_line(tmp_path: Path) -> None:
    lenet_weights(tmp_path)
    study = (
        "inliers: {test: toy}\noutliers: %s\ndetectors: [msp]\nnetworks: [{name: lenet, weights: lenet.safetensors}]\n"
    )
    (tmp_path / "study.yaml").write_text(study % "[photos-{0..3}.tar]")
    assert 'needs quotes: ["photos-{0000..0009}.tar"]' in refused("plan", tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text(study % '["photos-{0..3}.tar"]')
    assert "photos-{0..3}.tar names 4 files that are not there" in refused("plan", tmp_path / "study.yaml")


def test_limits_of_single_images_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_index, "LARGEST_IMAGE", 50)
    with pytest.raises(ValueError, match=r"'0\.png' has \d+ bytes, at most 50 are allowed"):
        farout.load(write_tar(tmp_path / "a.tar", [("0.png", IMAGES[0])]))
    monkeypatch.setattr(parquet, "LARGEST_GROUP", 50)
    with pytest.raises(ValueError, match=r"row group 0 has \d+ bytes of images, .* with row_group_size=1000"):
        farout.load(write_table(tmp_path / "a.parquet", {"image": cells(IMAGES)}))


def test_a_flipped_byte_anywhere_in_a_shard_changes_the_fingerprint_or_is_told(tmp_path: Path) -> None:
    """Every 37th byte of an archive: no other images or labels under the same fingerprint."""
    content = write_tar(tmp_path / "a.tar", samples(IMAGES[:2], [0, 1])).read_bytes()
    first = farout.load(tmp_path / "a.tar")
    for place in range(0, 4 * 1024 + 512, 37):
        (tmp_path / "b.tar").write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
        try:
            other = farout.load(tmp_path / "b.tar")
        except (ValueError, OSError):
            continue
        if other.fingerprint == first.fingerprint:
            np.testing.assert_array_equal(other.batch([0, 1]), first.batch([0, 1]))
            np.testing.assert_array_equal(other.labels, first.labels)


def test_encrypted_and_unknown_compression_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "HELD", 0)
    out = io.BytesIO()
    np.savez(out, images=np.zeros((9, 8, 8, 3), np.uint8))
    for place, value in ((6, 1), (8, 99)):  # flags and method in the local header; central directory: 8 and 10
        content = bytearray(out.getvalue())
        central = content.index(b"PK\1\2")
        content[place] = content[central + place + 2] = value
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npz is damaged or no \.npz file"):
            farout.load(tmp_path / "a.npz")
