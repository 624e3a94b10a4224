"""SHAPES and CHARS as image sets: drawn on demand, corrupted where their table says so."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch

import farout
from farout.data.scenes import renderer
from farout.data.scenes.configurations import Configurations
from farout.data.scenes.renderer import render
from farout.data.shapes_chars import Drawn, load_drawn, shifted_attributes, split_name

FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"
SANS = FONTS / "DejaVuSans.ttf"


@pytest.mark.parametrize("name", ["shapes", "chars"])
def test_splits_of_the_paper(name: str) -> None:
    classes = farout.load(name).classes
    assert len(classes) == {"shapes": 8, "chars": 10}[name]
    sizes = {
        "train": 100_000,
        "val": 5000,
        "test/id": 5000,
        "test/ood_hue": 5000,
        "test/ood_cls": 5000,
        "test/ood_both": 5000,
    }
    for split, size in sizes.items():
        images = farout.load(name, split)
        assert len(images) == size, split
        known = split not in ("test/ood_cls", "test/ood_both")
        assert images.classes == (classes if known else ())
        if known:
            assert [classes[label] for label in images.labels] == images.attributes["class"].tolist()
        else:
            assert images.labels is None
        share = (images.attributes["severity"] > 0).mean()
        assert share == (0.3 if split.startswith("test") else 0), split


def test_test_is_short_for_test_id() -> None:
    assert farout.load("shapes").fingerprint == farout.load("shapes", "test/id").fingerprint


def test_splits_have_no_image_in_common() -> None:
    tables = [farout.load("shapes", split).configurations.columns for split in ("val", "test", "test/ood_lighting")]
    rows = [set(zip(t["x"], t["y"], t["size"], t["hue"], t["light_angle"], strict=True)) for t in tables]
    assert not rows[0] & rows[1]
    assert not rows[1] & rows[2]


def test_any_attribute_can_be_shifted() -> None:
    inliers = farout.load("shapes").attributes
    shifted = farout.load("shapes", "test/ood_size+rotation").attributes
    assert shifted["size"].max() < inliers["size"].min()
    assert set(shifted["hue"]) == set(inliers["hue"])
    same = farout.load("shapes", "test/ood_rotation+size")
    assert same.fingerprint == farout.load("shapes", "test/ood_size+rotation").fingerprint
    assert same.name == "shapes/ood_size+rotation"


def test_names_of_shifts() -> None:
    assert shifted_attributes("test/ood_both") == {"hue", "class"}
    assert shifted_attributes("test/ood_class+hue") == {"hue", "class"}
    assert split_name(frozenset({"class", "hue"})) == "test/ood_both"
    assert split_name(frozenset({"class"})) == "test/ood_cls"
    assert split_name(frozenset({"lighting", "size"})) == "test/ood_size+lighting"
    assert shifted_attributes("test/id") == frozenset()
    assert shifted_attributes("test/ood_both+size") == {"hue", "class", "size"}
    assert shifted_attributes("test/ood_size+cls") == {"class", "size"}


@pytest.mark.parametrize("name", ["shapes", "chars"])
@pytest.mark.parametrize("side", [32, 45])
def test_a_stored_table_gives_equal_bytes_in_any_batch(name: str, side: int, tmp_path: Path) -> None:
    table = farout.load(name, "test/ood_cls", limit=1)
    path = table.parent.configurations[np.arange(200)].write(tmp_path / "table.parquet")
    whole = farout.load(path, side=side).batch(range(200))
    assert (table.parent.attributes["severity"][:200] > 0).sum() > 40  # corrupted ones are among them
    for size in (1, 7, 64):
        again = farout.load(path, side=side)
        parts = [again.batch(range(start, min(start + size, 200))) for start in range(0, 200, size)]
        assert torch.equal(torch.cat(parts), whole), size
    order = np.random.default_rng(0).permutation(200)
    assert torch.equal(farout.load(path, side=side).batch(order), whole[torch.from_numpy(order)])


def test_a_table_read_again_is_the_same_set(tmp_path: Path) -> None:
    images = farout.load("shapes", "val")
    path = images.configurations.write(tmp_path / "val.parquet")
    again = farout.load(path)
    assert again.fingerprint == images.fingerprint
    assert again.labels.tolist() == images.labels.tolist()
    assert again.name == "val"


def test_corruption_is_what_the_row_says() -> None:
    images = farout.load("shapes", "test/id")
    rows = np.flatnonzero(images.attributes["severity"] > 0)[:40]
    clean = render(images.configurations.scenes[torch.from_numpy(rows)], 32).float() / 255
    for row, plain, got in zip(rows, clean, images.batch(rows), strict=True):
        shift = farout.shift(images.attributes["corruption"][row], severity=int(images.attributes["severity"][row]))
        noise = int(images.configurations.columns["noise"][row])
        assert torch.equal(got, shift(plain[None], indices=[noise])[0])
    untouched = np.flatnonzero(images.attributes["severity"] == 0)[:40]
    plain = render(images.configurations.scenes[torch.from_numpy(untouched)], 32)
    assert torch.equal((images.batch(untouched) * 255).round().byte(), plain)


def test_nothing_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    images = farout.load("shapes", "test")
    made: list[weakref.ref[torch.Tensor]] = []

    def counted(*args: Any) -> torch.Tensor:
        pixels = render(*args)
        made.append(weakref.ref(pixels))
        return pixels

    monkeypatch.setattr(renderer, "render", counted)
    first = images.batch(range(64)).clone()
    assert torch.equal(images.batch(range(64)), first)
    assert len(made) == 2
    gc.collect()
    assert [pixels() for pixels in made] == [None, None]


def test_what_decides_the_images_is_in_the_fingerprint() -> None:
    sets = [farout.load("shapes", "val"), farout.load("shapes", "val", seed=2), farout.load("shapes", "val", side=64)]
    sets += [farout.load("shapes", "test"), farout.load("chars", "val"), farout.load("chars", "val", font=str(SANS))]
    assert len({images.fingerprint for images in sets}) == len(sets)


def test_a_font_of_your_own_changes_letters() -> None:
    mine, default = farout.load("chars", "val", font=str(SANS)), farout.load("chars", "val")
    assert not torch.equal(mine.batch(range(8)), default.batch(range(8)))


def test_a_font_that_is_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "mine.ttf"
    shutil.copy(FONTS / "DejaVuSerif-Bold.ttf", mine)
    before = farout.load("chars", "val", font=str(mine))
    before.batch([0])
    shutil.copy(SANS, mine)
    after, sans = (farout.load("chars", "val", font=str(font)) for font in (mine, SANS))
    assert after.fingerprint == sans.fingerprint
    assert torch.equal(after.batch(range(8)), sans.batch(range(8)))
    assert before.fingerprint not in (after.fingerprint, farout.load("chars", "val").fingerprint)
    with pytest.raises(RuntimeError, match="its font has changed since the set was loaded"):
        before.batch([0])


def test_attributes_go_with_the_images() -> None:
    images = farout.load("shapes", "test/id")
    part = images.subset([5, 3]).subset([1])
    assert part.attributes["hue"].tolist() == [images.attributes["hue"][3]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"split": "test/ood_colour"}, "unknown attribute 'colour'"),
        ({"split": "test/odd"}, "unknown split of 'shapes': 'test/odd'"),
        ({"side": 4}, "shapes: side must be an integer of at least 8, got 4"),
        ({"seed": -1}, "shapes: seed must be an integer of at least 0, got -1"),
        ({"font": "x.ttf"}, "unknown parameter of data set 'shapes': 'font'"),
    ],
)
def test_what_cannot_be_loaded(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        farout.load("shapes", **given)


def test_known_splits_are_named_once() -> None:
    with pytest.raises(ValueError, match="unknown split") as error:
        farout.load("shapes", "test/odd")
    known = str(error.value).partition("Known: ")[2].rstrip(".").split(", ")
    splits = [f"test/ood_{name}" for name in ("both", "cls", "hue", "lighting", "position", "rotation", "size")]
    assert known == ["test/id", *splits, "train", "val"]


@pytest.mark.parametrize("limit", [0, -3, 2.5])
def test_a_limit_is_at_least_one(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"shapes: limit must be an integer of at least 1, got {limit}"):
        load_drawn("shapes", "val", seed=1, side=32, limit=limit)


def test_a_font_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.ttf").write_text("no font")
    with pytest.raises(ValueError, match=r"x\.ttf"):
        farout.load("chars", font=str(tmp_path / "x.ttf"))


def test_tables_take_only_their_options(tmp_path: Path) -> None:
    path = farout.load("shapes", "val").configurations.write(tmp_path / "val.parquet")
    with pytest.raises(ValueError, match="unknown option for a table of configurations: 'seed'"):
        farout.load(path, seed=3)


def test_mixed_classes_have_no_labels() -> None:
    tables = [farout.load("shapes", split).configurations.columns for split in ("val", "test/ood_cls")]
    both = {name: np.concatenate([table[name][:5] for table in tables]) for name in tables[0]}
    assert Drawn(Configurations(both), "both").labels is None
