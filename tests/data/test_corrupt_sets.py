"""Shifted sets on disk: every image is the one `Shifted` gives, and a stopped call goes on."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import farout
from farout.core import ImageSet, Params, Shift
from farout.data.arrays import ArraySet, as_bytes
from farout.data.shifted import Shifted
from farout.data.writing.file_layout import class_folders
from farout.data.writing.layout import common_label
from farout.data.writing.realistic import write
from farout.progress import Event
from farout.shifts.choosing import select_shifts

CLASSES = ("ape", "bee", "cow")


def pictures(seed: int = 0, count: int = 90, labeled: bool = True, channels: int = 3, side: int = 16) -> ImageSet:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, side, side, channels), np.uint8)
    labels = rng.integers(0, 3, count) if labeled else None
    return ArraySet(images, labels, name="pictures", classes=CLASSES if labeled else ())


@dataclasses.dataclass(kw_only=True)
class Darker(Shift):
    """An augmentation whose values are no 8-bit values."""

    name = "darker"
    fails: bool = False

    def sample(self, shape: tuple[int, ...], rng: torch.Generator) -> Params:
        return {"gain": torch.rand((), generator=rng)}

    def apply(self, images: Tensor, params: Params) -> Tensor:
        if self.fails:
            raise RuntimeError("too dark")
        return images.mul(params["gain"][:, None, None, None])


def noise(*severities: int) -> list[Shift]:
    return [farout.shift("gaussian_noise", severity=severity) for severity in severities]


def expected(images: ImageSet, shift: Shift, seed: int = 0) -> np.ndarray:
    """Image by image, as uint8 [N, H, W, C]."""
    shifted = Shifted(images, shift, seed)
    return np.concatenate([as_bytes(shifted.batch([place])) for place in range(len(images))])


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_npz_files_hold_the_severities_one_after_another(tmp_path: Path) -> None:
    images = pictures()
    write(images, tmp_path / "r", [*noise(1, 2, 5), Darker()], clean=True, seed=3)
    with np.load(tmp_path / "r" / "gaussian_noise.npz") as file:
        assert np.array_equal(file["images"], np.concatenate([expected(images, shift, 3) for shift in noise(1, 2, 5)]))
        assert file["labels"].tolist() == 3 * images.labels.tolist()
        assert file["severity"].tolist() == 90 * [1] + 90 * [2] + 90 * [5]
    with np.load(tmp_path / "r" / "darker.npz") as file:
        assert sorted(file) == ["images", "labels"]
        assert np.array_equal(file["images"], expected(images, Darker(), 3))
    clean = farout.load(tmp_path / "r" / "clean.npz")
    assert clean.labels.tolist() == images.labels.tolist()
    assert torch.equal(clean.batch(range(90)), images.batch(range(90)))
    assert sorted(content(tmp_path / "r")) == ["clean.npz", "darker.npz", "gaussian_noise.npz"]


def test_what_is_loaded_is_what_the_view_gives(tmp_path: Path) -> None:
    """For corruptions, whose results are 8-bit values, to the last bit of the floats."""
    images = pictures()
    write(images, tmp_path / "r", noise(4))
    again = farout.load(tmp_path / "r" / "gaussian_noise.npz")
    assert torch.equal(again.batch(range(90)), Shifted(images, noise(4)[0]).batch(range(90)))


def test_npy_files_are_those_of_cifar10_c(tmp_path: Path) -> None:
    images = pictures()
    write(images, tmp_path / "r", [*noise(1, 2, 3, 4, 5), farout.shift("jpeg", severity=2)], form="npy")
    assert sorted(content(tmp_path / "r")) == ["gaussian_noise.npy", "jpeg_compression.npy", "labels.npy"]
    array = np.load(tmp_path / "r" / "gaussian_noise.npy")
    assert np.array_equal(array, np.concatenate([expected(images, shift) for shift in noise(1, 2, 3, 4, 5)]))
    labels = np.load(tmp_path / "r" / "labels.npy")
    assert labels.tolist() == 5 * images.labels.tolist()
    fewer = np.load(tmp_path / "r" / "jpeg_compression.npy")
    again = ImageSet.from_arrays(fewer, labels[: len(fewer)])
    assert np.array_equal(as_bytes(again.batch(range(90))), expected(images, farout.shift("jpeg", severity=2)))


def test_png_files_by_shift_severity_and_class(tmp_path: Path) -> None:
    images = pictures()
    write(images, tmp_path / "r", [*noise(2, 4), Darker()], form="png", clean=True, seed=1)
    for shift, folder in [
        *zip(noise(2, 4), ("gaussian_noise/2", "gaussian_noise/4"), strict=True),
        (Darker(), "darker"),
    ]:
        again, wanted = farout.load(tmp_path / "r" / folder), expected(images, shift, 1)
        order = np.argsort(images.labels, kind="stable")
        assert again.classes == CLASSES
        assert again.labels.tolist() == images.labels[order].tolist()
        assert np.array_equal(as_bytes(again.batch(range(90))), wanted[order])
        place = order[0]
        with Image.open(tmp_path / "r" / folder / CLASSES[images.labels[place]] / f"{place:06d}.png") as file:
            assert np.array_equal(np.asarray(file), wanted[place])
    assert len(farout.load(tmp_path / "r" / "clean")) == 90


def test_jpeg_files_have_quality_85(tmp_path: Path) -> None:
    images = pictures(count=3)
    write(images, tmp_path / "r", noise(1), form="jpeg")
    for place, pixels in enumerate(expected(images, noise(1)[0])):
        Image.fromarray(pixels).save(memory := io.BytesIO(), format="jpeg", quality=85)
        file = tmp_path / "r" / "gaussian_noise" / "1" / CLASSES[images.labels[place]] / f"{place:06d}.jpg"
        assert np.array_equal(np.asarray(Image.open(file)), np.asarray(Image.open(memory)))


@pytest.mark.parametrize("channels", [1, 3])
def test_images_without_labels(tmp_path: Path, channels: int) -> None:
    images = pictures(labeled=False, channels=channels, count=5)
    write(images, tmp_path / "png", noise(1), form="png")
    flat = farout.load(tmp_path / "png" / "gaussian_noise" / "1", channels=channels)
    assert flat.labels is None
    assert np.array_equal(as_bytes(flat.batch(range(5))), expected(images, noise(1)[0]))
    write(images, tmp_path / "npz", noise(1))
    assert farout.load(tmp_path / "npz" / "gaussian_noise.npz").labels is None
    write(images, tmp_path / "npy", noise(1), form="npy")
    assert sorted(content(tmp_path / "npy")) == ["gaussian_noise.npy"]


def test_float_images_and_more_than_one_piece(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((25, 3, 70, 60), np.float32)  # 80 images make a piece at most
    images = ImageSet.from_arrays(np.concatenate([values] * 4))
    write(images, tmp_path / "r", [Darker(), *noise(3)])
    for shift in (Darker(), *noise(3)):
        with np.load(tmp_path / "r" / f"{shift.name}.npz") as file:
            assert np.array_equal(file["images"], expected(images, shift))


class Impatient:
    """Presses Ctrl-C when so many images are done."""

    def __init__(self, after: int) -> None:
        self.after, self.expected, self.done = after, 0, 0

    def __call__(self, event: Event) -> None:
        self.expected += event.total
        self.done += event.done
        if self.done >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("form", ["npz", "npy", "png"])
def test_a_stopped_call_goes_on(tmp_path: Path, form: Any) -> None:
    images, shifts = pictures(), [*noise(1, 2, 3), Darker()]
    write(images, tmp_path / "whole", shifts, form=form)
    with pytest.raises(KeyboardInterrupt):
        write(images, tmp_path / "r", shifts, form=form, progress=(stopped := Impatient(180)))
    assert (stopped.expected, stopped.done) == (360, 180)
    facts = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert [entry["finished"] for entry in facts["shifts"].values()] == [False, False]
    assert not (tmp_path / "r" / f"gaussian_noise.{form}").exists()
    facts = write(images, tmp_path / "r", shifts, form=form, progress=(rest := Impatient(1000)))
    assert (rest.expected, rest.done) == (180, 180)
    assert all(entry["finished"] for entry in facts["shifts"].values())
    assert content(tmp_path / "r") == content(tmp_path / "whole")
    write(images, tmp_path / "r", shifts, form=form, progress=(nothing := Impatient(1)))
    assert (nothing.expected, nothing.done) == (0, 0)


def test_what_is_finished_is_not_touched_and_what_is_gone_is_made_again(tmp_path: Path) -> None:
    write(pictures(), tmp_path / "r", noise(1), form="png")
    files = sorted(tmp_path.rglob("*.png"))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    files[7].unlink()
    write(pictures(), tmp_path / "r", noise(1), form="png", progress=(listener := Impatient(1000)))
    assert (listener.expected, listener.done) == (1, 1)
    assert files[7].read_bytes() == before[files[7]][1]
    assert all(path.stat().st_mtime_ns == before[path][0] for path in files if path != files[7])


@pytest.mark.parametrize("form", ["npz", "png"])
def test_what_a_killed_run_left_unfinished_is_removed(tmp_path: Path, form: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(pictures(), tmp_path / "r", [*noise(1), Darker()], form=form, progress=Impatient(90))
    inside = tmp_path / "r" / ("gaussian_noise/1/ape" if form == "png" else ".unfinished")
    for path in (inside / f".half-{32 * '0'}", tmp_path / "r" / f".gaussian_noise.npz-{8 * '01ef'}"):
        path.write_bytes(b"half")
    write(pictures(), tmp_path / "r", [*noise(1), Darker()], form=form)
    assert not [path for path in (tmp_path / "r").rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("form", ["npz", "png"])
def test_hidden_files_of_the_user_stay(tmp_path: Path, form: Any) -> None:
    write(pictures(), tmp_path / "r", noise(1), form=form)
    folders = [tmp_path / "r" / place for place in (("", "gaussian_noise/1/ape") if form == "png" else ("",))]
    mine = [folder / name for folder in folders for name in (".gitignore", ".half-0123", f".{32 * '0'}", ".a-b/c-d")]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for folder in folders:
        (folder / f".folder-{32 * '0'}").mkdir()
    (link := tmp_path / "r" / f".link-{32 * '0'}").symlink_to(tmp_path / "r" / ".gitignore")
    write(pictures(), tmp_path / "r", [*noise(1), Darker()], form=form)
    assert [path.read_text() for path in mine] == len(mine) * ["mine"]
    assert all((folder / f".folder-{32 * '0'}").is_dir() for folder in folders)
    assert link.is_symlink()


@pytest.mark.parametrize("form", ["npz", "npy"])
@pytest.mark.parametrize(("damaged", "left"), [("gaussian_noise-1", 270), ("originals", 180)])
@pytest.mark.parametrize("size", [0, 90 * 768 // 2, 90 * 768 + 1])
def test_what_a_damaged_disk_has_left_is_made_again(
    tmp_path: Path, form: Any, damaged: str, left: int, size: int
) -> None:
    images, shifts = pictures(), [*noise(1, 2, 3), Darker()]
    write(images, tmp_path / "whole", shifts, form=form)
    with pytest.raises(KeyboardInterrupt):
        write(images, tmp_path / "r", shifts, form=form, progress=Impatient(180))
    with (tmp_path / "r" / ".unfinished" / damaged).open("r+b") as file:
        file.truncate(size)
    write(images, tmp_path / "r", shifts, form=form, progress=(rest := Impatient(1000)))
    assert (rest.expected, rest.done) == (left, left)
    assert content(tmp_path / "r") == content(tmp_path / "whole")


@pytest.mark.parametrize("form", ["npz", "npy", "png"])
def test_files_are_on_disk_before_they_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Any
) -> None:
    synced: set[int] = set()
    plain, replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        plain(handle)
        synced.add(os.fstat(handle).st_ino)

    def renamed(path: Path, target: Path) -> Path:
        assert path.stat().st_ino in synced
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    write(pictures(), tmp_path / "r", noise(1), form=form)
    files = [path for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert {path.stat().st_ino for path in files} <= synced


class Reader:
    """Reads the manifest when some images are done."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.finished = folder, []

    def __call__(self, event: Event) -> None:
        if event.done:
            facts = json.loads((self.folder / "manifest.json").read_text())
            self.finished.append((event.title, [name for name, entry in facts["shifts"].items() if entry["finished"]]))


@pytest.mark.parametrize("form", ["npz", "png"])
def test_a_shift_is_said_to_be_finished_as_soon_as_it_is(tmp_path: Path, form: Any) -> None:
    shifts = [*noise(1, 2), Darker()]
    write(pictures(), tmp_path / "r", shifts, form=form, clean=True, progress=(reader := Reader(tmp_path / "r")))
    assert reader.finished == [
        ("clean", ["clean"]),
        ("gaussian_noise 1", ["clean"]),
        ("gaussian_noise 2", ["clean", "gaussian_noise"]),
        ("darker", ["clean", "gaussian_noise", "darker"]),
    ]


@pytest.mark.parametrize("form", ["npz", "png"])
def test_what_is_finished_stays_so_in_a_stopped_call(tmp_path: Path, form: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(pictures(), tmp_path / "r", [*noise(1), Darker()], form=form, clean=True, progress=Impatient(180))
    facts = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert {name: entry["finished"] for name, entry in facts["shifts"].items()} == {
        "clean": True,
        "gaussian_noise": True,
        "darker": False,
    }


def test_another_call_adds_shifts(tmp_path: Path) -> None:
    write(pictures(), tmp_path / "r", noise(1, 2))
    facts = write(pictures(), tmp_path / "r", [Darker()], clean=True)
    assert list(facts["shifts"]) == ["gaussian_noise", "clean", "darker"]
    assert all((tmp_path / "r" / entry["place"]).exists() and entry["finished"] for entry in facts["shifts"].values())


def test_a_shift_that_was_stopped_stays_unfinished_until_it_is_done(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(pictures(), tmp_path / "r", noise(1, 2), progress=Impatient(90))
    facts = write(pictures(), tmp_path / "r", [Darker()])
    assert {name: entry["finished"] for name, entry in facts["shifts"].items()} == {
        "gaussian_noise": False,
        "darker": True,
    }
    write(pictures(), tmp_path / "r", noise(1, 2), progress=(rest := Impatient(1000)))
    assert rest.done == 90
    assert not (tmp_path / "r" / ".unfinished").exists()


def test_the_manifest_says_what_lies_there(tmp_path: Path) -> None:
    images = pictures()
    returned = write(images, tmp_path / "r", [*noise(2, 5), Darker()], seed=9)
    facts = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert facts == returned
    assert (facts["name"], facts["fingerprint"], facts["seed"]) == ("pictures-R", images.fingerprint, 9)
    assert (facts["format"], facts["images"], facts["shape"]) == ("npz", 90, [3, 16, 16])
    assert facts["classes"] == list(CLASSES)
    assert facts["shifts"]["gaussian_noise"] == {
        "place": "gaussian_noise.npz",
        "labels": ["gaussian_noise 2", "gaussian_noise 5"],
        "images": 180,
        "severities": [2, 5],
        "identities": [shift.identity() for shift in noise(2, 5)],
        "versions": [
            {
                "farout": farout.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "scipy": version("scipy"),
                "numba": version("numba"),
                "pillow": version("pillow"),
            }
        ],
        "finished": True,
    }
    assert facts["shifts"]["darker"]["identities"] == [Darker().identity()]


def test_versions_are_those_of_the_calls_that_made_a_shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(number: str, *shifts: Shift, after: int = 1000) -> None:
        monkeypatch.setattr("farout.data.writing.manifest.version", lambda package: number)
        write(pictures(), tmp_path / "r", shifts, progress=Impatient(after))

    def found() -> dict[str, list[str]]:
        entries = json.loads((tmp_path / "r" / "manifest.json").read_text())["shifts"]
        return {name: [versions["numba"] for versions in entry["versions"]] for name, entry in entries.items()}

    call("1", Darker())
    with pytest.raises(KeyboardInterrupt):
        call("2", *noise(1, 2), after=90)
    assert found() == {"darker": ["1"], "gaussian_noise": ["2"]}
    with pytest.raises(KeyboardInterrupt):
        call("2", *noise(1, 2), after=0)
    call("3", Darker(), *noise(1, 2))
    call("4", Darker(), *noise(1, 2))
    assert found() == {"darker": ["1"], "gaussian_noise": ["2", "3"]}


def test_procedural_frost_is_called_so(tmp_path: Path) -> None:
    facts = write(pictures(count=2), tmp_path / "r", select_shifts(None, ["frost", "flip"], [1, 3]), clean=True)
    labels = {name: entry["labels"] for name, entry in facts["shifts"].items()}
    assert labels == {
        "clean": ["clean"],
        "frost": ["frost (procedural) 1", "frost (procedural) 3"],
        "flip": ["flip"],
    }
    assert [common_label(each) for each in labels.values()] == ["clean", "frost (procedural)", "flip"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": pictures(seed=1)}, r"holds another set: fingerprint is '"),
        (
            {"images": ArraySet(pictures()._images.transpose(0, 2, 3, 1), pictures().labels)},
            "holds another set: classes is",
        ),
        ({"seed": 1}, "holds another set: seed is 0, expected 1"),
        ({"form": "npy"}, "holds another set: format is 'npz', expected 'npy'"),
        (
            {"shifts": noise(1, 2)},
            r"holds severities \[1\] of gaussian_noise, requested were \[1, 2\]; request the same ones",
        ),
    ],
)
def test_another_set_is_not_written_over(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    call = {"images": pictures(), "folder": tmp_path / "r", "shifts": noise(1)}
    write(**call)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=said):
        write(**{**call, **changes})
    assert content(tmp_path) == before


def test_another_version_of_a_shift_is_another_shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pictures(), tmp_path / "r", noise(1))
    monkeypatch.setattr(type(noise(1)[0]), "version", 1000)
    with pytest.raises(ValueError, match="of another version"):
        write(pictures(), tmp_path / "r", noise(1))


@pytest.mark.parametrize("place", ["darker.npy", "darker/000000.png", "darker/.mine"])
def test_a_file_that_happens_to_be_there_is_no_result(tmp_path: Path, place: str) -> None:
    form: Any = "npy" if place.endswith("npy") else "png"
    write(pictures(), tmp_path / "r", noise(1), form=form)
    (tmp_path / "r" / place).parent.mkdir(exist_ok=True)
    with (tmp_path / "r" / place).open("wb") as file:
        np.save(file, np.zeros((7, 8, 8, 3), np.uint8))
    before, manifest = content(tmp_path), (tmp_path / "r" / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match=r"darker.* exists already, and .*manifest\.json does not list it as dark"):
        write(pictures(), tmp_path / "r", [*noise(1), Darker()], form=form)
    assert content(tmp_path) == before
    assert (tmp_path / "r" / "manifest.json").read_bytes() == manifest


def test_folders_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="file is a file; expected a folder"):
        write(pictures(), tmp_path / "file", noise(1))
    with pytest.raises(ValueError, match=r"cannot write images to .*choose another folder"):
        write(pictures(), tmp_path / "file" / "r", noise(1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"full is not empty and has no manifest\.json"):
        write(pictures(), tmp_path / "full", noise(1))
    write(pictures(), tmp_path / "r", noise(1), form="png")
    source = farout.load(tmp_path / "r" / "gaussian_noise" / "1")
    with pytest.raises(ValueError, match="is inside the folder of 1"):
        write(source, tmp_path / "r" / "gaussian_noise" / "1" / "more", noise(1))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["file", "full", "r"]


def test_two_runs_at_once(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "r" / ".unfinished").mkdir(parents=True)
    with (tmp_path / "r" / ".unfinished" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another run is writing to"):
            write(pictures(), tmp_path / "r", noise(1))
    write(pictures(), tmp_path / "r", noise(1))
    assert sorted(content(tmp_path / "r")) == ["gaussian_noise.npz"]


@pytest.mark.parametrize(
    ("images", "shifts", "said"),
    [
        (pictures(), [], "there is nothing to write"),
        (pictures().subset([]), noise(1), "pictures is empty; expected at least one image"),
        (pictures(), [*noise(1), *noise(1)], "gaussian_noise occurs twice at the same severity"),
        (pictures(), [Darker(fails=True)], "darker fails on <ArraySet 'pictures'.*RuntimeError: too dark"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, images: ImageSet, shifts: list[Shift], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write(images, tmp_path / "r", shifts)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("name", ["clean", "labels", "a/b", "..", ""])
def test_names_that_would_make_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Darker, "name", name)
    with pytest.raises(ValueError, match="cannot be used as a file name"):
        write(pictures(), tmp_path / "r", [Darker()])


def test_a_full_disk_is_noticed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 90 * 768 * 7 - 1}))
    with pytest.raises(OSError, match=r"needs about 0 MB, but 0 MB are free; make room"):
        write(pictures(), tmp_path / "r", noise(1))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 90 * 768 * 7}))
    write(pictures(), tmp_path / "r", noise(1))


def named(*classes: str) -> list[str]:
    return class_folders(ArraySet(np.zeros((len(classes), 8, 8), np.uint8), np.arange(len(classes)), classes=classes))


def test_class_folders() -> None:
    assert named("T-shirt/top", "Bag", ".hidden") == ["T-shirt_top", "Bag", "_hidden"]
    assert named("a/b", "a:b", "c") == ["a_b_0", "a_b_1", "c"]
    assert named(*map(str, range(12)))[:11] == ["00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10"]


def test_shifts_by_kind() -> None:
    corruptions, augmentations, both = ({shift.name for shift in select_shifts(kind)} for kind in ("C", "A", "all"))
    assert {"fog", "gaussian_noise", "glass_blur"} <= corruptions
    assert {"rot90", "flip"} <= augmentations
    assert both == corruptions | augmentations
    assert not corruptions & augmentations
    assert len(select_shifts("C")) == 5 * len(corruptions)
    assert len(select_shifts("A")) == len(augmentations)


def test_shifts_by_name_and_severity() -> None:
    chosen = select_shifts(None, ["contrast", "flip", "contrast"], [5, 2])
    assert [(shift.name, shift.params.get("severity")) for shift in chosen] == [
        ("contrast", 2), ("contrast", 5), ("flip", None),
    ]  # fmt: skip
    assert {shift.name for shift in select_shifts("A", ["contrast"], [1])} == {
        *(shift.name for shift in select_shifts("A")),
        "contrast",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((None, ["contrst"]), "Did you mean 'contrast'?"),
        (("B",), "kind must be 'C' .* got 'B'"),
        ((None, ["flip"], [3]), r"severities \[3\] need a corruption, there is none among flip"),
        ((None, ["contrast"], [6]), "severity of contrast must be a whole number from 1 to 5, got 6"),
        ((None, ["contrast"], [1], "photos"), "frost_dir=photos needs the shift frost, which is not among contrast"),
    ],
)
def test_shifts_that_cannot_be_had(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        select_shifts(*arguments)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    folder = tmp_path / "photographs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (300, 310, 3), np.uint8)).save(folder / "frost.png")
    return folder


def test_photographs_are_for_frost_only(tmp_path: Path, photographs: Path) -> None:
    images, shifts = pictures(count=4), select_shifts(None, ["frost", "contrast"], [3], photographs)
    write(images, tmp_path / "r", shifts)
    with np.load(tmp_path / "r" / "frost.npz") as file:
        assert np.array_equal(
            file["images"], expected(images, farout.shift("frost", severity=3, frost_dir=str(photographs)))
        )
        assert not np.array_equal(file["images"], expected(images, farout.shift("frost", severity=3)))
    with pytest.raises(ValueError, match="holds frost with other parameters"):
        write(images, tmp_path / "r", select_shifts(None, ["frost"], [3]))


@pytest.mark.parametrize("form", ["npz", pytest.param("png", marks=pytest.mark.slow)])
def test_workers_change_nothing(tmp_path: Path, photographs: Path, form: Any) -> None:
    shifts = select_shifts(None, ["frost", "shot_noise", "random_crop"], [1, 4], photographs)
    images = pictures(count=100, side=64)  # in two pieces per shift
    write(images, tmp_path / "here", shifts, form=form, clean=True)
    write(images, tmp_path / "there", shifts, form=form, clean=True, workers=2)
    assert content(tmp_path / "there") == content(tmp_path / "here")
