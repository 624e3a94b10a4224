"""Verdicts with robustness profiles, and the table of all detectors under all stresses."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from farout.report.charts import Palette
from farout.report.content import BEST, TIED, Condition, Mean, Overview, Subject
from farout.report.content.numbers import number, with_interval
from farout.report.content.verdicts import ABOVE, AT, BELOW, UNKNOWN, Verdict, verdicts
from farout.report.readable import LEARNED
from farout.report.shades import shade

KINDS = {BELOW: "below", AT: "at", ABOVE: "above", UNKNOWN: "at"}
LEVELS = {
    BELOW: "below chance in at least one condition",
    AT: "not distinguishable from chance in at least one condition",
    ABOVE: "above chance on average wherever it was tested",
    UNKNOWN: "without intervals",
}
SECONDS = "Seconds that the detector alone takes for 10,000 images on the device that the section names"
DAGGER = "‡"
"""Mark of the stresses that detectors are compared under without pairing."""
UNPAIRED = "; detectors are not compared image by image, because their images differ"
LISTED = 12
"""Largest number of outlier sets that a cell's text lists."""


def anchor(protocol: str) -> str:
    """Return the id of a protocol's section."""
    return f"protocol-{protocol}"


def verdict_views(overview: Overview, palette: Palette) -> list[dict[str, Any]]:
    """Return the verdicts with their profiles."""
    return [_verdict(overview, one, palette) for one in verdicts(overview)]


def _verdict(overview: Overview, verdict: Verdict, palette: Palette) -> dict[str, Any]:
    return {
        "label": verdict.label,
        "kind": KINDS[verdict.level],
        "level": f"{LEVELS[verdict.level]}; {_tested(overview, verdict.subject)}"
        + ("; learned from outliers too" if verdict.subject.detector in overview.extra_data else ""),
        "sentences": verdict.sentences,
        "color": palette.detector(verdict.subject.detector),
        "profile": [_point(overview, condition, mean) for condition, mean in overview.of(verdict.subject)],
    }


def _tested(overview: Overview, subject: Subject) -> str:
    """Return in how many of all conditions a detector was tested."""
    mine, every = len(overview.of(subject)), len(overview.conditions)
    return f"tested in {mine} of {every} conditions" if mine < every else f"tested in all conditions ({every})"


def _point(overview: Overview, condition: Condition, mean: Mean) -> dict[str, Any]:
    """Return one line of a profile; positions are in percent."""
    value, low, high = (100 * min(max(one, 0.0), 1.0) if one == one else 100 * mean.value for one in mean.interval)
    return {
        "name": overview.name(condition),
        "clean": condition.stress.clean,
        "text": f"AUROC {with_interval(*mean.interval)} {condition.stress.about}",
        "value": number(mean.value),
        "left": f"{value:.1f}",
        "low": f"{low:.1f}",
        "width": f"{high - low:.1f}",
    }


def matrix_view(overview: Overview, palette: Palette) -> dict[str, Any]:
    """Return the table of a row per detector and a column per stress."""
    groups = groupby(overview.conditions, key=lambda one: (one.protocol, one.title))
    costs = [("Inference time", anchor("cost"), 1)] if overview.costs else []
    seconds = [{"name": "s / 10,000 images", "about": SECONDS, "mark": "", "better": "lower"}] if overview.costs else []
    return {
        "caption": overview.table.caption,
        "groups": [(title, anchor(protocol), len(list(part))) for (protocol, title), part in groups] + costs,
        "columns": [
            {
                "name": one.name,
                "about": f"AUROC {one.stress.about}{UNPAIRED if one.unpaired else ''}",
                "mark": DAGGER if one.unpaired else "",
                "better": "higher",
            }
            for one in overview.conditions
        ]
        + seconds,
        "compared": _compared(overview),
        "rows": [
            {
                "label": overview.label(subject),
                "extra": subject.detector in overview.extra_data,
                "color": palette.detector(subject.detector),
                "cells": [
                    *(_cell(overview, condition, subject) for condition in overview.conditions),
                    *([_seconds(overview, subject)] if overview.costs else []),
                ],
            }
            for subject in overview.subjects
        ],
    }


def _seconds(overview: Overview, subject: Subject) -> dict[str, str] | None:
    cost = overview.costs.get(subject)
    return None if cost is None else {"plain": f"{cost:,.3g}"}


def _compared(overview: Overview) -> str:
    """Return how detectors are compared with the best of their column."""
    parts = [
        "Bold: the best of its column. Underlined: not distinguishable from the best on these images. Two detectors "
        "that scored the same images are compared image by image (DeLong's paired test of the difference of their "
        "AUROC), which detects far smaller differences than a look at whether two intervals overlap. The more pairs "
        "are tested, the more of them differ by luck; so each column's p-values are corrected for all its pairs of "
        "detectors (Holm): with a probability of at least 95 %, every detector of the column that is neither bold nor "
        "underlined is truly below the best."
    ]
    if any(one.unpaired for one in overview.conditions):
        parts.append(
            f"{DAGGER}: not paired image by image, since each detector got images of its own, such as worst cases "
            "found against it; they are compared as independent samples, and where the scores of each image are not "
            "known, by whether their intervals overlap."
        )
    if any(subject.detector in overview.extra_data for subject in overview.subjects):
        parts.append(LEARNED)
    return " ".join(parts)


def _cell(overview: Overview, condition: Condition, subject: Subject) -> dict[str, str] | None:
    if subject not in condition.means:
        return None
    mean = condition.means[subject]
    background, ink = shade(mean.value)
    return {
        "value": number(mean.value),
        "anchor": anchor(condition.protocol),
        "background": background,
        "ink": ink,
        "mark": _mark(condition, subject),
        "text": f"{overview.label(subject)}, {overview.name(condition)}. {_numbers(mean)}"
        f"{_versus(overview, condition, subject)}",
    }


def _mark(condition: Condition, subject: Subject) -> str:
    if len(condition.means) < 2:
        return ""
    return BEST if subject == condition.ranking[0] else TIED if condition.tied(subject) else ""


def _versus(overview: Overview, condition: Condition, subject: Subject) -> str:
    """Return the comparison with the best as a sentence; empty for the best itself."""
    standing = condition.stress.standing
    if standing is None or subject not in standing.p_values:
        return ""
    p = standing.p_values[subject]
    verdict = "Not distinguishable from" if condition.tied(subject) else "Significantly below"
    value = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
    return f" {verdict} the best, {overview.label(standing.best)} ({value}, corrected)."


def _numbers(mean: Mean) -> str:
    """Return AUROC, its interval, the numbers of images, and the AUROC of each of several outlier sets."""
    parts = [f"AUROC {number(mean.value)}, 95 % interval {number(mean.low)} to {number(mean.high)}"]
    if len(mean.parts) > 1:
        several = [f"{one.outliers} {number(one.value)}".strip() for one in mean.parts[:LISTED]]
        more = f" and {len(mean.parts) - LISTED} more" if len(mean.parts) > LISTED else ""
        parts.append(f"mean over {len(mean.parts)}: {', '.join(several)}{more}")
    elif mean.sets[0]:
        parts.append(f"outliers: {mean.sets[0]}")
    inliers, outliers = (_span([getattr(one, name) for one in mean.parts]) for name in ("n_inliers", "n_outliers"))
    counts = [f"{inliers} inliers"] if inliers else []
    counts += [f"{outliers} outliers{' each' if len(mean.parts) > 1 else ''}"] if outliers else []
    return "; ".join([*parts, *([" against ".join(counts)] if counts else [])]) + "."


def _span(counts: list[int]) -> str:
    known = sorted({count for count in counts if count})
    return "" if not known else f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"
