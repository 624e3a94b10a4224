"""Tables of `evg`: AUROC and MinRank of the worst cases, and how much of the drop is due to the search alone."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np

from farout import metrics
from farout.protocols.evg.figures import TRANSFER, curves, transfer_maps
from farout.protocols.evg.landscape import landscapes
from farout.protocols.evg.overview import overview, stresses
from farout.protocols.evg.pictures import sheets
from farout.protocols.evg.realism import flags, read_generated, realism_sheets, realism_tables
from farout.protocols.evg.results import Found, Reading, Transferred, interval, read, titled
from farout.protocols.shared.columns import AUROC, DETECTOR, METHOD, N_INLIERS, N_OUTLIERS, NETWORK, OUTLIERS, SEED
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import Array
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Column, Line, Lines, Shown, Summary, Table
from farout.study.results import Results

TITLE = "Worst case: outliers changed by a search so that they look normal"
ALL = "All measures of every search"
RUNS = 5
"""Runs that MinRank is averaged over; each is a part of the chains."""
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
"""Columns that say how chains moved, means over chains."""
STANDARDIZED_ON = Column("standardized_on", LABEL)
CLEAN, FOUND, CONTROL = (Column(name, VALUE, better="higher") for name in ("clean", "found", "control"))
DROP, DROP_BY_SEARCH, DROP_BY_OUTLIERS = (
    Column(name, VALUE, better="lower") for name in ("drop", "drop_by_search", "drop_by_outliers")
)


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    reading, generated = read(results, protocol), read_generated(results, protocol)
    if not reading.known:
        return Summary(TITLE)
    scored = [one.inlier_row for one in [*reading.clean.values(), *reading.found]]
    tables = [overview(reading), *networks(results, protocol, scored)]
    if reading.found:
        lines = [_line(one) for one in reading.found]
        tables += [*_drops(lines), _details(lines), *realism_tables(generated), *_transfers(reading)]
    figures: list[Shown] = [
        *sheets(reading, flags(generated)),
        *realism_sheets(generated, reading),
        *transfer_maps(reading),
        *landscapes(results, protocol, reading),
        *curves(reading),
    ]
    return Summary(TITLE, tables, figures, stresses(reading))


def _line(one: Found) -> Line:
    """Return all measures of one search."""
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
    """Return the columns that name the detector, the outlier set, the variation and the method."""
    outliers, variation, method = one.search
    return {**one.subject.line, OUTLIERS: outliers, VARIATION: titled(variation), METHOD: method}


def _min_rank(inliers: Array, outliers: Array) -> float:
    """Return MinRank over all outliers at once, as the paper gives it for unchanged ones."""
    return float(metrics.min_rank(inliers, outliers)) if len(outliers) else nan


def min_ranks(inliers: Array, outliers: Array) -> tuple[float, float, int]:
    """Return the mean MinRank over fifths of the chains, the standard error of that mean, and the chains in a fifth.

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
        "One line per search: a detector, an outlier set, a variation and a method. For all auroc and min_rank columns "
        "higher is better; AUROC: 1 is ideal, 0.5 is chance. auroc: worst cases (the lowest state of each chain) "
        "against unchanged inliers, in brackets its 95 % interval (DeLong); auroc_clean: the same outliers, one per "
        "chain, unchanged; auroc_control: worst cases against inliers changed by the same search; auroc_start: the "
        "first, random variation of each chain; auroc_last: the last state of each chain instead of the lowest. "
        "min_rank: the number of inliers that score strictly below the lowest score found, the mean over "
        f"{RUNS} runs of chains_per_run chains each (parts of all chains), and min_rank_se, its standard error; "
        "min_rank_share: min_rank divided by n_inliers, so that 1 is ideal; min_rank_clean: MinRank of the unchanged "
        "outliers, over all chains at once. The more chains in a run, the lower is min_rank. queries: of the detector, "
        "per chain. accepted: fraction of steps in which a chain moved; exploration: spread of its states, 1 = the "
        "whole domain; stuck: fraction of chains that did not move in their second half. standardized_on: the split "
        "whose scores standardize the search."
    )
    return Table("evg", ALL, caption, lines)


def _drops(lines: Lines) -> list[Table]:
    """Return the drop from clean AUROC in two parts; an empty list if inliers were not searched."""
    known = [_drop(line) for line in lines if not isnan(line[AUROC_CONTROL].value)]
    if not known:
        return []
    caption = (
        "A search takes the minimum over many queries, which makes any image look more normal, inliers too. This table "
        "splits the drop in AUROC accordingly; n_outliers outliers per line. clean: AUROC of the unchanged outliers; "
        "found: of their worst cases, both against unchanged inliers; control: of the worst cases against as many "
        "inliers changed by the same search. For these higher is better (1 is ideal, 0.5 is chance), for the drops "
        "lower. drop = clean − found = drop_by_search + drop_by_outliers. drop_by_search = control − found vanishes if "
        "inliers are searched as well; it is negative if the search makes inliers look more outlying. drop_by_outliers "
        "= clean − control remains; it is negative if the search moves outliers further away from inliers. Intervals: "
        f"see the table {ALL!r}."
    )
    return [Table("evg_drop", "Drop of AUROC, and how much of it is due to the search alone", caption, known)]


def _drop(line: Line) -> Line:
    clean, found, fair = line[AUROC_CLEAN], line[AUROC].value, line[AUROC_CONTROL].value
    return {
        **{column: line[column] for column in (NETWORK, SEED, DETECTOR, OUTLIERS, VARIATION, METHOD)},
        N_OUTLIERS: line[CHAINS], CLEAN: clean, FOUND: found, CONTROL: fair,
        DROP: clean - found, DROP_BY_SEARCH: fair - found, DROP_BY_OUTLIERS: clean - fair,
    }  # fmt: skip


def _transfers(reading: Reading) -> list[Table]:
    """Return the scores of every detector's worst cases by all detectors, itself included."""
    if not reading.transferred:
        return []
    names, lines = reading.names, []
    for one, against in reading.judged:
        clean = reading.clean.get((one.subject, one.search.outliers))
        figures = {AUROC: one.auroc, AUROC_CLEAN: clean.auroc.value if clean else nan}
        lines.append({**_about(one), FOUND_AGAINST: names[against], **figures})
    caption = (
        "AUROC of the worst cases found against one detector (found_against), as scored by another (detector), against "
        "unchanged inliers; in brackets its 95 % interval (DeLong). auroc_clean: of the same outliers, unchanged. "
        "Higher is better: 1 is ideal, 0.5 is chance. Worst cases that fool one detector and no other are a weakness "
        "of that detector alone."
    )
    return [Table("evg_transfer", f"{TRANSFER}: all measures", caption, lines)]
