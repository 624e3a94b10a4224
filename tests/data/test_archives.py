"""Archives never leave their folder, and are unpacked whole or not at all."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from farout.data.archives import UnsafeArchive, read_tar_members, unpack
from helpers.originals import pack_zip, tar

CLIMBERS = ["../evil", "a/../../evil", "/evil", "C:/evil", "C:evil", "..\\evil", "\\\\host\\share\\evil"]


def archive_of(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "archive"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", [pack_zip, tar, lambda files: tar(files, "w:xz")], ids=["zip", "tar.gz", "tar.xz"])
def test_unpacked_once(tmp_path: Path, pack: object) -> None:
    path = archive_of(tmp_path, pack({"a/b.txt": b"1", "c.txt": b"2"}))  # type: ignore[operator]
    folder = unpack(path, tmp_path / "out" / "set")
    assert (folder / "a" / "b.txt").read_bytes() == b"1"
    assert (folder / "c.txt").read_bytes() == b"2"
    path.unlink()
    assert unpack(path, folder) == folder
    assert [entry.name for entry in folder.parent.iterdir()] == ["set"]


@pytest.mark.parametrize("name", CLIMBERS)
@pytest.mark.parametrize("pack", [pack_zip, tar], ids=["zip", "tar"])
def test_climbing_names_are_refused(tmp_path: Path, pack: object, name: str) -> None:
    path = archive_of(tmp_path, pack({"good": b"1", name: b"evil"}))  # type: ignore[operator]
    with pytest.raises(UnsafeArchive, match="outside the folder; refused"):
        unpack(path, tmp_path / "out" / "set")
    assert list(tmp_path.rglob("*evil*")) == []
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(UnsafeArchive, match="link or a device"):
        unpack(archive_of(tmp_path, out.getvalue()), tmp_path / "out" / "set")


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        member = zipfile.ZipInfo("link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(UnsafeArchive, match="is a link"):
        unpack(archive_of(tmp_path, out.getvalue()), tmp_path / "out" / "set")


def test_half_an_archive_leaves_nothing(tmp_path: Path) -> None:
    whole = tar({"a": b"1" * 10_000, "b": bytes(range(256)) * 400}, "w")
    with pytest.raises(tarfile.TarError):
        unpack(archive_of(tmp_path, whole[:20_000]), tmp_path / "out" / "set")
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_members_are_named(tmp_path: Path) -> None:
    path = archive_of(tmp_path, tar({"a": b"1"}))
    assert read_tar_members(path, ["a"]) == {"a": b"1"}
    with pytest.raises(ValueError, match=r"lacks b, c; delete it"):
        read_tar_members(path, ["a", "b", "c"])
