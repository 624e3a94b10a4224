"""The tables of `evasion`: attack success, detection, transfer, attacks on the detectors themselves, levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout import metrics
from farout.metrics.intervals import Interval, clopper_pearson_bounds
from farout.metrics.setups import copied_auroc
from farout.protocols.evasion_figures import at_home, attention_figures, overview, under
from farout.protocols.evasion_tests import Evaded, Test, Who
from farout.protocols.summary import Shown, Summary, Table
from farout.study.results import Results, Row

TITLE = "Evasion"
RESAMPLES = 200
"""Bootstrap resamples per interval."""
BOOTSTRAPPED = {
    "fpr_at_95_id_recall": metrics.fpr_at_95_id_recall,
    "fpr_at_95_ood_recall": metrics.fpr_at_95_ood_recall,
}
Line = dict[str, Any]


def summarise(results: Results, protocol: str) -> Summary:
    """What is there so far."""
    found = Evaded(results, protocol)
    detection = [line for test in found.tests("attacked") for line in _detection(found, test)]
    own = [line for test in found.tests("own_attacked") for line in _own(found, test)]
    tables = [
        *_made("evasion_auroc", "AUROC at a glance", _GLANCE, _glance(detection, own)),
        *_made("evasion_success", "Attack success", _SUCCESS, [_success(found, row) for row in found.rows("attack")]),
        *_made("evasion", "Detection of attacked images", _DETECTION, _without_empty(detection, "made_on")),
        *_made("evasion_adaptive", "Attacks on the detectors themselves", _OWN, _without_empty(own, "outliers")),
        *_made("evasion_transfer", "Transfer between networks", _TRANSFER, _transfer(found)),
        *_made("evasion_attention", "Attention", _ATTENTION, _attention(found)),
        *_made("evasion_levels", "Levels", _LEVELS, _levels(detection, own)),
    ]
    figures: list[Shown] = [*overview(detection, own), *attention_figures(found)]
    return Summary(TITLE, tables, figures)


def _made(name: str, title: str, caption: str, lines: Sequence[Line]) -> list[Table]:
    return [Table(name, title, caption, pd.DataFrame(lines))] if lines else []


def _without_empty(lines: Sequence[Line], name: str) -> Sequence[Line]:
    """The lines without a column that says nothing."""
    if any(line[name] for line in lines):
        return lines
    return [{key: value for key, value in line.items() if key != name} for line in lines]


_GLANCE = (
    "AUROC of attacked images against the test images as they are; below .5 they look more normal. Attacks on the "
    "detector itself (adaptive ones; outliers by their set) are made against that detector alone. In brackets 95 % "
    "intervals."
)
_SUCCESS = (
    "Of the attacked images: accuracy before; asr: classified wrong afterwards, whatever they were before (the public "
    "convention); asr_of_correct: of those classified right before; asr_8bit: of those, still wrong once rounded to 8 "
    "bits. l2: median length of the change where it made the classifier err; linf: the largest change of any pixel of "
    "any image. In brackets 95 % intervals (Clopper-Pearson)."
)
_DETECTION = (
    "Attacked images as outliers against the test images as they are; below .5 they look more normal than these. of: "
    "all attacked images, or only the successful ones (the attacked network was right before, and is wrong after). "
    "made_on: that network, where the detector reads another one, or none and there are several. In brackets 95 % "
    "intervals (AUROC: an image and its attacked copy count as one; others: bootstrap)."
)
_OWN = (
    "Attacks that know the detector, each made against the one that judges it. Test images that shall be misclassified "
    "and look normal: auroc against the test images as they are, of all attacked images and of the successful ones; "
    "before: the same images under an attack on the classifier alone (pgd, or the first). success: wrong afterwards of "
    "those right before. Outliers that shall look normal: AUROC before and after; success: the score is lower. "
    "gradient: of the score itself, or estimated from queries where it has none. In brackets 95 % intervals."
)
_TRANSFER = (
    "Of the images that both networks classify right, the share that an attack on one (made_on) makes the other "
    "(network) classify wrong. In brackets 95 % intervals (Clopper-Pearson)."
)
_ATTENTION = (
    "Grad-CAM maps of images before and after the attack, each scaled to [0, 1]: l2, the mean squared difference, and "
    "ssim; medians over the successful examples and over all images, with quartiles."
)
_LEVELS = (
    "How far up the roadmap every detector was tested: 1 strong attacks on the classifier, 2 on several networks, 4 on "
    "the detector itself (non-differentiable parts are passed by a stand-in, so 4 includes 3); and the lowest AUROC "
    "that any of these attacks led to."
)


def _glance(detection: Sequence[Line], own: Sequence[Line]) -> list[Line]:
    """A line per detector, a column per attack; of all images, at home."""
    lines: dict[Who, Line] = {}
    for line in [*at_home(detection), *own]:
        column = under(line)
        found = Interval(line["auroc"], line["auroc_low"], line["auroc_high"])
        lines.setdefault(_who(line), _who(line)._asdict()).update(_bounds(column, found))
    return list(lines.values())


def _share(hits: NDArray[np.bool_]) -> Interval:
    """A share with its exact interval; NaN of nothing."""
    if not len(hits):
        return Interval(*[float("nan")] * 3)
    return Interval(float(hits.mean()), *clopper_pearson_bounds(float(hits.mean()), len(hits), 0.025))


def _bounds(name: str, found: Interval) -> Line:
    """A figure with its interval as three columns."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _success(found: Evaded, row: Row) -> Line:
    correct, success, rounded = (found.column(row, name) for name in ("clean_correct", "success", "success_8bit"))
    line: Line = {"network": row.tags["network"], "seed": row.tags["seed"], "attack": row.tags["attack"]}
    line |= {"images": len(correct), **_bounds("accuracy", _share(correct)), **_bounds("asr", _share(success))}
    line |= _bounds("asr_of_correct", _share(success[correct])) | _bounds("asr_8bit", _share(rounded[correct]))
    turned = found.column(row, "l2")[success & correct]
    l2 = float(np.median(turned)) if len(turned) else float("nan")
    return line | {"l2": l2, "linf": float(found.column(row, "linf").max())}


def _detection(found: Evaded, test: Test) -> Iterator[Line]:
    """A line for all attacked images and one for the successful ones."""
    plain = test.at_home and (test.who.network or len(found.attacked) < 2)
    about = {**test.who._asdict(), "attack": test.attack, "made_on": "" if plain else test.made_on}
    everything = np.ones(len(test.outliers), bool)
    for of, chosen in (("all", everything), ("successful", test.successful)):
        if chosen.any():
            yield {**about, "of": of, "n_outliers": int(chosen.sum()), **_figures(test, chosen)}


def _figures(test: Test, chosen: NDArray[np.bool_]) -> Line:
    outliers = test.outliers[chosen]
    line = _bounds("auroc", copied_auroc(test.inliers, outliers, test.places[chosen]).share())
    others = metrics.bootstrap_intervals(BOOTSTRAPPED, test.inliers, outliers, resamples=RESAMPLES)
    for name, interval in others.items():
        line |= _bounds(name, interval)
    return line


def _own(found: Evaded, test: Test) -> Iterator[Line]:
    about: Line = {**test.who._asdict(), "attack": test.attack, "outliers": test.row.tags["outliers"]}
    estimated = np.asarray(found.results.attribute(test.row, "estimated")).any()
    about |= {"images": len(test.outliers), "gradient": "estimated" if estimated else "own"}
    success = np.asarray(found.results.attribute(test.row, "success"))
    if about["outliers"]:
        before = next((row for row in found.rows("outliers") if _same(row, test.row)), None)
        if before is None:
            return
        was = metrics.auroc_interval(test.inliers, found.results.scores(before))
        now = metrics.auroc_interval(test.inliers, test.outliers)
        yield about | _bounds("success", _share(success)) | _bounds("before", was) | _bounds("auroc", now)
        return
    correct = np.asarray(found.results.attribute(test.row, "clean_correct"))
    line = about | _bounds("success", _share(success[correct]))
    if usual := _usual(found, test):
        same = test.within(len(usual.outliers))
        line |= _bounds("before", copied_auroc(usual.inliers, usual.outliers[same], usual.places[same]).share())
    line |= _bounds("auroc", copied_auroc(test.inliers, test.outliers, test.places).share())
    if test.successful.any():
        chosen = test.successful
        told = copied_auroc(test.inliers, test.outliers[chosen], test.places[chosen]).share()
        line |= _bounds("auroc_successful", told)
    yield line


def _same(row: Row, other: Row) -> bool:
    return Who.of(row) == Who.of(other) and row.tags["outliers"] == other.tags["outliers"]


def _usual(found: Evaded, test: Test) -> Test | None:
    """The same detector under the attack on the classifier alone: pgd, or the first there is."""
    tests = [one for one in found.tests("attacked") if one.who == test.who and one.at_home]
    return next((one for one in tests if one.attack == "pgd"), tests[0] if tests else None)


def _transfer(found: Evaded) -> list[Line]:
    attacks = {_key(row): row for row in found.rows("attack")}
    lines = []
    for row in found.rows("prediction"):
        made, at_home = attacks.get(_key(row)), attacks.get((row.tags["seed"], row.tags["attack"], row.tags["network"]))
        if made and at_home:
            both = found.column(made, "clean_correct") & found.column(at_home, "clean_correct")
            wrong = found.column(row, "prediction") != found.column(row, "label")
            line: Line = {"seed": row.tags["seed"], "attack": row.tags["attack"], "made_on": row.tags["made_on"]}
            line |= {"network": row.tags["network"], "images": int(both.sum()), **_bounds("wrong", _share(wrong[both]))}
            lines.append(line)
    return lines


def _key(row: Row) -> tuple[str, str, str]:
    return row.tags["seed"], row.tags["attack"], row.tags["made_on"]


def _attention(found: Evaded) -> list[Line]:
    lines = []
    for row in found.rows("attention"):
        turned = found.column(row, "clean_correct") & found.column(row, "success")
        line: Line = {"network": row.tags["network"], "seed": row.tags["seed"], "attack": row.tags["attack"]}
        for of, chosen in (("successful", turned), ("all", np.ones(len(turned), bool))):
            if chosen.any():
                figures = {name: _quartiles(found.column(row, name)[chosen]) for name in ("l2", "ssim")}
                lines.append({**line, "of": of, "images": int(chosen.sum()), **_columns(figures)})
    return lines


def _columns(figures: dict[str, Interval]) -> Line:
    return {key: value for name, interval in figures.items() for key, value in _bounds(name, interval).items()}


def _quartiles(values: NDArray[np.float64]) -> Interval:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Interval(float(middle), float(low), float(high))


def _levels(detection: Sequence[Line], own: Sequence[Line]) -> list[Line]:
    """A line per detector of every seed."""
    usual = at_home(detection)
    read: dict[tuple[str, str], set[str]] = {}
    for line in usual:
        read.setdefault((line["seed"], line["detector"]), set()).add(line["made_on"] or line["network"])
    lines = []
    for who in dict.fromkeys(_who(line) for line in [*usual, *own]):
        adaptive = any(_who(line) == who for line in own)
        level = 4 if adaptive else 2 if len(read[who.seed, who.detector]) > 1 else 1
        worst = min((line for line in [*own, *usual] if _who(line) == who), key=lambda line: line["auroc"])
        lines.append({**who._asdict(), "level": level, "lowest_auroc": worst["auroc"], "under": under(worst)})
    return lines


def _who(line: Mapping[str, Any]) -> Who:
    return Who(line["network"], line["seed"], line["detector"])
