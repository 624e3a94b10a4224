"""Fit cells of detectors with a reduction: states do not depend on the order of chunks nor on interruptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import farout
from farout.detectors.posthoc.gram import GramReduction
from farout.networks import create, save_weights
from farout.protocols import plan
from farout.study.cells import fit
from farout.study.cells.cell import Chunk, closure
from farout.study.cells.errors import error_key
from farout.study.cells.fit import STATE, FitJob, FitWork
from farout.study.engines.run import group_works
from farout.study.spec import StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

DETECTORS = [
    "gram",
    {"name": "gram", "label": "gram by label", "params": {"variant": "openood"}},
    {"name": "knn", "params": {"k": 5, "bank": 40}},
    {"name": "dn2", "params": {"layer": 1, "places": "grid", "bank": 40}},
    "nnguide",
    "mds",
]


@pytest.fixture
def spec(tmp_path: Path) -> StudySpec:
    weights = tmp_path / "lenet.safetensors"
    save_weights(create("lenet", 4, 32, seed=3), weights)
    return StudySpec.model_validate(
        {
            "name": "reduced",
            "inliers": {split: {"name": "toy", "split": split, "limit": 300} for split in ("train", "val", "test")},
            "outliers": [{"name": "toy", "split": "test/ood_cls", "limit": 20}],
            "networks": [{"name": "lenet", "weights": str(weights), "mean": [0.5], "std": [0.25]}],
            "detectors": DETECTORS,
        }
    )


def fit_work(spec: StudySpec) -> FitWork:
    cells = closure([entry.cell for entry in plan(from_spec(spec))])
    (work,) = (work for work in group_works(cells) if isinstance(work, FitWork))
    return work


def computed(work: FitWork, store: Store, chunks: Sequence[Chunk]) -> dict[str, dict[str, Any]]:
    job = work.prepare(store, torch.device("cpu"))
    return {str(chunk): job.run(chunk, lambda images: None) for chunk in chunks}


def states(work: FitWork, store: Store, order: Sequence[Chunk], results: dict[str, Any], out: Path) -> list[bytes]:
    """Return the files of all cells, collected by another process's job in this order."""
    job = work.prepare(store, torch.device("cpu"))
    assert isinstance(job, FitJob)
    for chunk in order:
        assert job.complete(chunk, results[str(chunk)])
        job.collect(chunk, results[str(chunk)])
    files = []
    for cell, record in job.finish():
        assert not isinstance(record, str), record
        record.files[STATE](out / cell)
        files.append((out / cell).read_bytes())
    return files


def test_the_order_of_chunks_does_not_matter(spec: StudySpec, tmp_path: Path) -> None:
    work, store = fit_work(spec), Store(tmp_path / "run").open()
    results = computed(work, store, work.chunks)
    rng = np.random.default_rng(3)
    in_order = states(work, store, work.chunks, results, tmp_path)
    for _ in range(2):
        shuffled = [work.chunks[place] for place in rng.permutation(len(work.chunks))]
        assert states(work, store, shuffled, results, tmp_path) == in_order
    assert len(in_order) == len(DETECTORS)


def test_chunks_of_a_long_split_grow_and_give_the_same_states(
    spec: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, store = fit_work(spec), Store(tmp_path / "run").open()
    small = states(work, store, work.chunks, computed(work, store, work.chunks), tmp_path)
    monkeypatch.setattr(fit, "CHUNKS", 2)
    work = fit_work(spec)
    sizes = [chunk.stop - chunk.start for chunk in work.chunks if chunk.role == "train"]
    assert sizes == [128, 128, 44]
    assert states(work, store, work.chunks, computed(work, store, work.chunks), tmp_path) == small
    assert {chunk.stop - chunk.start for chunk in work.chunks if chunk.role == "val"} == {64, 44}


def test_chunks_hold_what_is_kept_and_no_column_that_only_reductions_read(spec: StudySpec, tmp_path: Path) -> None:
    work, store = fit_work(spec), Store(tmp_path / "run").open()
    (results,) = computed(work, store, work.chunks[:1]).values()
    assert {name for name in results if not name.startswith("kept:")} == {"features"}, "mds reads them"


def test_a_fit_goes_on_from_its_stored_chunks(spec: StudySpec, tmp_path: Path) -> None:
    farout.run(spec, tmp_path / "whole")
    work, store = fit_work(spec), Store(tmp_path / "again").open()
    store.put_part(work.id, computed(work, store, work.chunks[2:4]))
    store.put_part(work.id, computed(work, store, work.chunks[:1]))
    outcome = farout.run(spec, tmp_path / "again").outcome
    assert not outcome.failed
    whole = Store(tmp_path / "whole")
    for cell in work.cells:
        assert store.file(cell.id, STATE).read_bytes() == whole.file(cell.id, STATE).read_bytes()


def test_a_reduction_that_raises_fails_alone(spec: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def summarize(self: GramReduction, start: int, part: farout.Activations) -> dict[str, torch.Tensor]:
        raise ValueError(f"no bounds from row {start} on")

    monkeypatch.setattr(GramReduction, "summarize", summarize)
    work, store = fit_work(spec), Store(tmp_path / "run").open()
    broken = [cell.id for cell in work.cells if cell.detector.name == "gram"]
    (results,) = computed(work, store, work.chunks[:1]).values()
    assert {error_key(cell) for cell in broken} <= results.keys()
    assert not work.prepare(store, torch.device("cpu")).complete(work.chunks[0], results)
    outcome = farout.run(spec, tmp_path / "run").outcome
    reasons = [reason for cell, reason in outcome.failed.items() if cell in broken]
    assert len(reasons) == 2
    assert all(reason.startswith("gram on lenet: ValueError: no bounds from row ") for reason in reasons)
    assert {cell.id for cell in work.cells} - set(broken) <= set(outcome.done)
