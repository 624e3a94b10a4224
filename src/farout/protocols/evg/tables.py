"""What `evg` shows: AUROC and MinRank of the worst cases, and how much of the drop is only the search."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pandas as pd

from farout import metrics
from farout.protocols.evg.figures import curves, transfer_maps
from farout.protocols.evg.landscape import landscapes
from farout.protocols.evg.overview import overview
from farout.protocols.evg.pictures import sheets
from farout.protocols.evg.results import Found, Reading, bounds, interval, read, titled
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import Array
from farout.protocols.summary import Shown, Summary, Table
from farout.study.results import Results

RUNS = 5
"""MinRank is a mean over so many runs, which are parts of the chains."""


def summarise(results: Results, protocol: str) -> Summary:
    """Tables and figures of what was found so far."""
    reading = read(results, protocol)
    if not reading.known:
        return Summary("Worst case")
    scored = [one.inlier_row for one in [*reading.clean.values(), *reading.found]]
    tables = [overview(reading), *networks(results, protocol, scored)]
    if reading.found:
        frame = pd.DataFrame([_line(one) for one in reading.found])
        tables += [*_drops(frame), _details(frame), *_transfers(reading)]
    figures: list[Shown] = [
        *sheets(reading),
        *transfer_maps(reading),
        *landscapes(results, protocol, reading),
        *curves(reading),
    ]
    return Summary("Worst case", tables, figures)


def _line(one: Found) -> dict[str, Any]:
    """All figures of one search."""
    rank, error, size = min_ranks(one.inliers, one.scores)
    return {
        **one.who._asdict(), "outliers": one.what.outliers, "variation": titled(one.what.variation),
        "method": one.what.method, "chains": len(one.scores), "queries": one.queries, "n_inliers": len(one.inliers),
        **bounds("auroc", one.auroc),
        "auroc_clean": interval(one.inliers, one.clean).value,
        **bounds("auroc_control", interval(one.control, one.scores)),
        "auroc_start": metrics.auroc(one.inliers, one.column("start")),
        "auroc_last": metrics.auroc(one.inliers, one.column("last")),
        "min_rank": rank, "min_rank_se": error, "chains_per_run": size,
        "min_rank_share": rank / len(one.inliers), "min_rank_clean": _min_rank(one.inliers, one.clean),
        **{name: float(one.column(name).mean()) for name in ("accepted", "exploration", "stuck")},
        "standardized_on": one.standardized_on,
    }  # fmt: skip


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


def _details(frame: pd.DataFrame) -> Table:
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
    return Table("evg", "All figures", caption, frame)


def _drops(frame: pd.DataFrame) -> list[Table]:
    """The drop from clean AUROC in two parts; nothing where inliers were not searched."""
    known = frame[frame["auroc_control"].notna()]
    if not len(known):
        return []
    clean, found, fair = (known[name] for name in ("auroc_clean", "auroc", "auroc_control"))
    split = known[["network", "seed", "detector", "outliers", "variation", "method"]].assign(
        n_outliers=known["chains"],
        clean=clean,
        found=found,
        control=fair,
        drop=clean - found,
        drop_by_search=fair - found,
        drop_by_outliers=clean - fair,
    )
    caption = (
        "A search takes the minimum over many queries, and that makes any image look more normal, inliers too. AUROC "
        "of n_outliers outliers, unchanged (clean) and as found, both against unchanged inliers; control: as found, "
        "against what the same search finds on as many inliers. The drop from clean to found has two parts. "
        "drop_by_search goes away where inliers are searched as well; it is negative where the search finds inliers "
        "that look odder than they were. drop_by_outliers stays; it is negative where the search sets outliers further "
        "apart from inliers. Intervals are among all figures."
    )
    return [Table("evg_drop", "How much of the drop is only the search", caption, split.reset_index(drop=True))]


def _transfers(reading: Reading) -> list[Table]:
    """What was found against each detector, scored by all; its own scores among them."""
    if not reading.transferred:
        return []
    names, lines = reading.names, []
    for one, against in reading.judged:
        clean = reading.clean.get((one.who, one.what.outliers))
        line = {**one.who._asdict(), "outliers": one.what.outliers, "variation": titled(one.what.variation)}
        line |= {"method": one.what.method, "found_against": names[against]}
        lines.append({**line, **bounds("auroc", one.auroc), "auroc_clean": clean.auroc.value if clean else nan})
    caption = (
        "What was found against one detector, scored by every other: AUROC against unchanged inliers, with its 95 % "
        "interval (DeLong), beside that of the same outliers before they were varied (auroc_clean). What fools one and "
        "spares another is a weakness of the first alone."
    )
    return [Table("evg_transfer", "Transfer, all figures", caption, pd.DataFrame(lines))]
