"""Verdicts with robustness profiles, and the table of all detectors under all stresses."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from farout.report.charts import Palette
from farout.report.content import BEST, TIED, Condition, Mean, Overview, Subject
from farout.report.content.numbers import number, with_interval
from farout.report.content.verdicts import ABOVE, AT, BELOW, UNKNOWN, Verdict, verdicts
from farout.report.shades import shade

KINDS = {BELOW: "below", AT: "at", ABOVE: "above", UNKNOWN: "at"}
LEVELS = {
    BELOW: "below chance in at least one condition",
    AT: "not distinguishable from chance in at least one condition",
    ABOVE: "above chance on average in every condition tested",
    UNKNOWN: "without intervals",
}
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
        "level": LEVELS[verdict.level],
        "sentences": verdict.sentences,
        "color": palette.detector(verdict.subject.detector),
        "profile": [_point(overview, condition, mean) for condition, mean in overview.of(verdict.subject)],
    }


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
    return {
        "caption": overview.table.caption,
        "groups": [(title, anchor(protocol), len(list(part))) for (protocol, title), part in groups],
        "columns": [{"name": one.name, "about": f"AUROC {one.stress.about}"} for one in overview.conditions],
        "rows": [
            {
                "label": overview.label(subject),
                "color": palette.detector(subject.detector),
                "cells": [_cell(overview, condition, subject) for condition in overview.conditions],
            }
            for subject in overview.subjects
        ],
    }


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
        "mark": _mark(condition, mean),
        "text": f"{overview.label(subject)}, {overview.name(condition)}. {_numbers(mean)}",
    }


def _mark(condition: Condition, mean: Mean) -> str:
    best = max(condition.means.values(), key=lambda one: one.value)
    if len(condition.means) < 2:
        return ""
    return BEST if mean is best else TIED if mean.high >= best.low else ""


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
