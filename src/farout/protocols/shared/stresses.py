"""Measurements that protocols hand to the overview of the report."""

from __future__ import annotations

from collections.abc import Iterable

from farout.protocols.shared.columns import AUROC, DETECTOR, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS
from farout.protocols.shared.pairs import OWN
from farout.report.content import Column, Line, Measured, Stress, Subject

CLEAN = "clean"
"""Name of the condition without any stress."""


def stress(
    name: str, about: str, lines: Iterable[Line], column: Column = AUROC, *, clean: bool = False
) -> list[Stress]:
    """Return the condition that these lines of a table measure, in a list; empty without lines."""
    found = [_measured(line, column) for line in lines if column in line]
    return [Stress(name, about, found, clean)] if found else []


def _measured(line: Line, column: Column) -> Measured:
    network = "" if line[NETWORK] == OWN else line[NETWORK]
    value, low, high = line[column]
    subject, inliers, outliers = Subject(network, line[DETECTOR]), line.get(N_INLIERS, 0), line.get(N_OUTLIERS, 0)
    return Measured(subject, line.get(OUTLIERS, ""), value, low, high, inliers, outliers)
