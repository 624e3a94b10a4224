"""A folder of results may come from somebody else: no symbolic link in it is followed, whatever the command does.

Every case puts one link into a folder, to a file, to a folder or to nothing, and looks that the command refuses it by
name and that what lies behind it stays as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from farout.files import UnsafePath, check_path, files_in, remove_tree
from farout.study.store import Store, array_file, score_table
from helpers.command_line import farout, refused
from helpers.written_runs import lenet_weights, rewrite_plan, write_run

HOME = {".bashrc": "export A=1", ".ssh/id": "secret", "letter.txt": "dear"}
STUDY = """
inliers: {test: {name: toy, limit: 8}, train: {name: toy, split: train, limit: 16}}
outliers: [{name: noise, limit: 8}]
networks: [{name: lenet, weights: lenet.safetensors}]
detectors: [msp]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that nobody may touch."""
    folder = tmp_path / "home"
    for name, text in HOME.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a study, with its report."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "study.yaml").write_text(STUDY)
    lenet_weights(folder)
    assert farout("run", folder / "study.yaml", "--out", folder / "run", "--workers", "0").code == 0
    assert farout("report", folder / "run").code == 0
    return folder


def untouched(home: Path) -> bool:
    found = {path.relative_to(home).as_posix(): path.read_text() for path in home.rglob("*") if path.is_file()}
    return found == HOME


def link(place: Path, target: Path) -> None:
    """Put a link in the place of whatever is there."""
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


TARGETS: dict[str, Callable[[Path], Path]] = {
    "file": lambda home: home / ".bashrc",
    "folder": lambda home: home,
    "nothing": lambda home: home / "none",
}
RUN = ["partial", "partial/0", "cells", "cells/CELL", "cells/CELL/record.json", "cells/CELL/scores.parquet", "failures",
       "failures/CELL.json", ".lock", "plan.json"]  # fmt: skip
REPORT = ["plan.json", "report.html", "tables", "tables/clean.csv", "tables/clean.tex", "cells/CELL",
          "cells/CELL/record.json", "cells/CELL/scores.parquet", "cells"]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("verb", "place"), [*(("run", each) for each in RUN), *(("report", each) for each in REPORT)])
def test_a_link_in_a_run_is_refused(
    finished: Path, tmp_path: Path, home: Path, verb: str, place: str, target: str
) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    run = tmp_path / "copy" / "run"
    cell = next(path.name for path in sorted((run / "cells").iterdir()) if (path / "scores.parquet").exists())
    hit = run / place.replace("CELL", cell)
    link(hit, TARGETS[target](home))
    if place == "failures/CELL.json":
        shutil.rmtree(run / "cells" / cell)  # a result that is written takes its failure away
    arguments = (
        ("run", tmp_path / "copy" / "study.yaml", "--workers", "0", "--out", run) if verb == "run" else ("report", run)
    )
    assert f"{hit} is a symbolic link" in refused(*arguments)
    assert hit.is_symlink()
    assert untouched(home)


def test_a_run_may_itself_be_a_link(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "copy" / "run")
    assert farout("run", tmp_path / "copy" / "study.yaml", "--workers", "0", "--out", tmp_path / "link").code == 0
    assert farout("report", tmp_path / "link").code == 0


def test_a_plan_that_names_a_cell_elsewhere_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "run", tmp_path / "run")
    plan = rewrite_plan(
        tmp_path / "run",
        lambda plan: {**plan, "rows": [{**row, "cell": f"../../{row['cell']}"} for row in plan["rows"]]},
    )
    assert f"{plan} is damaged (rows.0.cell" in refused("report", tmp_path / "run")


CORRUPT = {
    "npz": [
        "manifest.json",
        ".unfinished",
        ".unfinished/lock",
        ".unfinished/originals",
        ".unfinished/fog-1",
        "fog.npz",
    ],
    "npy": ["fog.npy", "labels.npy"],
    "png": ["fog", "fog/1", "fog/1/0", "fog/1/0/000000.png"],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("form", "place"), [(form, place) for form, places in CORRUPT.items() for place in places])
def test_a_link_in_a_corrupted_set_is_refused(tmp_path: Path, home: Path, form: str, place: str, target: str) -> None:
    images = np.zeros((3, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.array([0, 1, 0]))
    out = tmp_path / "out"
    command = ("corrupt", tmp_path / "set.npz", "--out", out, "--format", form, "--workers", "0", "--severity", "1")
    assert farout(*command, "--shift", "fog" if form == "png" else "contrast").code == 0
    (out / ".unfinished").mkdir()
    link(out / place, TARGETS[target](home))
    assert f"{out / place} is a symbolic link" in refused(*command, "--shift", "fog")
    assert untouched(home)


RENDER = {"npz": ["test.json", "test.parquet", "test.npz"], "png": ["test", "test/cube", "test/CLASS/000000.png"]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("form", "place"), [(form, place) for form, places in RENDER.items() for place in places])
def test_a_link_in_a_rendered_set_is_refused(tmp_path: Path, home: Path, form: str, place: str, target: str) -> None:
    out = tmp_path / "out"
    command = ("render", "shapes", "--out", out, "--split", "test/id", "--limit", "2", "--side", "8", "--format", form)
    assert farout(*command).code == 0
    drawn = next(iter(sorted(out.glob("test/*/000000.png"))), out)
    place = place.replace("test/cube", f"test/{drawn.parent.name}").replace("CLASS", drawn.parent.name)
    link(out / place, TARGETS[target](home))
    assert f"{out / place} is a symbolic link" in refused(*command)
    assert untouched(home)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", ["fgsm.npz", "fgsm.json", ".fgsm.unfinished", ".fgsm.unfinished/partial"])
def test_a_link_in_an_attacked_set_is_refused(tmp_path: Path, home: Path, place: str, target: str) -> None:
    out = tmp_path / "out"
    link(out / place, TARGETS[target](home))
    network = ("--network", "lenet", "--weights", lenet_weights(tmp_path))
    said = refused("attack", "fgsm", "toy", "--limit", "4", "--out", out, "--workers", "0", *network)
    assert f"{out / place} is a symbolic link" in said
    assert untouched(home)


def test_a_report_elsewhere_is_not_written_through_a_link(finished: Path, tmp_path: Path, home: Path) -> None:
    (tmp_path / "out").mkdir()
    link(tmp_path / "out" / "tables", home)
    assert "out/tables is a symbolic link" in refused("report", finished / "run", "--out", tmp_path / "out")
    assert untouched(home)


def test_parts_and_kept_work_are_not_read_through_links(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "run").open(), Store(tmp_path / "other").open()
    other.put_part("work", {"a": {"x": np.ones(1)}})
    (store.root / "partial" / "work").symlink_to(other.root / "partial" / "work")
    for call in (lambda: list(store.parts("work")), lambda: store.kept("work", "a"), lambda: store.forget("work")):
        with pytest.raises(UnsafePath, match="partial/work is a symbolic link"):
            call()
    assert dict(other.parts("work"))


def test_a_tree_with_a_link_in_it_is_not_removed(tmp_path: Path, home: Path) -> None:
    (tmp_path / "run" / "inner").mkdir(parents=True)
    (tmp_path / "run" / "file").write_text("kept")
    (tmp_path / "run" / "inner" / "link").symlink_to(home)
    with pytest.raises(UnsafePath, match="inner/link is a symbolic link"):
        remove_tree(tmp_path / "run")
    assert (tmp_path / "run" / "file").read_text() == "kept"
    assert untouched(home)


def test_paths_that_climb_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafePath, match="leads out"):
        check_path(tmp_path / "run" / ".." / "x", tmp_path / "run")
    assert list(files_in(tmp_path / "none")) == []


def test_a_folder_that_another_process_removes_has_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    scan = os.scandir

    def scan_too_late(path: Path) -> object:
        Path(path).rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_too_late)
    assert list(files_in(folder)) == []
    assert not folder.exists()


def test_a_record_with_files_elsewhere_counts_as_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path / "run").open()
    store.write("cell", {}, {"scores.parquet": score_table({"score": np.ones(2)}), "a.safetensors": array_file({})})
    record = store.path("cell") / "record.json"
    record.write_text(record.read_text().replace('"a.safetensors"', '"../../../etc/passwd"'))
    assert not store.has("cell")
    assert "record.json is damaged" in str(store.damaged("cell"))


def test_formulas_in_tables_are_text(tmp_path: Path) -> None:
    evil = '=HYPERLINK("http://x","y")'
    sets = {"": np.arange(4.0), evil: np.arange(4.0), "@SUM(A1)": np.arange(4.0), "-2+3": np.arange(4.0)}
    results = write_run(tmp_path / "run", {("", "0", "+cmd|x"): sets, ("", "0", "-1"): sets})
    assert farout("report", results.store.root).code == 0
    text = (results.store.root / "tables" / "clean.csv").read_text()
    cells = [cell for line in text.splitlines() for cell in line.replace('"', "").split(",")]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+c", "-2"))]
    assert "'=HYPERLINK(" in text
    assert "'+cmd|x" in text
    assert "\n-1" in text or ",-1" in text, "a number is no formula"
