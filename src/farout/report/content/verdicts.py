"""Verdicts in words: sentences about every detector that its figures and their intervals support."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

from farout.report.content.numbers import listed, ordinal, with_interval
from farout.report.content.stresses import CHANCE, Condition, Mean, Overview, Subject

BELOW, AT, ABOVE = "below chance", "not distinguishable from chance", "above chance"
UNKNOWN = "without an interval"
SHOWN = 3
"""Largest number of stresses that a sentence names."""


@dataclass(frozen=True)
class Verdict:
    """Sentences about one detector, and the worst level that it falls to."""

    subject: Subject
    label: str
    level: str
    """BELOW, AT, ABOVE or UNKNOWN: the worst of all conditions tested."""
    sentences: Sequence[str]


def level(mean: Mean) -> str:
    """Return BELOW only if the whole interval is below chance, ABOVE only if it is above, else AT."""
    if isnan(mean.low + mean.high):
        return UNKNOWN
    if mean.high < CHANCE:
        return BELOW
    return ABOVE if mean.low > CHANCE else AT


def verdicts(overview: Overview) -> list[Verdict]:
    """Return a verdict for every detector, in the order of the overview."""
    return [_verdict(overview, subject) for subject in overview.subjects]


def headlines(overview: Overview) -> list[str]:
    """Return a few sentences about all detectors together; empty without results."""
    if not overview.conditions:
        return []
    found = verdicts(overview)
    stresses = [one for one in overview.conditions if not one.stress.clean]
    lines = [
        f"{_count(len(found), 'detector')}, tested under {_count(len(stresses), 'stress', 'es')}{_part(overview)}."
    ]
    return [*lines, *_best(overview), *_fallen(found), *_hardest(overview, stresses)]


def _part(overview: Overview) -> str:
    """Return how many detectors took all stresses, if some did not."""
    stresses = [one for one in overview.conditions if not one.stress.clean]
    whole = sum(all(subject in one.means for one in stresses) for subject in overview.subjects)
    if whole == len(overview.subjects):
        return ""
    return f"; {whole} of them under all, the others under some" if whole else "; each under some of them"


def _best(overview: Overview) -> list[str]:
    reference = overview.reference
    if reference is None or len(reference.means) < 2:
        return []
    best = reference.ranking[0]
    tied = [overview.label(one) for one in reference.ranking if reference.tied(one)]
    rest = f"; not distinguishable from it: {_some(tied)}" if tied else "; significantly better than all others"
    where = _place(reference)
    return [f"Best on clean images: {overview.label(best)} ({where}{_figure(reference.means[best])}){rest}."]


def _fallen(found: Sequence[Verdict]) -> list[str]:
    below = [one.label for one in found if one.level == BELOW]
    at = [one.label for one in found if one.level == AT]
    lines = [f"Below chance in at least one condition: {_some(below)}."] if below else []
    also = "Nowhere below chance, but not" if below else "Not"
    lines += [f"{also} distinguishable from chance in at least one condition: {_some(at)}."] if at else []
    above = all(one.level == ABOVE for one in found)
    return lines + (["Every detector is above chance in every condition that it was tested in."] if above else [])


def _hardest(overview: Overview, stresses: Sequence[Condition]) -> list[str]:
    if not stresses:
        return []

    def mean(condition: Condition) -> float:
        return sum(one.value for one in condition.means.values()) / len(condition.means)

    hardest = min(stresses, key=mean)
    subjects = sorted(hardest.means, key=lambda one: hardest.means[one].value)
    low, high = (f"{overview.label(one)} {_figure(hardest.means[one])}" for one in (subjects[0], subjects[-1]))
    span = f"from {low} to {high}" if len(subjects) > 1 else low
    taken = _count(len(subjects), "detector")
    return [f"Stress with the lowest mean AUROC of its detectors: {overview.name(hardest)} ({taken}; {span})."]


def _verdict(overview: Overview, subject: Subject) -> Verdict:
    tested = overview.of(subject)
    levels = [level(mean) for _, mean in tested]
    worst = next(one for one in (BELOW, AT, UNKNOWN, ABOVE) if one in levels)
    sentences = [
        *_rank(overview, subject),
        *_named(overview, "Falls below chance under", [(c, m) for c, m in tested if level(m) == BELOW]),
        *_named(overview, "Not distinguishable from chance under", [(c, m) for c, m in tested if level(m) == AT]),
        *_drop(overview, subject, [(c, m) for c, m in tested if level(m) == ABOVE]),
        *_coverage(overview, tested),
    ]
    return Verdict(subject, overview.label(subject), worst, sentences)


def _rank(overview: Overview, subject: Subject) -> list[str]:
    """Return the rank on clean images, the comparison with the best, and the weakest outlier set."""
    reference = overview.reference
    if reference is None or subject not in reference.means:
        return []
    mean, ranking = reference.means[subject], reference.ranking
    place, figure = 1 + ranking.index(subject), f"{_place(reference)}{_figure(mean)}"
    if len(ranking) > 1:
        best = f", not distinguishable from the best ({overview.label(ranking[0])})"
        versus = best if reference.tied(subject) else ""
        text = f"Ranks {ordinal(place)} of {len(ranking)} on clean images ({figure}){versus}"
    else:
        text = f"On clean images: {figure}"
    weakest = mean.weakest
    where = f"; weakest on {weakest.outliers}: {_figure(Mean([weakest]))}, {level(Mean([weakest]))}"
    return [text + (where if len(mean.sets) > 1 else "") + "."]


def _named(overview: Overview, start: str, found: Sequence[tuple[Condition, Mean]]) -> list[str]:
    """Return a sentence that lists the lowest of these conditions with their figures."""
    ordered = sorted(found, key=lambda one: one[1].value)
    parts = [f"{overview.name(condition)} ({_figure(mean)})" for condition, mean in ordered[:SHOWN]]
    more = len(ordered) - SHOWN
    return [f"{start} {listed([*parts, *([f'{more} more'] if more > 0 else [])])}."] if parts else []


def _drop(overview: Overview, subject: Subject, found: Iterable[tuple[Condition, Mean]]) -> list[str]:
    """Return the largest drop from the clean images of the same protocol that the intervals support."""
    drops = []
    for condition, mean in found:
        clean = overview.clean_of(condition)
        before = clean.means.get(subject) if clean and clean is not condition else None
        if before and mean.high < before.low:
            drops.append((before.value - mean.value, condition, before, mean))
    if not drops:
        return []
    _, condition, before, mean = max(drops, key=lambda one: one[0])
    return [
        f"Largest drop that stays above chance: {overview.name(condition)}, from {_figure(before)} to {_figure(mean)}."
    ]


def _coverage(overview: Overview, tested: Sequence[tuple[Condition, Mean]]) -> list[str]:
    """Return how many of the stresses the detector was tested under, unless all."""
    stresses = [one for one in overview.conditions if not one.stress.clean]
    mine = [one for one, _ in tested if not one.stress.clean]
    if len(mine) == len(stresses):
        return []
    if not mine:
        return [f"Not tested under any of the {_count(len(stresses), 'stress', 'es')}."]
    return [f"Tested under only {len(mine)} of the {_count(len(stresses), 'stress', 'es')}."]


def _figure(mean: Mean) -> str:
    return with_interval(*mean.interval)


def _place(condition: Condition) -> str:
    """Return the measure, and over how many sets it is a mean."""
    sets = max(len(mean.sets) for mean in condition.means.values())
    return f"AUROC, mean over {sets} outlier sets: " if sets > 1 else "AUROC "


def _some(labels: list[str]) -> str:
    more = len(labels) - 2 * SHOWN
    return listed([*labels[: 2 * SHOWN], *([f"{more} more"] if more > 0 else [])])


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"
