"""The tables of `evasion`: attack success, detection, transfer, attention; see also evasion_own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from farout.metrics.intervals import Interval
from farout.protocols.evasion.adaptive import BEFORE_BY, OWN, own_lines
from farout.protocols.evasion.figures import MADE_ON, OF, at_home, attention_figures, overview, under
from farout.protocols.evasion.levels import LEVELS, level_lines
from farout.protocols.evasion.measures import Line, detected, share
from farout.protocols.evasion.results import Evaded, Test
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
    Who,
)
from farout.report.content import INTERVAL, VALUE, Column, Shown, Summary, Table
from farout.study.results import Results, Row

TITLE = "Evasion"
ACCURACY = Column("accuracy", INTERVAL)
ASR, ASR_OF_CORRECT, ASR_8BIT, WRONG = (
    Column(name, INTERVAL, better="lower") for name in ("asr", "asr_of_correct", "asr_8bit", "wrong")
)
L2, LINF = Column("l2", VALUE), Column("linf", VALUE)
SHIFTS = (Column("l2", INTERVAL), Column("ssim", INTERVAL))
"""How attention maps differ: medians with quartiles."""


def summarize(results: Results, protocol: str) -> Summary:
    """What is there so far."""
    found = Evaded(results, protocol)
    detection = [line for test in found.tests() if not test.outlier_set for line in _detection(found, test)]
    own = own_lines(found)
    turned = [line for line in own if line[OUTLIERS]]
    attacks = [*found.rows("attack"), *(row for row in found.rows("own_attack") if not row.tags["outliers"])]
    told = _ROUNDED if found.rounded else _UNROUNDED
    tables = [
        *_made("evasion_auroc", "AUROC by attack", _GLANCE + told, _glance(detection, turned)),
        *_made(
            "evasion_success", "Attack success", _SUCCESS,
            _without_empty([_success(found, row) for row in attacks], DETECTOR),
        ),
        *_made("evasion", "Detection of attacked images", _DETECTION + told, _without_empty(detection, MADE_ON)),
        *_made(
            "evasion_adaptive", "Attacks on the detectors themselves", OWN + told,
            _without_empty(own, OUTLIERS, BEFORE_BY),
        ),
        *_made("evasion_transfer", "Transfer between networks", _TRANSFER + told, _transfer(found)),
        *_made("evasion_attention", "Attention", _ATTENTION + told, _attention(found)),
        *_made("evasion_levels", "Levels", LEVELS, level_lines(found, [*at_home(detection), *turned])),
    ]  # fmt: skip
    figures: list[Shown] = [*overview(detection, turned), *attention_figures(found)]
    return Summary(TITLE, tables, figures)


def _made(name: str, title: str, caption: str, lines: Sequence[Line]) -> list[Table]:
    return [Table(name, title, caption, lines)] if lines else []


def _without_empty(lines: Sequence[Line], *columns: Column) -> Sequence[Line]:
    """The lines without those of the columns that say nothing."""
    empty = {column for column in columns if not any(line[column] for line in lines)}
    return [{key: value for key, value in line.items() if key not in empty} for line in lines]


_GLANCE = (
    "AUROC of attacked images against the test images as they are; below .5 they look more normal. Attacks on the "
    "detector itself (adaptive ones; outliers by their set) are made against that detector alone, and on fewer images. "
    "In brackets 95 % intervals."
)
_SUCCESS = (
    "Of the attacked images: accuracy before; asr: classified wrong afterwards, whatever they were before (the public "
    "convention); asr_of_correct: of those classified right before; asr_8bit: of those, still wrong once rounded to 8 "
    "bits. l2: median length of the change where it made the classifier err; linf: the largest change of any pixel of "
    "any image. detector: that an adaptive attack fools too. In brackets 95 % intervals (Clopper-Pearson)."
)
_DETECTION = (
    "Attacked images as outliers against the test images as they are; below .5 they look more normal than these. of: "
    "all attacked images, or only the successful ones (the attacked network was right before, and is wrong after). "
    "Adaptive attacks are made against the detector that judges them. made_on: the attacked network, where the "
    "detector reads another one, or none and there are several. In brackets 95 % intervals, in which an image and its "
    "attacked copy count as one (AUROC: clustered DeLong, others: bootstrap)."
)
_TRANSFER = (
    "Of the images that both networks classify right, the share that an attack on one (made_on) makes the other "
    "(network) classify wrong. In brackets 95 % intervals (Clopper-Pearson)."
)
_ATTENTION = (
    "Grad-CAM maps of images before and after the attack, each scaled to [0, 1]: l2, the mean squared difference, and "
    "ssim; medians over the successful examples and over all images, with quartiles."
)
_UNROUNDED = " Attacked images are as the attack left them, before 8 bits (rounded: true shows them after)."
_ROUNDED = " Attacked images are shown rounded to 8 bits, and successful are those that still are after rounding."


def _glance(detection: Sequence[Line], turned: Sequence[Line]) -> list[Line]:
    """A line per detector, a column per attack; of all images, at home."""
    lines: dict[Who, Line] = {}
    for line in [*at_home(detection), *turned]:
        of = "attack on outliers" if line.get(OUTLIERS) else "attack"
        column = Column(under(line), INTERVAL, of=of, better="higher")
        lines.setdefault(Who.in_line(line), Who.in_line(line).line)[column] = line[AUROC]
    return list(lines.values())


def _success(found: Evaded, row: Row) -> Line:
    correct, success, rounded = (found.column(row, name) for name in ("clean_correct", "success", "success_8bit"))
    line: Line = {column: row.tags[column.name] for column in (NETWORK, SEED, ATTACK, DETECTOR)}
    line |= {IMAGES: len(correct), ACCURACY: share(correct), ASR: share(success)}
    line |= {ASR_OF_CORRECT: share(success[correct]), ASR_8BIT: share(rounded[correct])}
    turned = found.column(row, "l2")[success & correct]
    l2 = float(np.median(turned)) if len(turned) else float("nan")
    return line | {L2: l2, LINF: float(found.column(row, "linf").max())}


def _detection(found: Evaded, test: Test) -> Iterator[Line]:
    """A line for all attacked images and one for the successful ones."""
    plain = test.at_home and (test.who.network or len(found.attacked) < 2)
    about = {**test.who.line, ATTACK: test.attack, MADE_ON: "" if plain else test.made_on}
    everything = np.ones(len(test.outliers), bool)
    for of, chosen in (("all", everything), ("successful", test.successful)):
        if chosen.any():
            numbers = {N_INLIERS: len(test.inliers), N_OUTLIERS: int(chosen.sum())}
            yield {**about, OF: of, **numbers, **detected(test, chosen)}


def _transfer(found: Evaded) -> list[Line]:
    attacks = {_key(row): row for row in found.rows("attack")}
    lines = []
    for row in found.rows("prediction"):
        made, at_home = attacks.get(_key(row)), attacks.get((row.tags["seed"], row.tags["attack"], row.tags["network"]))
        if made and at_home:
            both = found.column(made, "clean_correct") & found.column(at_home, "clean_correct")
            wrong = found.column(row, "prediction") != found.column(row, "label")
            line: Line = {column: row.tags[column.name] for column in (SEED, ATTACK, MADE_ON, NETWORK)}
            lines.append({**line, IMAGES: int(both.sum()), WRONG: share(wrong[both])})
    return lines


def _key(row: Row) -> tuple[str, str, str]:
    return row.tags["seed"], row.tags["attack"], row.tags["made_on"]


def _attention(found: Evaded) -> list[Line]:
    lines = []
    for row in found.rows("attention"):
        turned = found.column(row, "clean_correct") & found.column(row, "success")
        line: Line = {column: row.tags[column.name] for column in (NETWORK, SEED, ATTACK)}
        for of, chosen in (("successful", turned), ("all", np.ones(len(turned), bool))):
            if chosen.any():
                figures = {column: _quartiles(found.column(row, column.name)[chosen]) for column in SHIFTS}
                lines.append({**line, OF: of, IMAGES: int(chosen.sum()), **figures})
    return lines


def _quartiles(values: NDArray[np.float64]) -> Interval:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Interval(float(middle), float(low), float(high))
