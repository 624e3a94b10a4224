"""Tables for people (text), for spreadsheets (CSV) and for papers (LaTeX)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from farout.files import make_folder, write_text
from farout.protocols import PROTOCOLS, Protocol
from farout.protocols.summary import Summary, Table
from farout.report.latex import latex
from farout.report.readable import readable
from farout.study.fit_sizes import SPLITS, fit_text
from farout.study.results import Results
from farout.study.spec import ProtocolSpec

SHOWN = 5
"""Reasons of failures that a text names."""


@lru_cache(maxsize=1)  # a report is written from the summaries that were printed before
def summaries(results: Results) -> dict[str, Summary]:
    """What every protocol of the run makes of the scores that were there when `results` was opened."""
    return {spec.name: _summary(spec, results) for spec in results.protocols}


def _summary(spec: ProtocolSpec, results: Results) -> Summary:
    try:
        return _protocol(spec.name).summarise(results)
    except (KeyError, IndexError, AttributeError) as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            f"{results.store.root} does not hold what {spec.name} reads ({type(error).__name__}: {error}); is its "
            "plan.json the one that `farout run` wrote? The same run command writes it again"
        ) from error


def _protocol(name: str) -> type[Protocol]:
    """The class of a protocol. None is made: a study's settings may name code of the user's."""
    made = PROTOCOLS[name]
    assert isinstance(made, type)
    return made


def tables(results: Results) -> list[Table]:
    """All tables of a run: those of its protocols and, where these have any, what was fitted on what."""
    found = [table for summary in summaries(results).values() for table in summary.tables]
    return [*found, *fitted(results)] if found else []


def fitted(results: Results) -> list[Table]:
    """Tell how many images networks were trained and detectors fitted on; nothing where nothing was."""
    if not results.fitted:
        return []
    used = [kind for kind in SPLITS.values() if any(line[kind] for line in results.fitted)]
    counts = [name for kind in used for name in (kind, f"of_{kind}")]
    frame = pd.DataFrame(results.fitted)[["fitted", "network", "seed", *counts]]
    caption = (
        "Images that networks were trained and detectors fitted on: training, validation (the best epoch of a network "
        "is chosen on them) and outlier images, each of how many there are (of_…). 0: not fitted on these. A detector "
        "that is fitted on fewer images than in its paper may do worse."
    )
    return [Table("fitted", "What was fitted on what", caption, frame)]


def text(results: Results) -> str:
    """The first table of every protocol as text, with what is to be known of it and what is missing."""
    lines = [f"{results.name} (budget {results.budget})", *fit_text(results.fitted)]
    lines += [f"left out: {cut}" for cut in results.cuts]
    lines += [f"note: {note}" for note in results.notes]
    for summary in summaries(results).values():
        for table in summary.tables[:1]:
            lines += ["", table.title, readable(table.frame).to_string(index=False)]
    return "\n".join([*lines, *_missing(results)])


def _missing(results: Results) -> list[str]:
    """How many results are missing, and why the first few of them failed."""
    counts = results.counts()
    if not counts.missing:
        return []
    reasons = list(dict.fromkeys(failure.reason for failure in results.failures().values()))
    more = [f"  and {len(reasons) - SHOWN} other reasons"] if len(reasons) > SHOWN else []
    count = f"{counts.missing} of {counts.total} results are missing, {counts.failed} of them failed"
    return ["", count + (":" if reasons else ""), *(f"  {reason}" for reason in reasons[:SHOWN]), *more]


def write_tables(found: list[Table], folder: Path) -> list[Path]:
    """Every table as CSV (all digits) and LaTeX (as printed)."""
    make_folder(folder, folder.parent)
    writers: dict[str, Callable[[Table], str]] = {
        "csv": lambda table: _no_formulas(table.frame).to_csv(index=False),
        "tex": lambda table: latex(table),
    }
    paths = []
    for table in found:
        for suffix, write in writers.items():
            paths.append(folder / f"{table.name}.{suffix}")
            write_text(paths[-1], write(table), folder.parent)
    return paths


def _no_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as spreadsheets show it: text that they would run as a formula starts with an apostrophe."""
    return frame.rename(columns=_as_text).map(_as_text)


def _as_text(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "−", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
