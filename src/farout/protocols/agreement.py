"""Agreement between stresses: which of them rank the detectors alike, and which few represent all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from farout.metrics import rank_agreements, representatives
from farout.metrics.agreement import FEWEST_RESAMPLED, Agreements, Representatives
from farout.report.content import (
    COUNT,
    INTERVAL,
    LABEL,
    VALUE,
    Column,
    HeatMap,
    Mean,
    Overview,
    Subject,
    Summary,
    Table,
)
from farout.report.content.numbers import listed, number

PANEL = "all detectors that took these tests"
TITLE = "Agreement: which stresses rank the detectors alike"
FEWEST_TESTS = 3
MOST_TESTS = 40
"""Largest number of tests that are shown by outlier set; of more, the means over a stress's sets."""
ENOUGH = 0.6
"""Mean tau from which on few tests are called nearly enough: four of five pairs of detectors are in the same order."""
CHOSEN = 3
"""Number of stresses that shall represent the others."""
FIRST, SECOND = (Column(name, LABEL) for name in ("test", "other_test"))
TAU, N = Column("tau", INTERVAL), Column("detectors", COUNT)
SIZE, CHOICE = Column("size", COUNT), Column("tests", LABEL)
MEAN_TAU, WORST_TAU, WORST = Column("mean_tau", VALUE), Column("lowest_tau", VALUE), Column("lowest_with", LABEL)
Tests = dict[str, dict[Subject, float]]


def agreement(overview: Overview) -> Summary | None:
    """Return tables and figures of the agreement, or the reason why there are none; None below two stresses."""
    if len(overview.conditions) < 2:
        return None
    tests = _tests(overview)
    subjects, used = _common(tests)
    if len(subjects) < FEWEST_RESAMPLED or len(used) < FEWEST_TESTS:
        return Summary(TITLE, sentences=[_refusal(tests)])
    values = np.array([[tests[name][subject] for subject in subjects] for name in used])
    found, best = rank_agreements(values), representatives(values, CHOSEN)
    out = [name for name in tests if name not in used]
    tables = [_pairs(used, found, len(subjects)), _representatives(used, best)]
    return Summary(
        TITLE, tables, [_map(used, found, len(subjects))], sentences=_sentences(used, found, best, subjects, out)
    )


def _tests(overview: Overview) -> Tests:
    """Return the AUROC by subject of every test: a stress and one of its outlier sets, or the mean if they are many."""
    tests: Tests = {}
    for condition in overview.conditions:
        sets = list(dict.fromkeys(one for mean in condition.means.values() for one in mean.sets))
        for one in sets:
            title = f"{condition.name}: {one}" if len(sets) > 1 else overview.name(condition)
            title = f"{title}, {condition.title}" if title in tests else title
            tests[title] = {
                subject: Mean(parts).value
                for subject, mean in condition.means.items()
                if (parts := [part for part in mean.parts if part.outliers == one])
            }
    if len(tests) <= MOST_TESTS:
        return tests
    return {
        overview.name(one): {subject: mean.value for subject, mean in one.means.items()} for one in overview.conditions
    }


def _common(tests: Tests) -> tuple[list[Subject], list[str]]:
    """Return the detectors and the tests that all of them took: as many tests as possible, with enough detectors."""
    groups = [list(by_subject) for by_subject in tests.values() if len(by_subject) >= FEWEST_RESAMPLED]
    candidates = [(group, [name for name, one in tests.items() if one.keys() >= set(group)]) for group in groups]
    return max(candidates, key=lambda one: (len(one[1]), len(one[0])), default=([], []))


def _refusal(tests: Tests) -> str:
    most = max(map(len, tests.values()), default=0)
    return (
        f"Not computed: it takes at least {FEWEST_TESTS} tests that the same {FEWEST_RESAMPLED} detectors took, since "
        f"an interval of the agreement of fewer rankings says nothing. Here {len(tests)} tests have at most {most} "
        "detectors each."
    )


def _sentences(
    used: Sequence[str], found: Agreements, best: Sequence[Representatives], subjects: Sequence[Subject], out: list[str]
) -> list[str]:
    few, one = best[-1], best[0]
    names, enough = listed([used[place] for place in few.chosen]), few.mean >= ENOUGH
    lines = [
        f"{len(used)} tests (a stress with one outlier set, or with the mean over its sets where there are many) were "
        f"taken by the same {len(subjects)} detectors. The "
        f"{len(few.chosen)} that represent the others best are {names}.",
        f"{'They are nearly enough' if enough else 'They are not enough'}: the order of the detectors by their mean "
        f"rank in these {len(few.chosen)} agrees with their order in the other tests with a mean Kendall's τ of "
        f"{number(few.mean)} (1: the same order, 0: no relation); lowest {number(few.worst)}, for "
        f"{used[few.worst_at]}. The best single test, {used[one.chosen[0]]}, reaches {number(one.mean)}. These tests "
        "are chosen and judged on the same detectors, so that the figures are somewhat optimistic.",
        *_extremes(used, found),
    ]
    if out:
        lines.append(f"{len(out)} other tests are left out, because not all of these detectors took them.")
    return lines


def _extremes(used: Sequence[str], found: Agreements) -> list[str]:
    """Return the pairs of tests with the highest and the lowest agreement as a sentence."""
    pairs = [(float(found.tau[i, j]), used[i], used[j]) for i in range(len(used)) for j in range(i)]
    known = sorted(pair for pair in pairs if pair[0] == pair[0])
    if not known:
        return []
    (low, a, b), (high, c, d) = known[0], known[-1]
    return [f"Most alike: {d} and {c} (τ {number(high)}). Least alike: {b} and {a} (τ {number(low)})."]


def _map(used: Sequence[str], found: Agreements, count: int) -> HeatMap:
    names = pd.Index(used, name="test")
    intervals = [
        [_interval(*map(float, cell)) for cell in zip(*rows, strict=True)]
        for rows in zip(found.low, found.high, strict=True)
    ]
    caption = (
        "Kendall's τ between the rankings of the detectors (by AUROC) in two tests: 1 the same order (blue), 0 no "
        "relation (white), −1 the reverse order (red). Neither is good or bad by itself: where τ is high, both tests "
        "say nearly the same of the detectors; where it is low, each says something of its own. "
        f"{count} detectors; point at a cell for its "
        "95 % interval (bootstrap over detectors)."
    )
    frame, about = pd.DataFrame(found.tau, names, list(used)), pd.DataFrame(intervals, names, list(used))
    return HeatMap("agreement", "Kendall's τ between the rankings in all pairs of tests", caption, {PANEL: frame},
                   "Kendall's τ, 0 is no relation", -1.0, {PANEL: about})  # fmt: skip


def _interval(low: float, high: float) -> str:
    return "" if low != low else f"95 % interval {number(low)} to {number(high)}"


def _pairs(used: Sequence[str], found: Agreements, count: int) -> Table:
    places = [(i, j) for i in range(len(used)) for j in range(i + 1, len(used))]
    places.sort(key=lambda pair: -np.nan_to_num(found.tau[pair], nan=-2))
    lines = [
        {FIRST: used[i], SECOND: used[j], TAU: (found.tau[i, j], found.low[i, j], found.high[i, j]), N: count}
        for i, j in places
    ]
    caption = (
        "Kendall's τ between the rankings of the detectors in two tests: 1 the same order, 0 no relation, −1 the "
        "reverse order; the most alike first. In brackets 95 % intervals (bootstrap over the detectors). Neither "
        "direction is good or bad by itself."
    )
    return Table("agreement", "Kendall's τ of every pair of tests", caption, lines)


def _representatives(used: Sequence[str], best: Sequence[Representatives]) -> Table:
    lines = [
        {
            SIZE: len(one.chosen), CHOICE: listed([used[place] for place in one.chosen]), MEAN_TAU: one.mean,
            WORST_TAU: one.worst, WORST: used[one.worst_at],
        }
        for one in best
    ]  # fmt: skip
    caption = (
        "The sets of tests that represent the others best: a detector's ranks in them are averaged, and the resulting "
        "order is compared with its order in every other test by Kendall's τ; higher is better. mean_tau: over the "
        "other tests, which the choice maximizes; lowest_tau: the test that is represented worst. They are chosen and "
        "judged on the same detectors, so that these figures are somewhat optimistic."
    )
    return Table("agreement_few", "Tests that represent the others best", caption, lines)
