"""Configurations: tables that say what is drawn, the same on every machine, stored as Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from farout.data.scenes import configurations, worlds
from farout.data.scenes.configurations import RADII, Configurations
from farout.data.scenes.renderer import extent
from farout.data.scenes.sampling import sample
from farout.data.scenes.scene import KINDS, SOLID
from farout.data.scenes.worlds import CHARS, SHAPES, World

WORLDS = pytest.mark.parametrize("world", [SHAPES, CHARS], ids=lambda world: world.name)


def table(world: World = SHAPES, shift: str = "", total: int = 2000, seed: int = 1, corrupted: float = 0.0):
    names = frozenset(shift.split("+")) if shift else frozenset()
    return sample(world, f"split {shift}", total, seed, names, corrupted)


@WORLDS
def test_inliers_take_the_values_of_the_paper(world: World) -> None:
    columns = table(world).columns
    assert set(columns["class"]) == set(world.inliers)
    assert sorted(set(columns["hue"])) == list(range(30, 151, 15))
    low, high = {"shapes": (0.35, 0.55), "chars": (60 / 224, 150 / 224)}[world.name]
    assert low - 1e-4 <= columns["size"].min() < low + 0.01
    assert high - 0.01 < columns["size"].max() <= high + 1e-4
    assert (columns["intensity"] == 1).all()
    for name, (least, most) in {"ambient": (0.25, 0.5), "specular": (0.15, 0.3), "light_angle": (0, 360)}.items():
        assert least <= columns[name].min() < columns[name].max() <= most


def test_rotations_of_the_paper() -> None:
    shapes, chars = table(SHAPES).columns, table(CHARS).columns
    solid = np.isin(shapes["class"], SOLID)
    assert sorted(set(shapes["rotation_z"][~solid])) == list(range(-180, 181, 10))
    assert not shapes["rotation_x"][~solid].any()
    assert not shapes["rotation_y"][~solid].any()
    for axis in "xyz":
        assert sorted(set(shapes[f"rotation_{axis}"][solid])) == list(range(-60, 61, 10))
    assert sorted(set(chars["rotation_z"])) == list(range(-60, 61, 5))


def test_parameters_of_random_outlines() -> None:
    columns = table(SHAPES, "class", 9000).columns
    random = columns["class"] == "random"
    assert sorted(set(columns["points"][random])) == list(range(5, 13))
    assert 30 <= columns["smoothness"][random].min() < 31 < 79 < columns["smoothness"][random].max() <= 80
    radii = np.stack([columns[name] for name in RADII])
    assert 0.7 <= radii[:, random].min() < 0.71 < 1.29 < radii[:, random].max() <= 1.3 + 1e-6
    assert (radii[:, ~random] == 1).all()


@WORLDS
def test_a_shift_moves_its_attribute_and_no_other(world: World) -> None:
    moved = {
        "hue": {"hue"},
        "class": {"class", "rotation_x", "rotation_y", "rotation_z", "aspect", "aspect_2", "points", "smoothness"},
        "size": {"size"},
        "rotation": {"rotation_x", "rotation_y", "rotation_z"},
        "position": {"x", "y"},
        "lighting": {"intensity", "ambient", "specular"},
    }
    place = {"x", "y"}  # the room that is left depends on class, size and rotation
    plain = sample(world, "split", 500, 1)
    for name, columns in moved.items():
        shifted = sample(world, "split", 500, 1, frozenset({name}))
        differ = {key for key in plain.columns if (plain.columns[key] != shifted.columns[key]).any()}
        assert differ - place - set(RADII) <= columns, name
        assert differ, name


@WORLDS
def test_shifted_values_are_none_that_inliers_have(world: World) -> None:
    inliers = table(world).columns
    assert not set(table(world, "hue").columns["hue"]) & set(inliers["hue"])
    assert set(table(world, "class").columns["class"]) == set(world.outliers)
    assert not set(world.outliers) & set(world.inliers)
    assert table(world, "size").columns["size"].max() < inliers["size"].min()
    light = table(world, "lighting").columns
    assert light["intensity"].max() < inliers["intensity"].min()
    assert light["ambient"].max() < inliers["ambient"].min()
    assert light["specular"].min() > inliers["specular"].max()
    turned = table(world, "rotation").columns
    solid = np.isin(turned["class"], SOLID)
    assert not set(turned["rotation_z"][~solid]) & set(inliers["rotation_z"][~np.isin(inliers["class"], SOLID)])
    if world is SHAPES:
        assert all(abs(turned[f"rotation_{axis}"][solid]).min() > 60 for axis in "xyz")


@WORLDS
def test_figures_lie_within_the_image(world: World) -> None:
    for shift in ("", "class", "size", "hue+class"):
        found = table(world, shift)
        place = np.abs(np.stack([found.columns["x"], found.columns["y"]], 1))
        assert (place + extent(found.scenes).numpy()).max() <= 0.5 + 1e-6
        assert place.max() > 0.1  # and not all in the middle


@WORLDS
def test_a_shifted_position_crosses_one_border(world: World) -> None:
    found = table(world, "position")
    reach = extent(found.scenes).numpy()
    place = np.abs(np.stack([found.columns["x"], found.columns["y"]], 1))
    outside = (place + reach - 0.5) / (2 * reach)
    assert ((outside > 0.24) & (outside < 0.51)).any(1).all()
    assert ((outside > 1e-3).sum(1) == 1).all()
    signs = np.sign(np.stack([found.columns["x"], found.columns["y"]], 1))[outside > 1e-3]
    assert abs(signs.mean()) < 0.1  # left as often as right, up as often as down


def test_a_share_of_the_images_is_corrupted() -> None:
    columns = table(corrupted=0.3).columns
    chosen = columns["corruption"] != ""
    assert chosen.sum() == 600
    assert set(columns["corruption"][chosen]) == set(worlds.CORRUPTIONS)
    assert set(columns["severity"][chosen]) == {1, 2}
    assert not columns["severity"][~chosen].any()
    assert len(set(columns["noise"])) == 2000


def test_no_two_splits_share_their_noise() -> None:
    """The lowest 24 bits count images, so that the numbers of two splits never overlap in part."""
    tables = [sample(SHAPES, split, 50, seed).columns["noise"] for split in ("a", "b") for seed in range(20)]
    assert all((noise % 2**24 == np.arange(50)).all() for noise in tables)
    assert all(len(set(noise // 2**24)) == 1 for noise in tables)
    assert len({int(noise[0]) for noise in tables}) == 40
    assert max(int(noise[0]) for noise in tables) > 2**61  # all of an int64 is used


def test_classes_are_drawn_evenly() -> None:
    _, counts = np.unique(table(total=8000).columns["class"], return_counts=True)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_the_same_table_on_every_machine() -> None:
    """The digests were computed once; a change means that all published SHAPES and CHARS change."""
    assert {
        world.name: sample(world, "split", 300, 7, frozenset({"class"}), 0.3).digest for world in (SHAPES, CHARS)
    } == GOLDEN


def test_seed_and_split_decide() -> None:
    one = sample(SHAPES, "a", 50, 1)
    assert one.digest == sample(SHAPES, "a", 50, 1).digest
    assert one.digest != sample(SHAPES, "a", 50, 2).digest
    assert one.digest != sample(SHAPES, "b", 50, 1).digest


def test_stored_and_read_again(tmp_path: Path) -> None:
    found = table(corrupted=0.3)
    again = Configurations.read(found.write(tmp_path / "one.parquet"))
    assert again.digest == found.digest
    found.write(tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_scenes_say_what_the_table_says() -> None:
    found = table(total=40)
    scenes = found.scenes
    assert [KINDS[kind] for kind in scenes.kind.tolist()] == found.columns["class"].tolist()
    assert scenes.position[:, 1].tolist() == found.columns["y"].tolist()
    assert scenes.light[:, 2].tolist() == found.columns["specular"].tolist()
    assert scenes.rotation[:, 0].tolist() == found.columns["rotation_x"].tolist()
    assert scenes.radii[:, 11].tolist() == found.columns["radius_11"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "circel"}, "unknown class in row 3: 'circel'. Did you mean 'circle'?"),
        ({"corruption": "fgo", "severity": 1}, "unknown corruption in row 3: 'fgo'"),
        ({"corruption": "contrast", "severity": 9}, r"row 3: severity is 9; it must lie in 1\.\.5 with a corruption"),
        ({"corruption": "contrast"}, r"row 3: severity is 0; it must lie in 1\.\.5 with a corruption"),
        ({"severity": 1}, "row 3: severity is 1; it must be 0 without a corruption"),
        ({"severity": -1}, "row 3: severity is -1; it must be 0 without a corruption"),
        ({"hue": np.nan}, "row 3: hue is nan; it must lie in"),
        ({"size": 9}, r"row 3: size is 9; it must lie in 0\.001\.\.8"),
        ({"rotation_y": np.inf}, "row 3: rotation_y is inf"),
        ({"x": -9}, "row 3: x is -9"),
        ({"y": 9}, "row 3: y is 9"),
        ({"intensity": -1}, "row 3: intensity is -1"),
        ({"light_angle": 1e9}, r"row 3: light_angle is 1e\+09"),
        ({"aspect_2": 0}, "row 3: aspect_2 is 0"),
        ({"points": 13}, r"row 3: points is 13; it must lie in 3\.\.12"),
        ({"smoothness": 101}, "row 3: smoothness is 101"),
        ({"radius_0": 5}, "row 3: radius_0 is 5"),
        ({"radius_11": 5}, "row 3: radius_11 is 5"),
        ({"points": 5.7}, r"row 3: points is 5\.7; it must be an integer"),
        ({"points": np.nan}, "row 3: points is nan; it must be an integer"),
        ({"noise": 1e30}, r"row 3: noise is 1e\+30; it must be an integer"),
        ({"noise": 2**70}, "'noise' does not hold int64"),
        ({"noise": "a"}, "'noise' does not hold int64"),
        ({"hue": "red"}, "'hue' does not hold float32"),
    ],
)
def test_a_table_that_cannot_be(change: dict[str, object], message: str) -> None:
    columns = {name: values.astype(object) for name, values in sample(SHAPES, "a", 6, 1).columns.items()}
    for name, value in change.items():
        columns[name][3] = value
        if isinstance(value, float):
            columns[name] = columns[name].astype(np.float64)
    with pytest.raises(ValueError, match=message):
        Configurations(columns)


def test_a_fraction_among_objects_is_no_integer() -> None:
    columns = {**sample(SHAPES, "a", 2, 1).columns, "points": np.array([5, 5.7], object)}
    with pytest.raises(ValueError, match=r"row 1: points is 5\.7; it must be an integer"):
        Configurations(columns)


def test_whole_numbers_may_be_stored_as_floats() -> None:
    found = sample(SHAPES, "a", 6, 1)
    floats = {name: found.columns[name].astype(np.float64) for name in ("points", "severity")}
    assert Configurations({**found.columns, **floats}).digest == found.digest


def test_columns_of_several_lengths() -> None:
    columns = {**sample(SHAPES, "a", 1, 1).columns, "hue": np.array([1.0, 2.0])}
    with pytest.raises(ValueError, match=r"one length of at least 1, got \[1, 2\]"):
        Configurations(columns)


def test_a_stored_table_is_checked_as_it_is_read(tmp_path: Path) -> None:
    columns = dict(sample(SHAPES, "a", 5000, 1).columns)
    columns["size"] = np.where(np.arange(5000) == 4321, 9, columns["size"])
    pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
    with pytest.raises(ValueError, match=r"mine\.parquet is no table of configurations: row 4321: size is 9"):
        Configurations.read(tmp_path / "mine.parquet")


def test_rows_of_a_table_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table(total=50)
    monkeypatch.setattr(configurations, "outside", None)
    monkeypatch.setattr(Configurations, "_check_bounds", None)
    monkeypatch.setattr(configurations, "_as_type", None)
    part = found[[7, 3]]
    assert part.columns["size"].tolist() == found.columns["size"][[7, 3]].tolist()
    assert part.scenes.hue.tolist() == found.scenes.hue[[7, 3]].tolist()
    with pytest.raises(ValueError, match="one length of at least 1"):
        found[np.arange(0)]


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    columns = {name: values for name, values in sample(SHAPES, "a", 1, 1).columns.items() if name != "size"}
    with pytest.raises(ValueError, match="'size' is missing"):
        Configurations(columns)


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x.parquet is no table of configurations"):
        Configurations.read(tmp_path / "x.parquet")


def test_families_do_not_mix() -> None:
    columns = {
        name: np.concatenate([sample(w, "a", 1, 1).columns[name] for w in (SHAPES, CHARS)])
        for name in sample(SHAPES, "a", 1, 1).columns
    }
    with pytest.raises(ValueError, match="expected classes of one family"):
        _ = Configurations(columns).world


GOLDEN = {
    "shapes": "85e85ea2f890087544647503f7c04d6b4907dfbe",
    "chars": "a9f25db96748e056f0b7b9970ddca668a70bdf93",
}
