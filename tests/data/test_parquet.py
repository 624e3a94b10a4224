"""Parquet shards: images, labels and class names as Hugging Face writes them; row groups are read one at a time."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import farout
from farout.data import parquet
from farout.data.parquet import RowGroups
from helpers.originals import png, random_pixels
from helpers.shards import cells, write_table

PIXELS = random_pixels(11, 5, 5, 3)
IMAGES = [png(pixels) for pixels in PIXELS]
LABELS = [k % 3 for k in range(11)]


def pixels(images: farout.ImageSet, indices: Any) -> np.ndarray:
    return (images.batch(indices).numpy() * 255).round().astype(np.uint8).transpose(0, 2, 3, 1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Eleven images in row groups of four."""
    return write_table(tmp_path / "a.parquet", {"image": cells(IMAGES), "label": LABELS}, ("cat", "dog", "elk"))


def test_images_labels_and_names(table: Path) -> None:
    images = farout.load(table)
    assert images.labels is not None
    assert (images.name, images.labels.tolist(), images.classes) == ("a", LABELS, ("cat", "dog", "elk"))
    order = [10, 0, 3, 4, 4, 8, 7]
    np.testing.assert_array_equal(pixels(images, order), PIXELS[order])
    np.testing.assert_array_equal(pixels(images.subset([9, 2]), [1, 0]), PIXELS[[2, 9]])
    np.testing.assert_array_equal(pixels(pickle.loads(pickle.dumps(images)), range(11)), PIXELS)


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ({"img": IMAGES}, None),
        ({"image": pa.array(IMAGES, pa.large_binary()), "labels": np.array(LABELS, np.int8)}, LABELS),
        ({"image": cells(IMAGES), "label": [-1] * 11}, None),
        ({"image": cells(IMAGES), "caption": ["a"] * 11, "target": np.array(LABELS, np.uint64)}, LABELS),
    ],
)
def test_other_columns(tmp_path: Path, columns: dict[str, Any], labels: list[int] | None) -> None:
    images = farout.load(write_table(tmp_path / "a.parquet", columns))
    assert (None if images.labels is None else images.labels.tolist()) == labels
    np.testing.assert_array_equal(pixels(images, range(11)), PIXELS)


def test_shards_of_splits(tmp_path: Path) -> None:
    for shard, (start, end) in enumerate([(0, 3), (3, 3), (3, 7)]):
        cut = {"image": pa.array(cells(IMAGES[start:end]), pa.struct({"bytes": pa.binary(), "path": pa.string()})),
               "label": pa.array(LABELS[start:end], pa.int64())}  # fmt: skip
        write_table(tmp_path / f"train-{shard:05}-of-00003.parquet", cut)
    write_table(tmp_path / "test-00000-of-00001.parquet", {"image": cells(IMAGES[7:]), "label": LABELS[7:]})
    train, test = farout.load(tmp_path, "train"), farout.load(tmp_path / "test-*.parquet")
    np.testing.assert_array_equal(pixels(train, range(7)), PIXELS[:7])
    np.testing.assert_array_equal(pixels(test, range(4)), PIXELS[7:])
    assert train.labels is not None
    assert train.labels.tolist() == LABELS[:7]


def test_a_row_group_is_read_once_for_neighbors(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()
    real = RowGroups._read
    monkeypatch.setattr(RowGroups, "_read", lambda self, owner, group: read.append(group) or real(self, owner, group))
    images = farout.load(table, side=5)
    assert read == [0, 1, 2]  # the survey
    for index in range(11):
        images.batch([index])
    assert read == [0, 1, 2]
    monkeypatch.setattr(parquet, "CACHE", 0)  # one at a time
    images = farout.load(table, side=5)
    del read[:]
    images.batch([0, 10, 5, 1, 9])
    images.batch([10])
    images.batch([3])
    assert read == [0, 1, 2, 0]


def test_a_table_of_configurations_is_rendered(tmp_path: Path) -> None:
    drawn = farout.load("shapes", limit=2)
    table = farout.data.shapes_chars.load_drawn("shapes", "test", seed=1, side=32, limit=2).configurations  # type: ignore[attr-defined]
    table.write(tmp_path / "figures.parquet")
    np.testing.assert_array_equal(farout.load(tmp_path / "figures.parquet").batch([0, 1]), drawn.batch([0, 1]))


def test_metadata_that_is_not_hugging_faces_does_no_harm(tmp_path: Path) -> None:
    for number, about in enumerate([b"{", b"[]", json.dumps({"info": {"features": {"label": 3}}}).encode()]):
        columns = pa.table({"image": cells(IMAGES), "label": LABELS}).replace_schema_metadata({"huggingface": about})
        path = tmp_path / f"{number}.parquet"
        pa.parquet.write_table(columns, path)
        assert farout.load(path).classes == ("0", "1", "2")
