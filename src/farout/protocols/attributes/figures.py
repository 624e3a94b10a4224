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
    """Return the score distributions of the images of one condition: clean or corrupted."""
    wanted = condition == CONDITIONS[0]
    return densities(found, lambda row: results.scores(row)[uncorrupted(results, row) == wanted], f"{condition} images")


def heat_maps(middle: pd.DataFrame) -> list[Shown]:
    """Return AUROC by attribute for every network and, if there are several, also by network as in the paper."""
    title = "Heat map of AUROC by shifted attribute"
    parts = {f"{condition} images": middle[middle["condition"] == condition] for condition in CONDITIONS}
    if middle["network"].nunique() == 1:
        panels = {name: _wide(part, "outliers") for name, part in parts.items()}
        return [HeatMap("attributes_auroc", title, _HEAT, panels)]
    figures: list[Shown] = []
    for name, part in parts.items():
        for panel, columns, what in (
            ("outliers", "network", "Heat map of AUROC by network"),
            ("network", "outliers", title),
        ):
            panels = {str(value): _wide(group, columns) for value, group in part.groupby(panel, sort=False)}
            figures.append(HeatMap(f"by_{columns}_{name.split()[0]}", f"{what}, {name}", _HEAT, panels))
    return figures


_HEAT = (
    "AUROC of images with a shifted attribute (outliers) against inlier test images, by detector (rows); the median "
    "where there are several seeds. Higher (blue) is better: 1 is ideal, 0.5 is chance. Red: below chance, the shifted "
    "images look more normal to the detector than inliers do. Numbers of images: see the tables."
)


def _wide(part: pd.DataFrame, columns: str) -> pd.DataFrame:
    """Return AUROC by detector (rows) and `columns`, in the order of the study."""
    detectors, names = (list(dict.fromkeys(part[key])) for key in ("detector", columns))
    wide = part.pivot_table(index="detector", columns=columns, values="auroc", sort=False)
    return wide.reindex(index=detectors, columns=names)


def overlap_histograms(frame: pd.DataFrame) -> Histograms:
    """Return histograms of the overlap coefficients of all detectors, networks and seeds (Fig. 4 of the paper)."""
    panels = {
        scenario: {
            condition: group[group["condition"] == condition]["overlap"].dropna().to_numpy() for condition in CONDITIONS
        }
        for scenario, group in frame.groupby("outliers", sort=False)
    }
    caption = (
        "Histogram of overlap coefficients, one value per detector, network and seed; a panel per shifted attribute, "
        "for clean and for corrupted images. Overlap coefficient: the area that the smoothed densities of inlier and "
        "outlier scores share. Lower is better: at 0 the scores are fully separated, at 1 they cannot be told apart."
    )
    return Histograms(
        "overlaps", "Overlap of inlier and outlier scores", caption, {str(k): v for k, v in panels.items()}, (0.0, 1.0)
    )
