"""Summary of `raised_bar`: all tables and figures of the results stored so far."""

from __future__ import annotations

from farout.protocols.raised_bar.calibration import (
    MEAN,
    calibrated,
    ece_bars,
    ece_table,
    ece_values,
    further_sets,
    reliability_plots,
)
from farout.protocols.raised_bar.detection import details, detection_bars, detection_lines, overviews, stresses
from farout.protocols.raised_bar.distances import (
    fid_bars,
    fid_table,
    perceived,
    perceptual_bars,
    perceptual_table,
    sets_table,
)
from farout.protocols.raised_bar.entries import SHIFTED
from farout.protocols.raised_bar.exposed import exposure_tables
from farout.protocols.raised_bar.pictures import information_histograms, near_sheets, radar, shifted_sheets
from farout.protocols.raised_bar.ranks import ranks
from farout.protocols.raised_bar.results import BarResults
from farout.protocols.raised_bar.sanity import (
    checked_sets,
    confusion,
    kept_labels,
    lost_labels,
    members_table,
    sanity_table,
)
from farout.protocols.shared.networks import networks
from farout.protocols.shared.pairs import densities, inlier_rows, pairs
from farout.report.content import Summary
from farout.study.results import Results

TITLE = "Near-OoD and Shifted sets"


def summarize(results: Results, protocol: str) -> Summary:
    """Return tables and figures of the results stored so far."""
    bar = BarResults(results, protocol)
    found = list(pairs(results, protocol))
    lines, checked, calibration = detection_lines(bar), checked_sets(bar), calibrated(bar)
    distances, notes = perceived(bar), kept_labels(checked) + further_sets(calibration)
    lost = lost_labels(checked)
    trained = [label for label in bar.labels(SHIFTED) if not bar.undertrained(label) and bar.title(label) not in lost]
    first = [pair for pair in found if pair.seed == found[0].seed]
    return Summary(
        TITLE,
        [
            *overviews(lines),
            *networks(results, protocol, inlier_rows(found)),
            *sets_table(bar),
            *members_table(bar),
            *sanity_table(checked),
            *ece_table(calibration, notes),
            *ranks(lines, ece_values(calibration), trained, MEAN),
            *fid_table(bar),
            *perceptual_table(distances),
            *exposure_tables(bar),
            *([details(lines)] if lines else []),
        ],
        [
            *near_sheets(bar),
            *shifted_sheets(bar),
            *detection_bars(lines),
            *confusion(checked),
            *fid_bars(bar),
            *information_histograms(bar),
            *ece_bars(calibration, notes),
            *reliability_plots(calibration, notes),
            *perceptual_bars(distances),
            *radar(lines, calibration),
            *densities(first, results.scores),
        ],
        stresses(lines),
    )
