"""Scores of drawn images computed again from weights and data, and compared with those of a submission."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farout.files import files_in, has_file, sha256
from farout.leaderboard.check import check
from farout.leaderboard.drawing import Drawn, Scored, compute, draw, scored_results
from farout.leaderboard.pack import OMITTED, versions
from farout.leaderboard.portable import renamed, texts
from farout.leaderboard.submission import Hex, Submission, Versions
from farout.study.cells.cell import closure
from farout.study.cells.score import ScoreCell
from farout.study.engines.outdated import INPUTS
from farout.study.engines.run import run
from farout.study.records import Damaged, read_verified_json, write_record, write_verified_json
from farout.study.results import Results, Row
from farout.study.spec import StudySpec, format_problems
from farout.study.store import Store
from farout.terminal import one_line

TOLERANCE = 1e-3
"""Largest difference of a score, in standard deviations of its detector's scores. On the same kind of processor the
differences are those of sums in batches of another size, a thousand times smaller."""
FILES = "files/"


class Rerun(BaseModel):
    """Outcome of a rerun, as it is written beside a submission."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    format: int = 1
    submission: Hex
    """Identity of the submission; another content has another one."""
    name: str
    passed: bool
    sample: int
    seed: int
    tolerance: float
    largest_difference: Annotated[float, Field(ge=0)]
    """In standard deviations of the scores of the result."""
    equal: int
    """Number of scores that are equal to the last bit."""
    worst: str
    """Result with the largest difference."""
    detectors: dict[str, float]
    """Largest difference by detector."""
    computed: list[str]
    """Trainings and fits that were computed here, since their weights were not found by checksum."""
    left_out: list[str]
    """Results that no image was drawn from, and why."""
    versions: Versions
    machine: str
    at: str

    def __str__(self) -> str:
        lines = [f"computed here: {title}" for title in self.computed]
        lines += [f"left out: {text}" for text in self.left_out]
        lines += [
            f"{name}: largest difference {value:.2g} standard deviations" for name, value in self.detectors.items()
        ]
        verdict = (
            "the scores are those of these weights and data"
            if self.passed
            else f"other scores, most of {one_line(self.worst)}"
        )
        return "\n".join(
            [*map(one_line, lines),
             f"{self.sample} drawn images, {self.equal} scores equal to the last bit; {verdict} (tolerance "
             f"{self.tolerance:g} standard deviations, largest difference {self.largest_difference:.3g})"]
        )  # fmt: skip


def result_path(folder: Path, reruns: Path | None = None) -> Path:
    """Return the path of the outcome: beside the submission, or in a folder of its own."""
    folder = folder.absolute()
    return (reruns or folder.parent) / f"{folder.name}.rerun.json"


def rerun(
    folder: str | Path,
    *,
    sample: int = 200,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    models: Path | None = None,
    paths: Mapping[str, Path] | None = None,
    reruns: Path | None = None,
    device: str = "cpu",
) -> Rerun:
    """Compute scores of drawn images again and write the outcome beside the submission.

    models: folder in which weights and states are found by their checksums, such as the run; what is not found there is
    trained and fitted again. paths: files of this machine by their names in the study, {"files/images.npz": path}.
    Raise ValueError if the submission has errors, or if data or weights here are not those that it names.
    """
    checked = check(folder)
    if not checked.passed or checked.submission is None:
        raise ValueError("the submission has errors, so that it is not run again:\n" + "\n".join(checked.errors))
    submission = checked.submission
    results, rows = scored_results(_spec(submission, paths or {}))
    _check_same(submission, rows)
    with TemporaryDirectory(prefix="farout-") as work:
        store = Store(work).open()
        computed = _prepare(submission, results, store, models, device)
        usable, left_out = _usable(results, store)
        counts = {one.stored: len(store.scores(one.stored)) for one in usable}
        if not counts:
            raise ValueError("no score can be computed again:\n" + "\n".join(left_out))
        drawn = list(compute(usable, draw(counts, sample, seed), store, device))
    outcome = _outcome(submission, drawn, seed, tolerance, computed, left_out)
    path = result_path(submission.root, reruns)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_verified_json(path, outcome.model_dump(mode="json"))
    return outcome


def read_rerun(path: Path) -> Rerun | None:
    """Return the outcome of a rerun; None if there is none. Raise ValueError if it is damaged."""
    if not has_file(path):
        return None
    try:
        return Rerun.model_validate(read_verified_json(path))
    except Damaged as error:
        raise ValueError(str(error)) from None
    except ValidationError as error:
        raise ValueError(f"{path} is not valid:\n{format_problems(error)}") from None


def _spec(submission: Submission, paths: Mapping[str, Path]) -> StudySpec:
    """Return the study with the paths of this machine."""
    spec = Results(submission.root).spec
    named = sorted({text for text in texts(spec) if text.startswith(FILES)})
    if missing := [name for name in named if name not in paths]:
        raise ValueError(
            f"the study reads {', '.join(missing)}; say where they are on this machine: "
            + " ".join(f"--file {name}=PATH" for name in missing)
        )
    own = {name: str(path.expanduser().resolve()) for name, path in paths.items()}
    return StudySpec.model_validate(renamed(spec, own))


def _check_same(submission: Submission, here: Sequence[Row]) -> None:
    """Raise if the study gives other results here: other images or other weights."""
    rows, known = Results(submission.root).rows, set(map(_key, here))
    if other := [row for row in rows if _key(row) not in known]:
        raise ValueError(
            f"{len(other)} of {len(rows)} results of the submission are not those of the study on this machine, the "
            f"first: {other[0].title}; the images or weights here are others than those of the submission"
        )


def _key(row: Row) -> tuple[Any, ...]:
    return (row.protocol, row.cell, *sorted(row.tags.items()))


def _prepare(
    submission: Submission, results: Sequence[Scored], store: Store, models: Path | None, device: str
) -> list[str]:
    """Fill the store with the records of the submission; train and fit what it leaves out. Return what was computed."""
    own, available = Store(submission.root), _by_checksum(submission, models)
    needed = {cell.id: cell for one in results for cell in closure([*one.cell.requires, one.cell])}
    for name in {*needed, *(one.stored for one in results)}:
        if own.has(name):
            _restore(own, name, available, store)
    lost = [cell for cell in needed.values() if not store.has(cell.id) and own.has(cell.id)]
    models_missing = [cell for cell in lost if not isinstance(cell, ScoreCell) and cell.identity["kind"] != "attack"]
    outcome = run(models_missing, store, device=device)
    if outcome.failed:
        raise ValueError("models could not be made again:\n" + "\n".join(dict.fromkeys(outcome.failed.values())))
    return list(dict.fromkeys(f"{cell.title} ({cell.id[:12]})" for cell in models_missing))


def _by_checksum(submission: Submission, models: Path | None) -> dict[str, Path]:
    """Return the files of a folder that have the size and checksum of a file that the submission leaves out."""
    if models is None:
        return {}
    if not models.is_dir():
        raise FileNotFoundError(f"there is no folder {models}; give the one with the weights, such as the run")
    own = Store(submission.root)
    omitted = [
        entry for row in Results(submission.root).rows for cell in (*row.requires, row.cell) if own.has(cell)
        for entry in own.facts(cell).get(OMITTED, {}).values()
    ]  # fmt: skip
    sizes, sums = {entry["bytes"] for entry in omitted}, {entry["sha256"] for entry in omitted}
    found = {sha256(path): path for path in files_in(models) if path.stat().st_size in sizes}
    return {checksum: path for checksum, path in found.items() if checksum in sums}


def _restore(own: Store, cell: str, available: Mapping[str, Path], store: Store) -> None:
    """Copy a record into the store, with the files that it leaves out; not if these are not available."""
    facts = own.facts(cell)
    omitted, files = facts.pop(OMITTED, {}), facts.pop("files")
    facts.pop(INPUTS, None)  # trainings may be computed again, and this record is judged as it is
    if not all(entry["sha256"] in available for entry in omitted.values()):
        return
    folder = store.path(cell)
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(own.read(cell, name))
    for name, entry in omitted.items():
        shutil.copyfile(available[entry["sha256"]], folder / name)
    write_record(folder, facts, [*files, *omitted])


def _usable(results: Sequence[Scored], store: Store) -> tuple[list[Scored], list[str]]:
    """Return the results whose scores can be computed, and texts on the others."""
    usable, left_out = [], []
    for one in results:
        lacking = [cell for cell in closure(list(one.cell.requires)) if not store.has(cell.id)]
        if not store.has(one.stored):
            left_out.append(f"{one.protocol}, {one.cell.title}: the submission has no result")
        elif lacking:
            left_out.append(f"{one.protocol}, {one.cell.title}: it needs the files of {lacking[0].title}")
        else:
            usable.append(one)
    return usable, list(dict.fromkeys(left_out))


def _outcome(
    submission: Submission,
    drawn: Sequence[Drawn],
    seed: int,
    tolerance: float,
    computed: list[str],
    left_out: list[str],
) -> Rerun:
    worst = max(drawn, key=lambda one: _largest(one))
    detectors: dict[str, float] = {}
    for one in drawn:
        detectors[one.scored.detector] = max(detectors.get(one.scored.detector, 0.0), _largest(one))
    return Rerun(
        submission=submission.id, name=submission.manifest.name, passed=_largest(worst) <= tolerance,
        sample=sum(len(one.positions) for one in drawn), seed=seed, tolerance=tolerance,
        largest_difference=_largest(worst), equal=sum(int((one.stored == one.computed).sum()) for one in drawn),
        worst=f"{worst.scored.protocol}, {worst.scored.cell.title}, {worst.scored.detector}", detectors=detectors,
        computed=computed, left_out=left_out, versions=versions(),
        machine=f"{platform.machine()}, {device_name()}", at=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _largest(one: Drawn) -> float:
    """Return the largest difference; infinite if a score is not finite."""
    largest = float(one.differences.max())
    return largest if np.isfinite(largest) else float(np.finfo(np.float64).max)


def device_name() -> str:
    """Return the name of the processor's family."""
    return platform.processor() or platform.system()


def parsed_paths(items: Sequence[str] | None) -> dict[str, Path]:
    """Parse NAME=PATH pairs."""
    return dict(_pairs(items or ()))


def _pairs(items: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for item in items:
        name, sign, path = item.partition("=")
        if not (name and sign and path):
            raise ValueError(f"--file takes NAME=PATH, got {item!r}")
        yield name, Path(path)
