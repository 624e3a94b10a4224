"""Table and bars of `cost`."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from farout.protocols.shared.columns import DETECTOR, NETWORK
from farout.protocols.shared.pairs import OWN
from farout.report.content import LABEL, VALUE, Bars, Column, Line, Subject, Summary, Table
from farout.study.cells.cost import BATCH, REPEATS
from farout.study.results import Results

TITLE = "Inference time: seconds that every detector takes"
SECONDS = Column("seconds", VALUE, better="lower")
WITHOUT_PASS = Column("seconds_without_pass", VALUE, better="lower")
DEVICE = Column("device", LABEL)


def summarize(results: Results, protocol: str) -> Summary:
    """Return the table and bars of the seconds that detectors take, the fastest first."""
    lines: list[dict[Column, Any]] = []
    for row in results.done(protocol):
        facts = results.store.facts(row.cell)
        line = {NETWORK: row.tags["network"], DETECTOR: row.tags["detector"], SECONDS: facts["per_10000"]}
        lines.append(line | {WITHOUT_PASS: facts["per_10000_without_pass"], DEVICE: facts["device"]})
    if not lines:
        return Summary(TITLE)
    lines.sort(key=lambda line: float(line[SECONDS]))
    devices = ", ".join(dict.fromkeys(str(line[DEVICE]) for line in lines))
    caption = (
        f"Seconds per 10,000 images of each detector alone, in batches of {BATCH}, on one thread of {devices}: the "
        f"fastest of {REPEATS} batches after a first one that is not counted. seconds_without_pass: without the "
        "forward pass that the post-hoc detectors of a network share, which is what a detector adds to a classifier "
        "that runs anyway. Lower is better. Times depend on the device and on what else runs on it."
    )
    costs = {Subject(line[NETWORK], line[DETECTOR]): float(line[SECONDS]) for line in lines}
    table = Table("cost", "Seconds per 10,000 images", caption, lines)
    return Summary(TITLE, [table], [_bars(lines, caption)], costs=costs)


def _bars(lines: Sequence[Line], caption: str) -> Bars:
    """Return a panel of bars per network, with and without the shared pass, on a logarithmic axis."""
    panels: dict[str, pd.DataFrame] = {}
    for network in dict.fromkeys(line[NETWORK] for line in lines):
        rows = [
            (line[DETECTOR], group, line[column], nan, nan)
            for column, group in ((SECONDS, "detector alone"), (WITHOUT_PASS, "without the shared forward pass"))
            for line in lines
            if line[NETWORK] == network and line[column] > 0
        ]
        panels[network or OWN] = pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])
    title, label = "Inference time by detector, shorter bars are better", "seconds per 10,000 images"
    return Bars("cost", title, f"{caption} The axis is logarithmic.", panels, label, chance=None, log=True)
