"""Image sets of a submission, against the published sets that farout knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from farout.core import ImageSet
from farout.data.catalog import DATASETS
from farout.data.known import Known, content_of, rendered
from farout.leaderboard.declared import declare
from farout.leaderboard.submission import DataFacts, Submission

RENDERED = "rendered here: the same images"
PUBLISHED = "published: the same images"
UNKNOWN = "not known here: farout has no fingerprint of this set"
OWN = "not known here: the submitter's own images"
WRONG = "not the published images"


@dataclass
class Sets:
    """Image sets of a submission."""

    images: dict[str, ImageSet] = field(default_factory=dict)
    """By key of the set."""
    states: dict[str, str] = field(default_factory=dict)
    """Knowledge of each set: published, rendered here, or unknown."""
    errors: list[str] = field(default_factory=list)


def open_sets(submission: Submission, known: Mapping[str, Known]) -> Sets:
    """Read the descriptions of all sets and compare them with what is known."""
    sets = Sets()
    for facts in submission.manifest.data:
        try:
            images = declare(facts, submission.root / facts.file)
        except (ValueError, OSError) as error:
            sets.errors.append(f"image set {facts.key}: {error}")
            continue
        if facts.key in sets.images:
            sets.errors.append(f"image set {facts.key} is described twice")
        sets.images[facts.key] = images
        state, errors = _judge(facts, images, known)
        sets.states[facts.key] = state
        sets.errors += [f"wrong data set {facts.key}: {text}" for text in errors]
    return sets


def _judge(facts: DataFacts, images: ImageSet, known: Mapping[str, Known]) -> tuple[str, list[str]]:
    """Return what is known of a set, and in what it differs from the known set of its name."""
    try:
        own = rendered(facts.name, facts.split, facts.options)
    except (ValueError, TypeError) as error:
        return WRONG, [str(error)]
    if own is not None:
        errors = list(_differences(facts, images, Known(own.fingerprint, content_of(own.labels, own.attributes))))
        if (own.name, own.shape, tuple(own.classes)) != (facts.title, images.shape, facts.classes):
            errors.append(f"its name, shape or classes are not those of the set that farout renders ({own!r})")
        return WRONG if errors else RENDERED, errors
    if facts.key in known:
        errors = list(_differences(facts, images, known[facts.key]))
        return WRONG if errors else PUBLISHED, errors
    same = [key for key, one in known.items() if one.fingerprint == facts.fingerprint]
    if same:
        return f"the same images as {same[0]}", []
    return UNKNOWN if facts.name in DATASETS else OWN, []


def _differences(facts: DataFacts, images: ImageSet, known: Known) -> Iterator[str]:
    if known.fingerprint != facts.fingerprint:
        yield f"its fingerprint is {facts.fingerprint}, that of the published images {known.fingerprint}"
    elif known.content and known.content != content_of(images.labels, images.attributes):
        yield "its labels or attributes are not those of the published images"
