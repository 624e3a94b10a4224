"""Make a submission of a run: its plan, its records without weights, what is known of its images, its report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from farout.files import atomic_folder, sha256
from farout.leaderboard.declared import Recorder, describe, describe_network, write_columns
from farout.leaderboard.derive import plan_study
from farout.leaderboard.portable import renamed, short_names
from farout.leaderboard.submission import FORMAT, MANIFEST, FileFacts, Manifest, Submission, Versions
from farout.protocols.document import document
from farout.report.html import write_report
from farout.study.packing import Packing
from farout.study.records import write_record, write_verified_json
from farout.study.results import PLAN, Results, plan_facts
from farout.study.sources.opening import opened_by
from farout.study.spec import StudySpec
from farout.study.store import Store

OMITTED = "omitted"
"""Key of a record under which the files that a submission leaves out are listed, with their checksums."""
LEFT_OUT = {"state.safetensors", "weights.safetensors", "features.safetensors", "checkpoint.safetensors"}
"""Files of records that no figure is computed from: weights and states, which are large and are found by checksum."""


def pack(run: str | Path, out: str | Path) -> Submission:
    """Write a submission of a finished run to a new folder, and return it.

    Raise if results are missing that have not failed, or if the study no longer gives the plan of the run.
    """
    results, out = Results(run), Path(out)
    if out.exists():
        raise FileExistsError(f"{out} exists already; choose another folder with --out, or remove it")
    _check_complete(results)
    recorder, facts = _opened(results)
    names = short_names(results.spec)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder:
        write_verified_json(folder / PLAN, renamed_plan(facts, names))
        _write_records(results, folder)
        packed = Results(folder)
        write_report(document(packed), folder)
        _write_manifest(results.name, recorder, names, folder)
    return Submission(out)


def _check_complete(results: Results) -> None:
    if results.spec is None:
        raise ValueError(
            f"the run {results.name!r} was not made from a study file, so that nobody can run it again; write a study "
            "and `farout run` it"
        )
    failed = results.failures()
    unfinished = [row for row in results.pending() if row.cell not in failed]
    if unfinished:
        raise ValueError(
            f"{len(unfinished)} of {len(results.rows)} results are missing, the first: {unfinished[0].title}; the same "
            "run command computes them: pack the run after that"
        )


def _opened(results: Results) -> tuple[Recorder, dict[str, Any]]:
    """Return what the study opens, and its plan. Raise if that is not the plan of the run."""
    recorder = Recorder()
    with opened_by(recorder):
        study, entries = plan_study(StudySpec.model_validate(results.spec))
        facts = plan_facts(study, entries)
    if facts["rows"] != [row._asdict() for row in results.rows]:
        raise ValueError(
            "the study gives other results than those of the run: its data, its weights or farout itself have changed "
            "since; run the study again, then pack it"
        )
    return recorder, facts


def renamed_plan(facts: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a plan whose study and protocols name no path of this machine."""
    return {**facts, **{key: renamed(facts[key], names) for key in ("spec", "protocols")}}


def _write_records(results: Results, folder: Path) -> None:
    """Copy the records of all results and of those that they are computed from; failures without their tracebacks."""
    store = Store(folder)
    (folder / "cells").mkdir()
    for cell in dict.fromkeys(cell for row in results.rows for cell in (*row.requires, row.cell)):
        if results.store.has(cell):
            _copy_record(results.store, cell, store.path(cell))
        elif failure := results.store.failure(cell):
            (folder / "failures").mkdir(exist_ok=True)
            store.fail(cell, {"reason": failure["reason"], "traceback": failure["reason"]})
    Packing(folder, store.packs).pack()


def _copy_record(store: Store, cell: str, folder: Path) -> None:
    """Copy one record without the files that are left out; their checksums stay in the record."""
    facts = store.facts(cell)
    files = facts.pop("files")
    left_out = {
        name for name in files if name in LEFT_OUT or (facts["identity"]["kind"], name) == ("attack", "images.npy")
    }
    folder.mkdir(parents=True)
    kept = [name for name in files if name not in left_out]
    for name in kept:
        (folder / name).write_bytes(store.read(cell, name))
    omitted = {name: files[name] for name in files if name in left_out}
    write_record(folder, {**facts, **({OMITTED: omitted} if omitted else {})}, kept)


def _write_manifest(name: str, recorder: Recorder, names: Mapping[str, str], folder: Path) -> None:
    data = []
    for number, (spec, images) in enumerate(recorder.sets.values()):
        file = f"data/{number}.parquet"
        facts, columns = describe(images, spec, file)
        if columns:
            (folder / "data").mkdir(exist_ok=True)
            write_columns(columns, folder / file)
        data.append(facts.model_copy(update=renamed({"name": facts.name, "options": facts.options}, names)))
    networks = [describe_network(source, digest) for source, digest in recorder.networks.values()]
    manifest = Manifest(
        format=FORMAT, name=name, packed_at=datetime.now(UTC).isoformat(timespec="seconds"), versions=versions(),
        data=data, networks=[one.model_copy(update={"spec": renamed(one.spec, names)}) for one in networks],
        files=_files(folder),
    )  # fmt: skip
    write_verified_json(folder / MANIFEST, manifest.model_dump(mode="json"))


def versions() -> Versions:
    """Return the versions of the software of this process."""
    from farout import __version__

    return Versions(farout=__version__, python=platform.python_version(), torch=torch.__version__, numpy=np.__version__)


def _files(folder: Path) -> dict[str, FileFacts]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {
        path.relative_to(folder).as_posix(): FileFacts(bytes=path.stat().st_size, sha256=sha256(path)) for path in paths
    }
