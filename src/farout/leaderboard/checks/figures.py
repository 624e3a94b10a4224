"""Figures of a submission: all are computed again from its scores, and what it says must be the same."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from farout.files import read_json
from farout.leaderboard.submission import Submission
from farout.protocols.document import document
from farout.report.content import Document
from farout.report.html import render, write_all_tables
from farout.study.interval_cache import FILE as INTERVALS
from farout.study.interval_cache import IntervalCache
from farout.study.results import Results

RELATIVE, ROUNDED = 1e-6, 1.1e-3
"""Largest differences: of numbers with all digits, relative; of printed numbers, one unit of the last digit."""
SHOWN = 5
NUMBER = re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+)(?:[eE][-+]?\d+)?")
CHARTS = re.compile(r'<script type="application/json" id="charts">.*?</script>', re.DOTALL)
UNREAD = re.compile(f"{CHARTS.pattern}|data:image/[^\"']*", re.DOTALL)
"""Parts of a report that hold no printed figure: values of charts, which are compared by themselves, and pictures."""
DRAWN = 1.1e-3
"""Largest relative difference of values in charts, which have four digits."""


def recompute(submission: Submission) -> tuple[Document, dict[str, list[float]]]:
    """Return the content of the report, computed from the scores alone, and the bounds of all intervals."""
    with TemporaryDirectory(prefix="farout-") as folder:
        results = Results(submission.root)
        results.intervals = IntervalCache(Path(folder))  # nothing is read from the submission's, or written to it
        content = document(results)
        path = Path(folder) / INTERVALS
        return content, read_json(path) if path.exists() else {}


def figure_errors(submission: Submission, content: Document, bounds: dict[str, list[float]]) -> Iterator[str]:
    """Yield where a table, the report or an interval is not what the scores give."""
    with TemporaryDirectory(prefix="farout-") as name:
        folder = Path(name) / "tables"
        write_all_tables(content, folder)
        expected = {f"tables/{path.name}": path for path in folder.iterdir()}
        found = set(submission.named("tables/"))
        yield from (f"{path} is missing: the scores give this table" for path in sorted(expected.keys() - found))
        yield from (f"{path}: the scores give no such table" for path in sorted(found - expected.keys()))
        wrong: set[str] = set()
        for path in sorted(found & expected.keys()):  # a table's .csv comes before its .tex
            stem, _, _ = path.rpartition(".")
            errors = (
                [] if stem in wrong else list(_file_errors(path, _read(submission.root / path), _read(expected[path])))
            )
            wrong |= {stem} if errors else set()
            yield from errors
    if "report.html" not in submission.manifest.files:
        yield "report.html is missing"
    else:
        mine = _read(submission.root / "report.html")
        yield from report_errors(mine, render(content, "tables"))
    if INTERVALS in submission.manifest.files:
        yield from _interval_errors(submission.root / INTERVALS, bounds)


def report_errors(found: str, expected: str) -> Iterator[str]:
    """Yield where two pages differ: in words, scripts or styles, in printed figures, or in values of their charts."""
    yield from _text_errors("report.html", _printed(found), _printed(expected))
    mine, theirs = (" ".join(CHARTS.findall(page)) for page in (found, expected))
    yield from _text_errors("report.html, values of charts", mine, theirs, DRAWN)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _file_errors(path: str, found: str, expected: str) -> Iterator[str]:
    if found == expected:
        return
    yield from (_csv_errors if path.endswith(".csv") else _text_errors)(path, found, expected)


def _csv_errors(path: str, found: str, expected: str) -> Iterator[str]:
    mine, theirs = (list(csv.reader(io.StringIO(text))) for text in (found, expected))
    if mine[:1] != theirs[:1] or len(mine) != len(theirs):
        yield f"{path}: its columns or its number of lines are not those of the table that the scores give"
        return
    wrong = [
        f"{path}, line {number}, {column}: the file says {a!r}, the scores give {b!r}"
        for number, (one, two) in enumerate(zip(mine, theirs, strict=True), 1)
        for column, a, b in zip_longest(theirs[0], one, two, fillvalue="")
        if not _equal(a, b, RELATIVE, 1e-9)
    ]
    yield from wrong[:SHOWN]
    if len(wrong) > SHOWN:
        yield f"{path}: {len(wrong) - SHOWN:,} more figures are not those that the scores give"


def _equal(a: str, b: str, relative: float, absolute: float) -> bool:
    if a == b:
        return True
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return abs(x - y) <= max(absolute, relative * max(abs(x), abs(y)))


def _printed(page: str) -> str:
    return " ".join(UNREAD.sub("", page).split())


def _text_errors(path: str, found: str, expected: str, relative: float = RELATIVE) -> Iterator[str]:
    """Yield the first figures in which two texts differ; other words are an error too."""
    if NUMBER.sub("#", found) != NUMBER.sub("#", expected):
        mine, theirs = NUMBER.sub("#", found), NUMBER.sub("#", expected)
        place = next(n for n, (a, b) in enumerate(zip_longest(mine, theirs)) if a != b)
        yield f"{path}: its text is not the one that the scores give, from {mine[max(0, place - 40) : place + 40]!r} on"
        return
    numbers = list(zip(NUMBER.finditer(found), NUMBER.finditer(expected), strict=True))
    wrong = [(a, b) for a, b in numbers if not _equal(a[0], b[0], relative, ROUNDED)]
    for a, b in wrong[:SHOWN]:
        before = " ".join(re.sub("<[^>]*>", " ", found[max(0, a.start() - 160) : a.start()]).split())[-60:]
        yield f"{path}: it says {a[0]} after {before!r}, and the scores give {b[0]}"
    if len(wrong) > SHOWN:
        yield f"{path}: {len(wrong) - SHOWN:,} more figures are not those that the scores give"


def _interval_errors(path: Path, bounds: dict[str, list[float]]) -> Iterator[str]:
    found = read_json(path)
    if not isinstance(found, dict) or found.keys() != bounds.keys():
        yield f"{INTERVALS}: it holds other intervals than those that the scores give"
        return
    wrong = [key for key in bounds.keys() - {"sha256"} if not _same_bounds(found[key], bounds[key])]
    if wrong:
        yield f"{INTERVALS}: {len(wrong):,} intervals are not those that the scores give, the first: {min(wrong)}"


def _same_bounds(found: object, expected: list[float]) -> bool:
    if not isinstance(found, list) or len(found) != len(expected):
        return False
    return all(_equal(str(a), str(b), RELATIVE, 1e-9) for a, b in zip(found, expected, strict=True))
