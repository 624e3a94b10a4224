"""Leaderboard as a static site: one page with the table, and a folder with report and provenance per submission."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from markupsafe import Markup

from farout.files import make_folder, write_text
from farout.report.content.board import RECOMPUTED, RERUN, Board, Entry
from farout.report.resources import fill, policy, resource, script_text
from farout.report.tables import as_text
from farout.report.views.board import board_view

SCRIPTS = ("theme.js", "tables.js")


def render_board(board: Board) -> str:
    """Return the page of the leaderboard."""
    return fill(
        "board.html", {"board": board, "view": board_view(board), "recomputed": RECOMPUTED, "rerun": RERUN} | _page()
    )


def render_provenance(entry: Entry) -> str:
    """Return the page with the provenance of a submission."""
    return fill("provenance.html", {"entry": entry, **_page()})


def _page() -> dict[str, Any]:
    """Return style, scripts and policy, which all pages share."""
    scripts = [script_text(resource(name)) for name in SCRIPTS]
    return {
        "style": Markup(resource("page.css")),
        "scripts": [Markup(one) for one in scripts],
        "policy": policy(scripts),
    }


def write_board(board: Board, site: Path) -> None:
    """Write the pages of the leaderboard; the reports of the submissions lie in their folders already."""
    write_text(site / "index.html", render_board(board), site)
    write_text(site / "board.csv", board_csv(board), site)
    for entry in board.entries:
        write_text(make_folder(site / entry.folder, site) / "index.html", render_provenance(entry), site)


HEAD = (
    "submission", "identity", "packed_at", "badge", "detector", "network", "inliers", "budget", "protocol", "stress",
    "clean", "auroc", "auroc_low", "auroc_high",
)  # fmt: skip


def board_csv(board: Board) -> str:
    """Return all results with all digits, a line per detector and condition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for line in board.lines:
        entry, subject = line.entry, line.subject
        first = (entry.name, entry.identity, entry.packed_at, entry.badge, subject.detector, subject.network)
        for condition, mean in entry.overview.of(subject):
            about = (entry.inliers, entry.budget, condition.protocol, condition.name, condition.stress.clean)
            writer.writerow([as_text(value) for value in (*first, *about, *mean.interval)])
    return text.getvalue()
