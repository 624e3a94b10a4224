"""A checked submission as an entry of the site: what rows can be filtered by, and its provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from farout.data.known import key_of
from farout.identity import canonical
from farout.leaderboard.check import Checked
from farout.leaderboard.pack import OMITTED
from farout.leaderboard.rerun import Rerun
from farout.leaderboard.submission import Submission
from farout.report.content.board import RECOMPUTED, RERUN, Entry, Fact
from farout.study.results import Results

EXISTING = "existing weights"


def entry_of(checked: Checked, rerun: Rerun | None) -> Entry:
    """Return the entry of a submission that has passed all checks."""
    submission, document = checked.submission, checked.document
    assert submission is not None
    assert document is not None
    results = Results(submission.root)
    spec = results.spec
    return Entry(
        name=submission.manifest.name,
        identity=submission.id,
        packed_at=submission.manifest.packed_at,
        folder=submission.id[:16],
        badge=RERUN if rerun is not None and rerun.passed and rerun.submission == submission.id else RECOMPUTED,
        inliers=_set(spec["inliers"]["test"]),
        outliers=", ".join(map(_set, spec["outliers"])) or "those of the inliers' own data set",
        budget=results.budget,
        protocols=[one.name for one in results.protocols],
        training=_training(spec),
        extra=results.extra_data,
        overview=document.overview,
        missing=document.missing,
        provenance=dict(_provenance(checked, submission, results, rerun)),
        notes=checked.notes,
    )


def _set(spec: Mapping[str, Any] | None) -> str:
    """Return the name of an image set as a study spells it, with the number of images if it is limited."""
    if not spec:
        return "none"
    if "split" not in spec:
        return f"{spec['name']} (made by the study)"
    limit = f", first {spec['limit']:,}" if spec.get("limit") else ""
    return key_of(spec["name"], spec["split"], spec.get("options", {})) + limit


def _training(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the images that every network was trained on; those of detectors without a network by an empty label."""
    train = _set(spec["inliers"].get("train"))
    networks = {_title(network): train if _trained(network) else EXISTING for network in spec["networks"]}
    return {**networks, "": train}


def _title(network: Mapping[str, Any]) -> str:
    """Return the label of a network, or of an ensemble of several."""
    names = [part.get("label") or part["name"] for part in network.get("ensemble", [])]
    return str(network.get("label") or network.get("name") or " + ".join(names))


def _trained(network: Mapping[str, Any]) -> bool:
    parts = network.get("ensemble", [network])
    return any(part.get("train") for part in parts)


def _provenance(
    checked: Checked, submission: Submission, results: Results, rerun: Rerun | None
) -> Iterator[tuple[str, list[Fact]]]:
    """Yield the facts of a submission by section."""
    manifest = submission.manifest
    versions = [Fact(name, str(value)) for name, value in manifest.versions]
    yield "Submission", [Fact("budget", results.budget), *versions, Fact("results", f"{len(results.rows):,}")]
    detectors = results.spec["detectors"]
    yield "Detectors", [Fact(str(one.get("label") or one["name"]), _component(one)) for one in detectors]
    yield (
        "Image sets",
        [
            Fact(
                facts.key, f"{facts.total:,} images, fingerprint {facts.fingerprint}; {checked.sets.get(facts.key, '')}"
            )
            for facts in manifest.data
        ],
    )
    networks = [Fact(str(one.spec.get("name")), f"existing weights, digest {one.digest}") for one in manifest.networks]
    yield "Weights", [*networks, *_weights(results)]
    yield "Rerun", _rerun_facts(submission, rerun)


def _component(spec: Mapping[str, Any]) -> str:
    """Return the registered name of a component, with its parameters."""
    return f"{spec['name']} {canonical(spec['params'])}" if spec.get("params") else str(spec["name"])


def _weights(results: Results) -> Iterator[Fact]:
    """Yield the checksums of the weights and states that the submission leaves out."""
    cells = dict.fromkeys(cell for row in results.rows for cell in row.requires)
    for cell in cells:
        facts = results.store.facts(cell) if results.store.has(cell) else {}
        for name, entry in facts.get(OMITTED, {}).items():
            yield Fact(f"{facts.get('title')} ({cell[:12]})", f"{name}, sha256 {entry.get('sha256')}")


def _rerun_facts(submission: Submission, rerun: Rerun | None) -> list[Fact]:
    if rerun is None:
        return [Fact("rerun", "not yet: the figures are computed from the scores of the submission")]
    if rerun.submission != submission.id:
        return [Fact("rerun", f"of another submission of this name ({rerun.submission}); it says nothing on this one")]
    return [
        Fact("outcome", "the same scores" if rerun.passed else f"other scores, most of {rerun.worst}"),
        Fact("drawn images", f"{rerun.sample:,}, {rerun.equal:,} of their scores equal to the last bit"),
        Fact(
            "largest difference", f"{rerun.largest_difference:.3g} standard deviations (tolerance {rerun.tolerance:g})"
        ),
        Fact("trained here again", "; ".join(rerun.computed) or "nothing: all weights were found by their checksums"),
        Fact("left out", "; ".join(rerun.left_out) or "nothing"),
        Fact("machine", f"{rerun.machine}, torch {rerun.versions.torch}, {rerun.at}"),
    ]
