"""What `evg` shows: AUROC and MinRank of the worst cases, and how much of the drop is only the search."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np

from farout import metrics
from farout.protocols.evg.figures import curves, transfer_maps
from farout.protocols.evg.landscape import landscapes
from farout.protocols.evg.overview import overview
from farout.protocols.evg.pictures import sheets
from farout.protocols.evg.results import Found, Reading, Transferred, interval, read, titled
from farout.protocols.shared.columns import AUROC, DETECTOR, METHOD, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import Array
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Line, Lines, Shown, Summary, Table
from farout.study.results import Results

RUNS = 5
"""MinRank is a mean over so many runs, which are parts of the chains."""
VARIATION, FOUND_AGAINST = Column("variation", LABEL), Column("found_against", LABEL)
CHAINS, QUERIES = Column("chains", COUNT), Column("queries", COUNT)
AUROC_CLEAN = Column("auroc_clean", VALUE, better="higher")
AUROC_CONTROL = Column("auroc_control", INTERVAL, better="higher")
AUROC_START, AUROC_LAST = (Column(f"auroc_{name}", VALUE, better="higher") for name in ("start", "last"))
MIN_RANK, MIN_RANK_SHARE, MIN_RANK_CLEAN = (
    Column(name, VALUE, better="higher") for name in ("min_rank", "min_rank_share", "min_rank_clean")
)
MIN_RANK_SE, CHAINS_PER_RUN = Column("min_rank_se", VALUE), Column("chains_per_run", COUNT)
WALK = [Column(name, VALUE) for name in ("accepted", "exploration", "stuck")]
"""How chains moved, as the mean over them."""
STANDARDIZED_ON = Column("standardized_on", LABEL)
CLEAN, FOUND, CONTROL = (Column(name, VALUE, better="higher") for name in ("clean", "found", "control"))
DROP, DROP_BY_SEARCH, DROP_BY_OUTLIERS = (
    Column(name, VALUE, better="lower") for name in ("drop", "drop_by_search", "drop_by_outliers")
)


def summarize(results: Results, protocol: str) -> Summary:
    """Tables and figures of what was found so far."""
    reading = read(results, protocol)
    if not reading.known:
        return Summary("Worst case")
    scored = [one.inlier_row for one in [*reading.clean.values(), *reading.found]]
    tables = [overview(reading), *networks(results, protocol, scored)]
    if reading.found:
        lines = [_line(one) for one in reading.found]
        tables += [*_drops(lines), _details(lines), *_transfers(reading)]
    figures: list[Shown] = [
        *sheets(reading),
        *transfer_maps(reading),
        *landscapes(results, protocol, reading),
        *curves(reading),
    ]
    return Summary("Worst case", tables, figures)


def _line(one: Found) -> Line:
    """All figures of one search."""
    rank, error, size = min_ranks(one.inliers, one.scores)
    return {
        **_about(one), CHAINS: len(one.scores), QUERIES: one.queries, N_INLIERS: len(one.inliers),
        AUROC: one.auroc,
        AUROC_CLEAN: interval(one.inliers, one.clean).value,
        AUROC_CONTROL: interval(one.control, one.scores),
        AUROC_START: metrics.auroc(one.inliers, one.column("start")),
        AUROC_LAST: metrics.auroc(one.inliers, one.column("last")),
        MIN_RANK: rank, MIN_RANK_SE: error, CHAINS_PER_RUN: size,
        MIN_RANK_SHARE: rank / len(one.inliers), MIN_RANK_CLEAN: _min_rank(one.inliers, one.clean),
        **{column: float(one.column(column.name).mean()) for column in WALK},
        STANDARDIZED_ON: one.standardized_on,
    }  # fmt: skip


def _about(one: Found | Transferred) -> dict[Column, Any]:
    """The detector, and what was searched how."""
    outliers, variation, method = one.what
    return {**one.who.line, OUTLIERS: outliers, VARIATION: titled(variation), METHOD: method}


def _min_rank(inliers: Array, outliers: Array) -> float:
    """MinRank of all outliers at once, as the paper gives it for clean ones."""
    return float(metrics.min_rank(inliers, outliers)) if len(outliers) else nan


def min_ranks(inliers: Array, outliers: Array) -> tuple[float, float, int]:
    """MinRank: its mean over fifths of the chains, the standard error of that mean, and the chains in a fifth.

    Chains that are left over are dropped; fewer than five are one run, which has no standard error.
    """
    if not len(outliers):
        return nan, nan, 0
    size = len(outliers) // RUNS
    if not size:
        return metrics.min_rank(inliers, outliers), nan, len(outliers)
    ranks = [metrics.min_rank(inliers, outliers[start : start + size]) for start in range(0, RUNS * size, size)]
    return float(np.mean(ranks)), float(np.std(ranks, ddof=1) / np.sqrt(RUNS)), size


def _details(lines: Lines) -> Table:
    caption = (
        "One line per search. auroc: what was found against unchanged inliers, with its 95 % interval (DeLong); "
        "auroc_clean: the same outliers, one per chain, before they were varied; auroc_control: what was found, "
        "against what the same search finds on inliers; auroc_start: the first variation of each chain, before any "
        "search; auroc_last: the last state instead of the lowest. min_rank: the number of "
        f"inliers that score strictly below the lowest score found, mean over {RUNS} runs of chains_per_run chains "
        "each (parts of all chains) and its standard error; min_rank_share: divided by n_inliers, so that 1 is ideal; "
        "min_rank_clean: the same number for the unchanged outliers, of all chains at once. The more chains in a run, "
        "the lower is min_rank. "
        "accepted: share of steps in which a chain moved; exploration: spread of its states, 1 = all over the domain; "
        "stuck: share of chains that did not move in their second half."
    )
    return Table("evg", "All figures", caption, lines)


def _drops(lines: Lines) -> list[Table]:
    """The drop from clean AUROC in two parts; nothing where inliers were not searched."""
    known = [_drop(line) for line in lines if not isnan(line[AUROC_CONTROL].value)]
    if not known:
        return []
    caption = (
        "A search takes the minimum over many queries, and that makes any image look more normal, inliers too. AUROC "
        "of n_outliers outliers, unchanged (clean) and as found, both against unchanged inliers; control: as found, "
        "against what the same search finds on as many inliers. The drop from clean to found has two parts. "
        "drop_by_search goes away where inliers are searched as well; it is negative where the search finds inliers "
        "that look odder than they were. drop_by_outliers stays; it is negative where the search sets outliers further "
        "apart from inliers. Intervals are among all figures."
    )
    return [Table("evg_drop", "How much of the drop is only the search", caption, known)]


def _drop(line: Line) -> Line:
    clean, found, fair = line[AUROC_CLEAN], line[AUROC].value, line[AUROC_CONTROL].value
    return {
        **{column: line[column] for column in (NETWORK, SEED, DETECTOR, OUTLIERS, VARIATION, METHOD)},
        N_OUTLIERS: line[CHAINS], CLEAN: clean, FOUND: found, CONTROL: fair,
        DROP: clean - found, DROP_BY_SEARCH: fair - found, DROP_BY_OUTLIERS: clean - fair,
    }  # fmt: skip


def _transfers(reading: Reading) -> list[Table]:
    """What was found against each detector, scored by all; its own scores among them."""
    if not reading.transferred:
        return []
    names, lines = reading.names, []
    for one, against in reading.judged:
        clean = reading.clean.get((one.who, one.what.outliers))
        figures = {AUROC: one.auroc, AUROC_CLEAN: clean.auroc.value if clean else nan}
        lines.append({**_about(one), FOUND_AGAINST: names[against], **figures})
    caption = (
        "What was found against one detector, scored by every other: AUROC against unchanged inliers, with its 95 % "
        "interval (DeLong), beside that of the same outliers before they were varied (auroc_clean). What fools one and "
        "spares another is a weakness of the first alone."
    )
    return [Table("evg_transfer", "Transfer, all figures", caption, lines)]
