"""A changed byte in any file of a run, finished or not, is found, named, and computed again to the same bytes."""

from __future__ import annotations

import json
import logging
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import farout
from farout.faults.damage import flip
from farout.files import files_in
from farout.progress import Event
from farout.protocols import plan
from farout.study.cells.attack import AttackCell
from farout.study.cells.cell import Cell, closure
from farout.study.cells.score import ScoreCell
from farout.study.cells.search import SearchCell
from farout.study.cells.train import TrainCell
from farout.study.engines import run as engine
from farout.study.packs import Pack
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

STUDY = {
    "name": "small",
    "inliers": {"test": {"name": "toy", "limit": 70}, "train": {"name": "toy", "split": "train", "limit": 40}},
    "outliers": [{"name": "noise", "limit": 6}],
    "networks": [{"name": "lenet", "train": {"epochs": 3}}],
    "detectors": [{"name": "knn", "k": 3}],
    "protocols": [
        "clean",
        {"name": "evg", "variations": ["affine"], "chains": 3, "steps": 3, "control": False},
        {"name": "evasion", "attacks": [{"name": "pgd", "steps": 2}], "images": 70},
    ],
}


RANDOM = random.Random(0)


@pytest.fixture(scope="module")
def spec() -> StudySpec:
    return StudySpec.model_validate(STUDY)


@pytest.fixture(scope="module")
def cells(spec: StudySpec) -> list[Cell]:
    """All cells of the study: a training, a fit, scores, classes, a search, an attack, attention."""
    return closure([entry.cell for entry in plan(from_spec(spec))])


@pytest.fixture(scope="module")
def finished(spec: StudySpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished") / "run"
    assert not farout.run(spec, root).outcome.failed
    return root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def flip_at(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def contents(root: Path) -> dict[str, bytes | str]:
    """The files of all results; of a record, which tells when it was made, the sizes and checksums."""
    found: dict[str, bytes | str] = {}
    for path in files_in(root / "cells"):
        content = path.read_bytes()
        record = path.name == "record.json"
        found[str(path.relative_to(root))] = json.dumps(json.loads(content)["files"]) if record else content
    return found


def test_every_file_of_a_finished_run(run: Path, cells: list[Cell]) -> None:
    store, before = Store(run), contents(run)
    kinds = {Path(name).name for name in before}
    expected = {"record.json", "weights.safetensors", "state.safetensors", "scores.parquet", "examples.safetensors"}
    assert kinds == expected | {"images.npy", "found.safetensors"}
    for name in before:
        flip(run / name, RANDOM)
        assert contents_differ(run, name, before)
        outcome = engine.run(cells, store)
        assert [str(run / name) in why for why in outcome.damaged] == [True], name
        assert (len(outcome.done), outcome.failed) == (1, {}), name
        assert contents(run) == before, name
    assert engine.run(cells, store).damaged == []


@pytest.fixture
def packed(run: Path) -> Path:
    """The finished run with all small records in one pack."""
    store = Store(run)
    with store.lock():
        store.pack(at_least=1)
    assert len(list((run / "packs").iterdir())) == 1
    return run


def contents_anywhere(store: Store, cells: list[Cell]) -> dict[str, bytes]:
    """The files of all results, in folders or packs."""
    return {f"{cell.id}/{name}": store.read(cell.id, name) for cell in cells for name in store.facts(cell.id)["files"]}


def test_every_record_of_a_packed_run(packed: Path, cells: list[Cell]) -> None:
    """One byte of each is changed, in its files by turns; a finished run is not computed again, nor unpacked."""
    store, before = Store(packed), contents_anywhere(Store(packed), cells)
    assert engine.run(cells, store).done == []
    (path,) = (packed / "packs").iterdir()
    entries = Pack(path, packed).entries
    damaged = {}
    for number, (cell, entry) in enumerate(entries.items()):
        name, (offset, size) = list(entry.files.items())[number % len(entry.files)]
        flip_at(path, offset + size // 2)
        damaged[cell] = f"{path}/{cell}/{name}"
    with store.lock():
        outcome = engine.run(cells, store)
        store.pack(at_least=1)
    assert len(outcome.damaged) == len(entries) >= 8
    assert all(any(place in why for why in outcome.damaged) for place in damaged.values())
    assert (sorted(outcome.done), outcome.failed) == (sorted(entries), {})
    assert contents_anywhere(Store(packed), cells) == before
    assert engine.run(cells, Store(packed)).damaged == []


def test_the_index_of_a_packed_run(packed: Path, cells: list[Cell]) -> None:
    before = contents_anywhere(Store(packed), cells)
    (path,) = (packed / "packs").iterdir()
    lost = Pack(path, packed).entries.keys()
    flip_at(path, -40)
    assert str(path) in farout.study.results.Results(packed).notes[-1]
    outcome = engine.run(cells, Store(packed))
    assert [str(path) in why for why in outcome.damaged] == [True]
    assert (set(outcome.done), outcome.failed) == (lost, {})
    assert contents_anywhere(Store(packed), cells) == before


def test_a_damaged_network_is_trained_again_before_missing_scores_are_computed(run: Path, cells: list[Cell]) -> None:
    """The fits between them are kept, since the network has the same weights again."""
    before = contents(run)
    scores = next(cell for cell in cells if isinstance(cell, ScoreCell))
    shutil.rmtree(run / "cells" / scores.id)
    flip(next((run / "cells").glob("*/weights.safetensors")), RANDOM)
    outcome = engine.run(cells, Store(run))
    assert (len(outcome.done), outcome.failed) == (2, {})
    assert contents(run) == before


def contents_differ(run: Path, name: str, before: dict[str, bytes | str]) -> bool:
    """Has the byte that was changed made the file another one?"""
    return name.endswith("record.json") or (run / name).read_bytes() != before[name]


def test_the_plan(run: Path, spec: StudySpec) -> None:
    path = run / "plan.json"
    before = path.read_bytes()
    flip(path, RANDOM)
    with pytest.raises(ValueError, match=r"plan\.json is damaged .*the same run command writes it again"):
        farout.study.results.Results(run)
    outcome = farout.run(spec, run).outcome
    assert [str(path) in why for why in outcome.damaged] == [True]
    assert outcome.done == []
    assert path.read_bytes() == before


def test_parts_of_a_finished_work_are_removed_and_those_of_other_studies_kept(run: Path, cells: list[Cell]) -> None:
    """A run that is killed after it has written results, and before it has removed their parts, leaves them."""
    store = Store(run)
    for work in (cells[-1].group, "another"):
        store.put_part(work, {"test-0-64": {"a": np.ones(1)}})
    outcome = engine.run(cells, store)
    assert (outcome.done, outcome.failed) == ([], {})
    assert store.works() == ["another"]


def test_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path).open()
    store.fail("cell", {"traceback": "a long story", "reason": "why"})
    flip(tmp_path / "failures" / "cell.json", RANDOM)
    assert store.failure("cell") is None


class Interrupting:
    """Ctrl-C once so many images are done."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, event: Event) -> None:
        self.left -= event.done
        if self.left <= 0:
            self.left = 10**9
            signal.raise_signal(signal.SIGINT)


def interrupted(run: Path, cells: list[Cell], kind: type[Cell]) -> Iterator[Path]:
    """Compute the first cell of a kind again until most of it is done, and yield what is kept of it."""
    cell = next(cell for cell in cells if isinstance(cell, kind))
    shutil.rmtree(run / "cells" / cell.id)
    with pytest.raises(KeyboardInterrupt):
        engine.run(cells, Store(run), progress=Interrupting(cell.work([cell]).total_cost * 19 // 20))
    yield from files_in(run / "partial")


@pytest.mark.parametrize("kind", [AttackCell, SearchCell, TrainCell])
def test_every_file_of_an_interrupted_run(
    run: Path, finished: Path, cells: list[Cell], kind: type[Cell], caplog: pytest.LogCaptureFixture
) -> None:
    kept = list(interrupted(run, cells, kind))
    assert kept
    for path in kept:
        flip(path, RANDOM)
    with caplog.at_level(logging.WARNING, "farout"):
        outcome = engine.run(cells, Store(run))
    assert (len(outcome.done), outcome.failed) == (1, {})
    assert contents(run) == contents(finished)
    assert [str(path) in caplog.text for path in kept] == [True] * len(kept)
    assert list(files_in(run / "partial")) == []
