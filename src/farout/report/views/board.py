"""Rows, lists and pages of a leaderboard for its templates."""

from __future__ import annotations

import json
from typing import Any

from farout.report.content.board import Board, Entry, Line, Worst
from farout.report.content.numbers import with_interval
from farout.report.content.stresses import Mean

FILTERS = {
    "inliers": "Inliers", "outliers": "Outliers", "protocol": "Protocol", "budget": "Budget", "network": "Network",
    "training": "Training data", "extra": "Extra data", "badge": "Badge",
}  # fmt: skip
"""Values that rows can be filtered by."""
NONE = "none"
OWN = "own"


def board_view(board: Board) -> dict[str, Any]:
    """Return columns, rows and lists of the main table."""
    lines = sorted(board.lines, key=_order)
    values = [_values(line) for line in lines]
    return {
        "columns": _columns(board),
        "rows": [_row(line, own, board) for line, own in zip(lines, values, strict=True)],
        "filters": [
            (key, title, sorted({value for own in values for value in own[key]})) for key, title in FILTERS.items()
        ],
        "history": [
            {"name": name, "entries": [_submission(entry) for entry in entries]}
            for name, entries in board.history.items()
        ],
    }


def _order(line: Line) -> tuple[str, str, float]:
    return line.entry.inliers, line.entry.outliers, -(line.clean.value if line.clean else -1.0)


def _columns(board: Board) -> list[dict[str, str]]:
    texts = [{"name": name, "kind": "text"} for name in ("detector", "network", "inliers", "outliers")]
    numbers = ["clean AUROC", "worst case AUROC"]
    worst = [{"name": name, "kind": "number"} for name in numbers]
    by_protocol = [{"name": f"worst: {title}", "kind": "number"} for title in board.stressful.values()]
    facts = ("budget", "training data", "extra data", "badge", "submission")
    return [
        *texts,
        *worst,
        {"name": "under", "kind": "text"},
        *by_protocol,
        *({"name": n, "kind": "text"} for n in facts),
    ]


def _values(line: Line) -> dict[str, list[str]]:
    entry, subject = line.entry, line.subject
    tested = [one.protocol for one, _ in entry.overview.of(subject)]
    return {
        "inliers": [entry.inliers],
        "outliers": [entry.outliers],
        "protocol": list(dict.fromkeys(tested)),
        "budget": [entry.budget],
        "network": [subject.network or OWN],
        "training": [entry.training.get(subject.network, NONE)],
        "extra": [entry.extra.get(subject.detector, NONE)],
        "badge": [entry.badge],
    }


def _row(line: Line, values: dict[str, list[str]], board: Board) -> dict[str, Any]:
    entry, worst = line.entry, line.worst()
    before = [_text(line.subject.detector), *(_text(values[key][0]) for key in ("network", "inliers", "outliers"))]
    figures = [_figure(line.clean), _worst(worst), _text(worst.condition.name if worst else "–")]
    figures += [_worst(line.worst(protocol)) for protocol in board.stressful]
    after = [_text(values[key][0]) for key in ("budget", "training", "extra", "badge")]
    return {
        "cells": [*before, *figures, *after],
        "values": json.dumps(values),
        "folder": entry.folder,
        "name": entry.name,
        "missing": entry.missing,
    }


def _text(text: str) -> dict[str, str]:
    return {"text": text, "title": text}


def _figure(mean: Mean | None) -> dict[str, str]:
    return {"text": with_interval(*mean.interval) if mean else "–", "title": ""}


def _worst(worst: Worst | None) -> dict[str, str]:
    if worst is None:
        return {"text": "–", "title": "not tested"}
    return {**_figure(worst.mean), "title": f"AUROC {worst.condition.stress.about}"}


def _submission(entry: Entry) -> dict[str, Any]:
    """Return a line of the history: the best detector on clean images, and the worst case of that one."""
    found = [Line(entry, subject) for subject in entry.overview.subjects]
    best = found[0] if found else None
    return {
        "entry": entry,
        "best": best.subject.detector if best else "–",
        "clean": _figure(best.clean if best else None)["text"],
        "worst": _worst(best.worst() if best else None)["text"],
    }
