"""Rank agreement: whether generated sets order networks and detectors as other sets do (the second observation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from farout.metrics.agreement import FEWEST, FEWEST_RESAMPLED, rank_agreement
from farout.protocols.raised_bar.detection import GENERATED, KIND
from farout.protocols.raised_bar.entries import CONVENTIONAL
from farout.protocols.raised_bar.results import UNDERTRAINED
from farout.protocols.shared.columns import AUROC, DETECTOR, NETWORK, OUTLIERS
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Line, Table

SET, OTHER, MEASURE, ITEMS = (Column(name, LABEL) for name in ("set", "compared_with", "measure", "items"))
N = Column("n", COUNT)
KENDALL, SPEARMAN = (Column(name, INTERVAL) for name in ("kendall", "spearman"))
P_VALUE = Column("p_value", VALUE, powers=True)
Values = Mapping[str, Mapping[Any, float]]
"""Value of every item, by image set."""


def ranks(detection: Sequence[Line], calibration: Values, shifted: Sequence[str], corrupted: str) -> list[Table]:
    """Return the table of rank agreement, without undertrained sets; empty if there are too few items.

    calibration: ECE of every network on the sets `shifted`, and on `corrupted`, which stands for all corruptions.
    """
    lines = [*_detection(detection), *_calibration(calibration, shifted, corrupted)]
    if not lines:
        return []
    caption = (
        "Agreement of the order of networks and detectors on a generated set with their order on another set: 1 is the "
        "same order, 0 is no relation, −1 is the reverse; a generated set that orders them as real ones do can stand "
        "for them. items: the things that are ordered, n of them, each by its mean over seeds. kendall: Kendall's "
        "tau-b, spearman: Spearman's rho, in brackets 95 % intervals (bootstrap over the n items); there is none for "
        f"fewer than {FEWEST_RESAMPLED} items, nor for exactly the same or the reverse order: resamples of so few "
        "items, or of a perfect order, repeat the value and say nothing about other items. p_value: of Kendall's tau, "
        "if the orders were unrelated (exact for few items without ties); with 3 items it is never below 0.33. auroc: "
        "higher is better; ece: lower is better, so that both orders are those of the networks' calibration. "
        "Undertrained sets, Shifted sets that have lost their labels (see the sanity check), and plain samples of a "
        "generator are left out."
    )
    return [Table("raised_bar_ranks", "Rank agreement of generated sets with others", caption, lines)]


def _detection(lines: Sequence[Line]) -> Iterator[Line]:
    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    kinds = {line[OUTLIERS]: line[KIND] for line in lines if not line[OUTLIERS].endswith(UNDERTRAINED)}
    for line in lines:
        values.setdefault(line[OUTLIERS], {}).setdefault((line[NETWORK], line[DETECTOR]), []).append(line[AUROC][0])
    means = {name: {key: float(np.mean(found)) for key, found in items.items()} for name, items in values.items()}
    detectors = dict.fromkeys(line[DETECTOR] for line in lines)
    for near in (name for name, kind in kinds.items() if kind == GENERATED):
        for other in (name for name, kind in kinds.items() if kind == CONVENTIONAL):
            shared = [key for key in means[near] if key in means[other]]
            yield from _line(near, other, "auroc", "networks × detectors", means, shared)
            for detector in detectors if len(detectors) > 1 else ():
                own = [key for key in shared if key[1] == detector]
                yield from _line(near, other, "auroc", f"networks, by {detector}", means, own)


def _calibration(values: Values, shifted: Sequence[str], corrupted: str) -> Iterator[Line]:
    for name in shifted:
        shared = [key for key in values.get(name, {}) if key in values.get(corrupted, {})]
        yield from _line(name, corrupted, "ece", "networks", values, shared)


def _line(name: str, other: str, measure: str, items: str, values: Values, keys: Sequence[Any]) -> Iterator[Line]:
    """Yield the line of two sets; nothing if there are too few items."""
    if len(keys) < FEWEST:
        return
    found = rank_agreement([values[name][key] for key in keys], [values[other][key] for key in keys])
    yield {
        SET: name,
        OTHER: other,
        MEASURE: measure,
        ITEMS: items,
        N: found.n,
        KENDALL: found.kendall,
        SPEARMAN: found.spearman,
        P_VALUE: found.p_value,
    }
