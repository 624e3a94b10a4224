"""Detectors that cannot be told apart from the best under a stress: tests of all pairs, corrected for their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from math import hypot
from operator import add
from typing import NamedTuple

import numpy as np

from farout.metrics.intervals import normal_comparison
from farout.metrics.multiplicity import holm
from farout.metrics.setups import Estimate
from farout.protocols.judged import Images, Judged
from farout.report.content import Measured, Standing, Stress, Subject

TAIL = 0.025
NORMAL = 1.959963984540054
"""Quantile of the normal distribution at 1 − TAIL."""
ROUNDING = 1e-9


class _Whole(NamedTuple):
    """Mean of a detector's estimates over outlier sets and seeds, with the images that its influence is about."""

    estimate: Estimate
    images: Images


def with_standings(stresses: Sequence[Stress], found: Iterable[Judged]) -> list[Stress]:
    """Return the stresses with the standing of their detectors, where the estimates of all of them are known."""
    by_name: dict[str, list[Judged]] = {}
    for one in found:
        by_name.setdefault(one.condition, []).append(one)
    return [replace(stress, standing=_standing(stress, by_name.get(stress.name, []))) for stress in stresses]


def _standing(stress: Stress, found: Sequence[Judged]) -> Standing | None:
    """Return the standing; None if the estimates are not those of the overview, or there is nothing to compare."""
    measured: dict[Subject, list[Measured]] = {}
    for one in stress.measured:
        if one.value == one.value:
            measured.setdefault(one.subject, []).append(one)
    groups: dict[Subject, list[Judged]] = {}
    for judged in found:
        groups.setdefault(Subject(judged.subject.network, judged.subject.detector), []).append(judged)
    means = {subject: sum(one.value for one in parts) / len(parts) for subject, parts in measured.items()}
    if len(means) < 2 or not means.keys() <= groups.keys():
        return None
    wholes = {subject: _whole(groups[subject]) for subject in means}
    if any(abs(wholes[subject].estimate.value - value) > ROUNDING for subject, value in means.items()):
        return None
    return _compared(wholes, max(means, key=means.__getitem__))


def _whole(found: Sequence[Judged]) -> _Whole:
    """Return the mean over outlier sets and seeds; of several tests of one set, such as inlier classes, their mean."""
    sets: dict[tuple[str, str], list[_Whole]] = {}
    for one in found:
        sets.setdefault((one.subject.seed, one.outliers), []).append(_Whole(one.estimate, one.images))
    return _mean([_mean(parts) for parts in sets.values()])


def _mean(parts: Sequence[_Whole]) -> _Whole:
    """Return the mean of estimates; the influences of images that several of them share are added."""
    images = tuple(dict.fromkeys(image for part in parts for image in part.images))
    starts = dict(zip(images, np.cumsum([0, *(count for _, count in images)]).tolist(), strict=False))
    total = sum(count for _, count in images)
    spread = [
        part.estimate.among(np.concatenate([starts[one] + np.arange(one[1]) for one in part.images]), total)
        for part in parts
    ]
    return _Whole(reduce(add, spread) / len(spread), images)


def _compared(wholes: dict[Subject, _Whole], best: Subject) -> Standing:
    pairs = list(combinations(wholes, 2))
    paired = [wholes[a].images == wholes[b].images for a, b in pairs]
    p_values = holm([_p_value(wholes[a], wholes[b]) for a, b in pairs])
    versus = {(a if b == best else b): float(p) for (a, b), p in zip(pairs, p_values, strict=True) if best in (a, b)}
    return Standing(best, versus, len(pairs), all(paired))


def _p_value(a: _Whole, b: _Whole) -> float:
    """Return the p-value of DeLong's paired test; for different images, which count as independent, of a z-test."""
    if a.images == b.images:
        return (a.estimate - b.estimate).difference().p_value
    error = hypot(_error(a.estimate), _error(b.estimate))
    return normal_comparison(a.estimate.value - b.estimate.value, error, TAIL).p_value


def _error(estimate: Estimate) -> float:
    """Return the standard error; if it cannot be estimated, one whose interval reaches as far as the exact one."""
    if estimate.error > 0:
        return estimate.error
    exact = estimate.share()
    return max(exact.high - estimate.value, estimate.value - exact.low) / NORMAL
