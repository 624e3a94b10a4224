"""Levels of the paper's roadmap in `evasion`: how hard every detector was attacked, and with how much effort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan

import numpy as np

from farout.protocols.evasion.figures import under
from farout.protocols.evasion.measures import Line
from farout.protocols.evasion.results import EvasionResults, Test
from farout.protocols.shared.columns import ATTACK, AUROC, OUTLIERS, SubjectKey
from farout.report.content import LABEL, VALUE, Column
from farout.report.content import Line as AnyLine

ASKS = {
    0: "a weak attack on the classifier",
    1: "strong attacks on the classifier",
    2: "strong attacks on several networks",
    3: "gradients that a detector hides are passed or estimated (BPDA)",
    4: "attacks on the detector itself",
}
"""Requirements of each level; 0 is not on the paper's roadmap."""
REACHED, TRIED, NOT_TRIED = "reached", "tried", "not tried"
LEVEL, ASKED, STATUS, ATTACKS, UNDER = (Column(name, LABEL) for name in ("level", "asks", "status", "attacks", "under"))
EFFORT = {name: Column(name, LABEL) for name in ("images", "steps")}
GRADIENT = Column("gradient", LABEL)
LOWEST_AUROC = Column("lowest_auroc", VALUE, better="higher")
LEVELS = (
    "How hard every detector was attacked, by the levels of the paper's roadmap (asks: what a level requires). status: "
    "a level is reached if an attack had the effort that the paper, or for levels 3 and 4 our full budget, requires: "
    "all test images for attacks on the classifier, 1,000 images for attacks on the detector, and all steps of the "
    "attack; with fewer images or steps it is only tried. images and steps: how many of how many, for the attack with "
    "the largest effort. gradient (levels 3 and 4): the gradient that attacks on the detector follow: its own, which "
    "passes constant parts unchanged (BPDA), or one estimated from queries. A level that is reached does not mean that "
    "the detector withstood it: lowest_auroc is the lowest AUROC under the level's attacks (under: which one). Higher "
    "is better: 1 is ideal, 0.5 is chance; below 0.5 attacked images look more normal than test images."
)


def level_lines(found: EvasionResults, lines: Sequence[AnyLine]) -> list[Line]:
    """Return a line per detector, seed and level; `lines` have the AUROC of detectors under attacks on them."""
    by_subject: dict[SubjectKey, list[Test]] = {}
    for test in found.tests():
        if test.at_home:
            by_subject.setdefault(test.subject, []).append(test)
    levels: list[Line] = []
    for subject, tests in by_subject.items():
        mine = [line for line in lines if SubjectKey.in_line(line) == subject]
        levels += (_line(found, subject, level, part, mine) for level, part in _levels(subject, tests, by_subject))
    return levels


def _levels(
    subject: SubjectKey, tests: Sequence[Test], by_subject: Mapping[SubjectKey, Sequence[Test]]
) -> Iterator[tuple[int, list[Test]]]:
    """Yield the levels with the tests that count for each; level 0 only if it was tried."""
    weak = [test for test in tests if not test.level]
    strong = [test for test in tests if test.level and not _own(test)]
    if weak:
        yield 0, weak
    yield 1, strong
    others = [one for other, part in by_subject.items() if other[1:] == subject[1:] for one in part if one.level]
    networks = {test.made_on for test in others if not _own(test)}
    yield 2, strong if len(networks) > 1 else []
    for level in (3, 4):
        yield level, [test for test in tests if _own(test) and test.level >= level]


def _own(test: Test) -> bool:
    return test.row.tags["role"] == "own_attacked"


def _line(
    found: EvasionResults, subject: SubjectKey, level: int, tests: Sequence[Test], lines: Sequence[AnyLine]
) -> Line:
    line: Line = {**subject.line, LEVEL: level, ASKED: ASKS[level], STATUS: NOT_TRIED, ATTACKS: ""}
    line |= {**dict.fromkeys(EFFORT.values(), ""), GRADIENT: "", LOWEST_AUROC: nan, UNDER: ""}
    if not tests:
        return line
    most = max(tests, key=lambda test: (test.whole, len(test.outliers)))
    line |= {STATUS: REACHED if most.whole else TRIED, ATTACKS: ", ".join(dict.fromkeys(t.attack for t in tests))}
    line |= {column: _of(most, name) for name, column in EFFORT.items()}
    if level >= 3:
        line[GRADIENT] = ", ".join(dict.fromkeys(gradient(found, test) for test in tests))
    attacks = {(test.attack, test.outlier_set) for test in tests}
    mine = [one for one in lines if (one[ATTACK], one.get(OUTLIERS, "")) in attacks]
    if mine:
        worst = min(mine, key=lambda one: one[AUROC].value)
        line |= {LOWEST_AUROC: worst[AUROC].value, UNDER: under(worst)}
    return line


def _of(test: Test, name: str) -> str:
    done, asked = test.row.tags[name], test.row.tags[f"of_{name}"]
    return f"{int(done):,} of {int(asked):,}" if asked else ""


def gradient(found: EvasionResults, test: Test) -> str:
    """Return the kind of gradient that an attack on the detector follows: "own" or "estimated"."""
    return "estimated" if np.asarray(found.results.attribute(test.row, "estimated")).any() else "own"
