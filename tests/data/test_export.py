"""Drawn sets on disk: what is written can be read again, and a second call goes on."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

import farout
from farout.data.shapes_chars import Drawn, load_drawn
from farout.data.writing.render import Format, export


def small(split: str = "test/id", seed: int = 1) -> Drawn:
    return load_drawn("shapes", split, seed=seed, side=24, limit=90)


def test_png_files_by_class(tmp_path: Path) -> None:
    images = small()
    folder = export(images, tmp_path / "test", "png")
    again = farout.load(folder)
    assert len(again) == 90
    assert again.classes == tuple(sorted(set(images.attributes["class"])))
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.png"))
    order = [int(path.stem) for path in files]
    assert [path.parent.name for path in files] == images.attributes["class"][order].tolist()
    assert torch.equal(again.batch(range(90)), images.batch(order))


def test_npz_file(tmp_path: Path) -> None:
    images = small()
    path = export(images, tmp_path / "test", "npz")
    again = farout.load(path)
    assert again.labels.tolist() == images.labels.tolist()
    assert torch.equal(again.batch(range(90)), images.batch(range(90)))


def test_no_labels_where_there_are_none(tmp_path: Path) -> None:
    assert farout.load(export(small("test/ood_cls"), tmp_path / "x", "npz")).labels is None


def test_the_table_draws_the_same_images(tmp_path: Path) -> None:
    images = small()
    export(images, tmp_path / "test", "png")
    again = farout.load(tmp_path / "test.parquet", side=24)
    assert torch.equal(again.batch(range(90)), images.batch(range(90)))


def test_a_second_call_writes_only_what_is_missing(tmp_path: Path) -> None:
    folder = export(small(), tmp_path / "test", "png")
    files = sorted(folder.rglob("*.png"))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    files[3].unlink()
    done: list[int] = []
    export(small(), tmp_path / "test", "png", done.append)
    assert sum(done) == 90
    assert files[3].read_bytes() == before[files[3]][1]
    assert all(path.stat().st_mtime_ns == before[path][0] for path in files if path != files[3])


def test_an_interrupted_file_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = small()
    plain, calls = images.batch, []

    def stopped(indices: object) -> torch.Tensor:
        calls.append(indices)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return plain(indices)

    monkeypatch.setattr(images, "batch", stopped)
    with pytest.raises(KeyboardInterrupt):
        export(images, tmp_path / "test", "npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.json", "test.parquet"]


def test_interrupted_files_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = Image.Image.save, []

    def stopped(image: Image.Image, *arguments: object, **options: object) -> None:
        calls.append(image)
        plain(image, *arguments, **options)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", stopped)
    with pytest.raises(KeyboardInterrupt):
        export(small(), tmp_path / "test", "png")
    assert not [path for path in (tmp_path / "test").rglob("*") if path.is_file()]


def test_an_interrupted_export_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = small()
    with monkeypatch.context() as patch:
        patch.setattr(images, "batch", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            export(images, tmp_path / "test", "png")
    export(images, tmp_path / "test", "png")
    assert len(farout.load(tmp_path / "test")) == 90


@pytest.mark.parametrize("form", ["png", "npz"])
@pytest.mark.parametrize("there", ["test/circle/000000.png", "test.npz", "test.parquet", "test"])
def test_what_is_not_ours_is_not_written_over(there: str, form: Format, tmp_path: Path) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"exists already, without a test\.json that describes it"):
        export(small(), tmp_path / "test", form)
    assert (tmp_path / there).read_bytes() == b"mine"
    assert not (tmp_path / "test.json").exists()


def test_an_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    assert len(farout.load(export(small(), tmp_path / "test", "png"))) == 90


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    export(small(), tmp_path / "test", "npz")
    manifest = tmp_path / "test.json"
    manifest.write_text(manifest.read_text()[:20])
    with pytest.raises(ValueError, match=r"test\.json is damaged .*delete the file and the set, or choose"):
        export(small(), tmp_path / "test", "npz")
    manifest.write_text("[]")
    with pytest.raises(ValueError, match="holds a list, expected a mapping"):
        export(small(), tmp_path / "test", "npz")


def test_another_set_is_not_written_over(tmp_path: Path) -> None:
    export(small(), tmp_path / "test", "npz")
    before = (tmp_path / "test.npz").read_bytes()
    with pytest.raises(ValueError, match="holds another set"):
        export(small(seed=2), tmp_path / "test", "npz")
    assert (tmp_path / "test.npz").read_bytes() == before
    assert np.load(tmp_path / "test.npz")["images"].shape == (90, 24, 24, 3)
