"""Table of `cost`."""

from __future__ import annotations

from farout.protocols.shared.columns import DETECTOR, NETWORK
from farout.report.content import LABEL, VALUE, Column, Summary, Table
from farout.study.cells.cost import BATCH, REPEATS
from farout.study.results import Results

SECONDS = Column("seconds", VALUE, better="lower")
WITHOUT_PASS = Column("seconds_without_pass", VALUE, better="lower")
DEVICE = Column("device", LABEL)


def summarize(results: Results, protocol: str) -> Summary:
    """Return the table of the seconds that detectors take."""
    lines = []
    for row in results.done(protocol):
        facts = results.store.facts(row.cell)
        line = {NETWORK: row.tags["network"], DETECTOR: row.tags["detector"], SECONDS: facts["per_10000"]}
        lines.append(line | {WITHOUT_PASS: facts["per_10000_without_pass"], DEVICE: facts["device"]})
    caption = (
        f"Seconds per 10,000 images of each detector alone, in batches of {BATCH}, on one thread: the fastest of "
        f"{REPEATS} batches after a first one that is not counted. seconds_without_pass: without the forward pass that "
        "the post-hoc detectors of a network share. Lower is better. Times depend on the device and on what else runs "
        "on it."
    )
    return Summary("Inference time", [Table("cost", "Seconds per 10,000 images", caption, lines)] if lines else [])
