"""Figures of `attributes`: heat maps, score densities and overlaps."""

from __future__ import annotations

import pandas as pd

from farout.protocols.attributes.results import CONDITIONS, uncorrupted
from farout.protocols.shared.pairs import Pair, densities
from farout.report.content import (
    Densities,
    HeatMap,
    Histograms,
    Shown,
)
from farout.study.results import Results


def density_figures(results: Results, found: list[Pair], condition: str) -> list[Densities]:
    wanted = condition == CONDITIONS[0]
    return densities(found, lambda row: results.scores(row)[uncorrupted(results, row) == wanted], f"{condition} images")


def heat_maps(middle: pd.DataFrame) -> list[Shown]:
    """By attribute for every network; and, where there are several, by network for every attribute as in the paper."""
    title = "Which attribute breaks the detector"
    parts = {f"{condition} images": middle[middle["condition"] == condition] for condition in CONDITIONS}
    if middle["network"].nunique() == 1:
        panels = {name: _wide(part, "outliers") for name, part in parts.items()}
        return [HeatMap("attributes_auroc", title, _HEAT, panels)]
    figures: list[Shown] = []
    for name, part in parts.items():
        for panel, columns, what in (("outliers", "network", "AUROC by network"), ("network", "outliers", title)):
            panels = {str(value): _wide(group, columns) for value, group in part.groupby(panel, sort=False)}
            figures.append(HeatMap(f"by_{columns}_{name.split()[0]}", f"{what}, {name}", _HEAT, panels))
    return figures


_HEAT = (
    "AUROC (over several seeds, their median); red: below chance, images with the shifted attribute look more normal "
    "than inliers."
)


def _wide(part: pd.DataFrame, columns: str) -> pd.DataFrame:
    """AUROC of detectors by `columns`, in the order of the study."""
    detectors, names = (list(dict.fromkeys(part[key])) for key in ("detector", columns))
    wide = part.pivot_table(index="detector", columns=columns, values="auroc", sort=False)
    return wide.reindex(index=detectors, columns=names)


def overlap_histograms(frame: pd.DataFrame) -> Histograms:
    """How much the scores of inliers and outliers overlap, over all detectors, networks and seeds (Fig. 4)."""
    panels = {
        scenario: {
            condition: group[group["condition"] == condition]["overlap"].dropna().to_numpy() for condition in CONDITIONS
        }
        for scenario, group in frame.groupby("outliers", sort=False)
    }
    caption = (
        "Overlap coefficients of all detectors, networks and seeds, without and with corruption of the images; 0: the "
        "scores of inliers and outliers are apart, 1: they look alike."
    )
    return Histograms("overlaps", "Overlap of scores", caption, {str(k): v for k, v in panels.items()}, (0.0, 1.0))
