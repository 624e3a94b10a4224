"""All checks of a submission, and what they have found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from farout.data.known import Known, known_sets
from farout.files import UnsafePath
from farout.leaderboard.checks.data import Sets, open_sets
from farout.leaderboard.checks.figures import figure_errors, recompute
from farout.leaderboard.checks.files import file_errors
from farout.leaderboard.checks.identities import identity_errors
from farout.leaderboard.checks.records import record_errors
from farout.leaderboard.checks.scores import agreement_errors, column_errors, image_errors
from farout.leaderboard.declared import Declarer, declare_network
from farout.leaderboard.derive import Derived, derive
from farout.leaderboard.portable import read_spec
from farout.leaderboard.submission import Broken, Submission
from farout.progress import track
from farout.report.content import Document
from farout.study.records import read_verified_json
from farout.study.results import PLAN, Results
from farout.study.sources.opening import opened_by
from farout.study.spec import Data, DataSpec
from farout.terminal import one_line

LIMITS = (
    "This finds damage and inconsistency, not forgery: whoever computes all scores anew with a better detector, or "
    "invents scores and packs them as a run would, passes. `farout leaderboard rerun` computes scores of drawn images "
    "again, from weights and data."
)
NOT_RECOMPUTED = (
    "Not computed from scores, and only protected against damage: pictures, times (protocol cost), the accuracy of "
    "networks on their validation images, distances of the perceptual metrics, and the latents of worst cases."
)


@dataclass
class Checked:
    """Outcome of the checks of one submission."""

    submission: Submission | None
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Checks that could not be made here, and why."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Knowledge of every image set (published, rendered here, unknown), by its key."""
    document: Document | None = None
    """Content of the report, computed from the scores; None if that was impossible."""
    derived: Derived | None = None

    @property
    def passed(self) -> bool:
        """True if nothing is wrong."""
        return not self.errors

    def __str__(self) -> str:
        lines = [f"error: {error}" for error in self.errors]
        lines += [f"data {key}: {state}" for key, state in self.sets.items()]
        lines += [f"not checked: {note}" for note in self.notes]
        verdict = "no damage or inconsistency found" if self.passed else f"{len(self.errors)} errors"
        return "\n".join([*map(one_line, lines), verdict + ".", NOT_RECOMPUTED, LIMITS])


def check(folder: str | Path, known: Path | None = None) -> Checked:
    """Check a submission. Nothing in it is run, and nothing is written to it.

    known: JSON file with fingerprints of further image sets. Raise FileNotFoundError if the folder is no submission.
    """
    table = known_sets(known)
    try:
        checked = Checked(Submission(folder))
    except (Broken, UnsafePath) as error:
        return Checked(None, [str(error)])
    for stage in track(STAGES, len(STAGES), "checking the submission", "steps"):
        if not _finished(stage, checked, table):
            break
    return checked


def _finished(stage: Stage, checked: Checked, table: Mapping[str, Known]) -> bool:
    """Run one step; return False if the steps after it cannot be run."""
    try:
        found = list(stage(checked, table))
    except (ValueError, OSError, LookupError, TypeError, AttributeError, RecursionError, RuntimeError) as error:
        checked.errors.append(
            f"the submission cannot be read further ({stage.__doc__}): {type(error).__name__}: {error}"
        )
        return False
    checked.errors += found
    return not (found and stage in NECESSARY)


def _files(checked: Checked, table: Mapping[str, Known]) -> Iterator[str]:
    """files"""
    assert checked.submission
    yield from file_errors(checked.submission)


def _records(checked: Checked, table: Mapping[str, Known]) -> Iterator[str]:
    """records"""
    yield from record_errors(_submission(checked), Results(_submission(checked).root))


def _columns(checked: Checked, table: Mapping[str, Known]) -> Iterator[str]:
    """scores"""
    yield from column_errors(Results(_submission(checked).root))


def _study(checked: Checked, table: Mapping[str, Known]) -> Iterator[str]:
    """study, image sets and identities"""
    submission = _submission(checked)
    sets = open_sets(submission, table)
    checked.sets = sets.states
    yield from sets.errors
    stored, results = read_verified_json(submission.root / PLAN), Results(submission.root)
    if stored["name"] != submission.manifest.name:
        yield f"the manifest is of {submission.manifest.name!r}, and the plan of {stored['name']!r}"
    opener = _opener(submission, sets)
    try:
        spec = read_spec(stored["spec"], submission.root / NOWHERE)
        checked.derived = derive(spec, opener)
    except (ValueError, ImportError, TypeError) as error:
        if isinstance(error, ValueError) and str(error).startswith("the study"):
            yield str(error)
        else:
            checked.notes.append(
                f"identities were not worked out from the study, only compared with each other: {error}"
            )
        return
    checked.notes += [f"identities of {reason}" for reason in checked.derived.left_out]
    yield from identity_errors(stored, results, checked.derived)
    with opened_by(opener):
        yield from image_errors(results, checked.derived)
        yield from agreement_errors(results, checked.derived)


def _figures(checked: Checked, table: Mapping[str, Known]) -> Iterator[str]:
    """tables and report"""
    submission = _submission(checked)
    checked.document, bounds = recompute(submission)
    if submission.manifest.versions.farout == _version():
        yield from figure_errors(submission, checked.document, bounds)
    else:
        checked.notes.append(
            f"tables and report were written by farout {submission.manifest.versions.farout}, this is {_version()}: "
            "they are not compared; a site shows those that this version computes"
        )


Stage = Callable[[Checked, Mapping[str, Known]], Iterator[str]]
STAGES: tuple[Stage, ...] = (_files, _records, _columns, _study, _figures)
NECESSARY: tuple[Stage, ...] = (_files, _records)
"""Steps without which the others cannot be trusted to say anything."""
NOWHERE = "files"
"""Folder against which the paths of a study are resolved: it does not exist, since the manifest lists no file in it."""


def _submission(checked: Checked) -> Submission:
    assert checked.submission is not None
    return checked.submission


def _opener(submission: Submission, sets: Sets) -> Declarer:
    folder = submission.root.absolute() / NOWHERE
    described = {facts.key: facts for facts in submission.manifest.data}
    images = {}
    for key, found in sets.images.items():
        facts = described[key]
        value = {"name": facts.name, "split": facts.split, "options": facts.options}
        images[_data_spec(value, folder).model_dump_json()] = found
    networks: dict[Any, str] = {}
    for network in submission.manifest.networks:
        try:
            found_key, digest = declare_network(network, folder)
        except ValidationError as error:
            raise ValueError(f"the network {network.spec.get('name')} of the manifest is not valid: {error}") from None
        networks[found_key] = digest
    return Declarer(images, networks)


def _data_spec(value: dict[str, Any], folder: Path) -> DataSpec:
    return TypeAdapter[DataSpec](Data).validate_python(value, context={"folder": folder})


def _version() -> str:
    from farout import __version__

    return __version__
