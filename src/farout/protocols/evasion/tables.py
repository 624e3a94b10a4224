"""Tables of `evasion`: attack success, detection, transfer and attention; `adaptive` and `levels` have the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.metrics.intervals import Interval
from farout.protocols.evasion.adaptive import BEFORE_BY, OWN, own_lines
from farout.protocols.evasion.figures import MADE_ON, OF, at_home, attention_figures, overview, stress_name, under
from farout.protocols.evasion.levels import LEVELS, level_lines
from farout.protocols.evasion.measures import Line, detection_measures, fraction
from farout.protocols.evasion.results import EvasionResults, Test
from farout.protocols.shared.columns import (
    ATTACK,
    AUROC,
    DETECTOR,
    IMAGES,
    N_INLIERS,
    N_OUTLIERS,
    NETWORK,
    OUTLIERS,
    SEED,
    SubjectKey,
)
from farout.protocols.shared.stresses import stress
from farout.protocols.shared.threads import in_threads
from farout.report.content import INTERVAL, VALUE, Column, Shown, Stress, Summary, Table
from farout.study.results import Results, Row

TITLE = "Evasion: adversarial examples against classifiers and detectors"
ACCURACY = Column("accuracy", INTERVAL)
ASR, ASR_OF_CORRECT, ASR_8BIT, WRONG = (
    Column(name, INTERVAL, better="lower") for name in ("asr", "asr_of_correct", "asr_8bit", "wrong")
)
L2, LINF = Column("l2", VALUE), Column("linf", VALUE)
SHIFTS = (Column("l2", INTERVAL), Column("ssim", INTERVAL))
"""Columns of the change of attention maps: medians with quartiles."""


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    found = EvasionResults(results, protocol)
    tests = [test for test in found.tests() if not test.outlier_set]
    detection = [line for part in in_threads(lambda test: list(_detection(found, test)), tests) for line in part]
    own = own_lines(found)
    disguised = [line for line in own if line[OUTLIERS]]
    attacks = [*found.rows("attack"), *(row for row in found.rows("own_attack") if not row.tags["outliers"])]
    rounding = _ROUNDED if found.rounded else _UNROUNDED
    tables = [
        *_table("evasion_auroc", "AUROC by attack", _GLANCE + rounding, _glance(detection, disguised)),
        *_table(
            "evasion_success", "Success of the attacks on the classifier", _SUCCESS,
            _without_empty([_success(found, row) for row in attacks], DETECTOR),
        ),
        *_table("evasion", "Detection of attacked images", _DETECTION + rounding, _without_empty(detection, MADE_ON)),
        *_table(
            "evasion_adaptive", "Attacks on the detectors themselves", OWN + rounding,
            _without_empty(own, OUTLIERS, BEFORE_BY),
        ),
        *_table("evasion_transfer", "Transfer of attacks between networks", _TRANSFER + rounding, _transfer(found)),
        *_table("evasion_attention", "Change of attention under attack", _ATTENTION + rounding, _attention(found)),
        *_table(
            "evasion_levels", "Levels of attack that were tried", LEVELS,
            level_lines(found, [*at_home(detection), *disguised]),
        ),
    ]  # fmt: skip
    figures: list[Shown] = [*overview(detection, disguised), *attention_figures(found)]
    return Summary(TITLE, tables, figures, _stresses([*at_home(detection), *disguised]))


def _stresses(lines: Sequence[Mapping[Column, Any]]) -> list[Stress]:
    """Return every attack as a stress."""
    attacks: dict[str, list[Mapping[Column, Any]]] = {}
    for line in lines:
        attacks.setdefault(stress_name(line), []).append({N_OUTLIERS: line.get(IMAGES, 0), **line})
    about = "of images that the attack changed against unchanged test images"
    return [one for name, part in attacks.items() for one in stress(name, about, part)]


def _table(name: str, title: str, caption: str, lines: Sequence[Line]) -> list[Table]:
    """Return the table; an empty list if it has no lines."""
    return [Table(name, title, caption, lines)] if lines else []


def _without_empty(lines: Sequence[Line], *columns: Column) -> Sequence[Line]:
    """Return the lines without those of the columns that are empty in all lines."""
    empty = {column for column in columns if not any(line[column] for line in lines)}
    return [{key: value for key, value in line.items() if key not in empty} for line in lines]


_GLANCE = (
    "AUROC of attacked images against the unchanged test images, a column per attack. Higher is better: 1 is ideal, "
    "0.5 is chance; below 0.5 attacked images look more normal to the detector. Attacks on the detector itself "
    "(adaptive ones, and those on outliers, named with their set) are made against the detector of the line, and on "
    "fewer images. Numbers of images: see the tables below. In brackets 95 % intervals."
)
_SUCCESS = (
    "How often each attack makes the classifier err; images: number of attacked images. accuracy: fraction classified "
    "correctly before the attack. Attack success rates, lower is better for the classifier: asr: fraction "
    "misclassified after the attack, whatever they were before (the public convention); asr_of_correct: the same, of "
    "the images classified correctly before; asr_8bit: of these, still misclassified after rounding to 8 bits. l2: "
    "median L2 norm of the change of successful examples; linf: the largest change of any pixel of any image; pixel "
    "values are in [0, 1]. detector: the one that an adaptive attack also fools. In brackets 95 % intervals "
    "(Clopper-Pearson)."
)
_DETECTION = (
    "Detection of attacked images (n_outliers) among the unchanged test images (n_inliers). auroc: higher is better, 1 "
    "is ideal, 0.5 is chance; below 0.5 attacked images look more normal than unchanged ones. False positive rates, "
    "lower is better: fpr_at_95_id_recall: fraction of attacked images accepted at the threshold that accepts 95 % of "
    "test images; fpr_at_95_ood_recall: fraction of test images flagged at the threshold that flags 95 % of attacked "
    "images. of: all attacked images, or only the successful ones (the attacked network classified them correctly "
    "before, and not after). Adaptive attacks are made against the detector that scores them. made_on: the attacked "
    "network, named if the detector reads another one, or if it reads none and there are several. In brackets 95 % "
    "intervals, in which an image and its attacked copy count as one cluster (AUROC: clustered DeLong; others: "
    "bootstrap)."
)
_TRANSFER = (
    "wrong: of the images that both networks classify correctly (images: how many), the fraction that an attack made "
    "on one network (made_on) causes the other (network) to misclassify; lower is better. In brackets 95 % intervals "
    "(Clopper-Pearson)."
)
_ATTENTION = (
    "Change of the network's attention: Grad-CAM maps of images before and after the attack, each scaled to [0, 1]. "
    "l2: the mean squared difference of the two maps (0: no change); ssim: their structural similarity (1: no change). "
    "Medians over the successful examples or over all images (of; images: how many), in brackets the quartiles. "
    "Neither direction is good or bad by itself."
)
_UNROUNDED = " Attacked images are not rounded to 8 bits (rounded: true does so)."
_ROUNDED = " Attacked images are rounded to 8 bits; successful are those that still are after rounding."


def _glance(detection: Sequence[Line], disguised: Sequence[Line]) -> list[Line]:
    """Return a line per detector with a column per attack on its network or on itself; of all images."""
    lines: dict[SubjectKey, Line] = {}
    for line in [*at_home(detection), *disguised]:
        of = "attack on outliers" if line.get(OUTLIERS) else "attack"
        column = Column(under(line), INTERVAL, of=of, better="higher")
        lines.setdefault(SubjectKey.in_line(line), SubjectKey.in_line(line).line)[column] = line[AUROC]
    return list(lines.values())


def _success(found: EvasionResults, row: Row) -> Line:
    correct, success, rounded = (found.column(row, name) for name in ("clean_correct", "success", "success_8bit"))
    line: Line = {column: row.tags[column.name] for column in (NETWORK, SEED, ATTACK, DETECTOR)}
    line |= {IMAGES: len(correct), ACCURACY: fraction(correct), ASR: fraction(success)}
    line |= {ASR_OF_CORRECT: fraction(success[correct]), ASR_8BIT: fraction(rounded[correct])}
    lengths = found.column(row, "l2")[success & correct]
    l2 = float(np.median(lengths)) if len(lengths) else float("nan")
    return line | {L2: l2, LINF: float(found.column(row, "linf").max())}


def _detection(found: EvasionResults, test: Test) -> Iterator[Line]:
    """Yield a line for all attacked images and one for the successful ones."""
    about = {**test.subject.line, ATTACK: test.attack, MADE_ON: "" if found.plain(test) else test.made_on}
    everything = np.ones(len(test.outliers), bool)
    for of, selected in (("all", everything), ("successful", test.successful)):
        if selected.any():
            numbers = {N_INLIERS: len(test.inliers), N_OUTLIERS: int(selected.sum())}
            yield {**about, OF: of, **numbers, **detection_measures(test, selected)}


def _transfer(found: EvasionResults) -> list[Line]:
    attacks = {_key(row): row for row in found.rows("attack")}
    lines = []
    for row in found.rows("prediction"):
        source, at_home = (
            attacks.get(_key(row)),
            attacks.get((row.tags["seed"], row.tags["attack"], row.tags["network"])),
        )
        if source and at_home:
            both = found.column(source, "clean_correct") & found.column(at_home, "clean_correct")
            wrong = found.column(row, "prediction") != found.column(row, "label")
            line: Line = {column: row.tags[column.name] for column in (SEED, ATTACK, MADE_ON, NETWORK)}
            lines.append({**line, IMAGES: int(both.sum()), WRONG: fraction(wrong[both])})
    return lines


def _key(row: Row) -> tuple[str, str, str]:
    return row.tags["seed"], row.tags["attack"], row.tags["made_on"]


def _attention(found: EvasionResults) -> list[Line]:
    lines = []
    for row in found.rows("attention"):
        successful = found.column(row, "clean_correct") & found.column(row, "success")
        line: Line = {column: row.tags[column.name] for column in (NETWORK, SEED, ATTACK)}
        for of, selected in (("successful", successful), ("all", np.ones(len(successful), bool))):
            if selected.any():
                figures = {column: _quartiles(found.column(row, column.name)[selected]) for column in SHIFTS}
                lines.append({**line, OF: of, IMAGES: int(selected.sum()), **figures})
    return lines


def _quartiles(values: NDArray[np.float64]) -> Interval:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Interval(float(middle), float(low), float(high))
