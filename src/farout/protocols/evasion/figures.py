"""Figures of `evasion`: AUROC by attack, and how attention maps change (the paper's Fig. 1), with examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from farout.protocols.evasion.results import EvasionResults
from farout.protocols.shared.columns import ATTACK, NETWORK, OUTLIERS, SEED
from farout.protocols.shared.pairs import OWN, SHOWN, span
from farout.report.content import LABEL, Column, DensityMap, HeatMap, Line, Sheet, Strip, frame_of
from farout.study.results import Row

LIMITS = (0.0, 0.3), (-0.2, 1.0)
"""Smallest ranges of L2 and SSIM that the density maps show; two scaled maps rarely differ by more."""
OF, MADE_ON = Column("of", LABEL), Column("made_on", LABEL)


def at_home(detection: Sequence[Line]) -> list[Line]:
    """Return the lines of all images, of detectors that read the attacked network or no known one."""
    return [line for line in detection if line[OF] == "all" and not (line[MADE_ON] and line[NETWORK])]


def under(line: Line) -> str:
    """Return the title of a line's attack, with the outlier set or the attacked network if the line names one."""
    return " ".join(filter(None, (line[ATTACK], line.get(OUTLIERS, ""), line.get(MADE_ON, ""))))


def stress_name(line: Line) -> str:
    """Return the name of the stress that a line's attack is."""
    return f"{under(line)} attack"


def overview(detection: Sequence[Line], disguised: Sequence[Line]) -> list[HeatMap]:
    """Return AUROC of every detector under every attack on its own network or on itself; of the first seed."""
    lines = [{**line, ATTACK: under(line)} for line in [*at_home(detection), *disguised]]
    if not lines:
        return []
    frame = frame_of([line for line in lines if line[SEED] == lines[0][SEED]])
    panels = {
        str(network or OWN): part.pivot_table(index="detector", columns="attack", values="auroc", sort=False)
        for network, part in frame.groupby("network", sort=False)
    }
    caption = (
        "AUROC of attacked images (outliers) against the unchanged test images, by detector (row) and attack (column). "
        "For attacks on the detector itself each detector is tested on the images attacked on it; a column that names "
        "an outlier set has outliers of that set, changed to look normal. Higher (blue) is better: 1 is ideal, 0.5 is "
        "chance. Red: attacked images look more normal to the detector than test images. Numbers of images: see the "
        "tables. Of several seeds the first is shown."
    )
    return [HeatMap("evasion_auroc", "Heat map of AUROC by detector and attack", caption, panels)]


def attention_figures(found: EvasionResults) -> Iterator[DensityMap | Sheet]:
    """Yield, of the first seed, density maps of L2 and SSIM by attack, and the examples whose maps change most."""
    rows = found.rows("attention")
    by_network: dict[str, list[Row]] = {}
    for row in rows:
        if row.tags["seed"] == rows[0].tags["seed"]:
            by_network.setdefault(row.tags["network"], []).append(row)
    for network, part in by_network.items():
        yield _density(found, network, part)
        yield _pairs(found, network, part)


def _density(found: EvasionResults, network: str, rows: list[Row]) -> DensityMap:
    panels = {row.tags["attack"]: np.stack([found.column(row, name) for name in ("l2", "ssim")], 1) for row in rows}
    caption = (
        "Change of the network's attention under each attack (panel): an image's Grad-CAM map before the attack is "
        "compared with the map after it. Horizontal axis: L2, the mean squared difference of the two maps, each scaled "
        "to [0, 1] (0: no change); vertical axis: their SSIM (1: the same structure). Dark: many images; the cross: "
        f"the medians of {span(map(len, panels.values()))} images. Upper left: attention stays where it was; lower "
        "right: the maps have little in common; high L2 with high SSIM: the same structure elsewhere. Neither "
        "direction is good or bad by itself. Of several seeds the first is shown."
    )
    labels = "L2 of the maps", "SSIM of the maps"
    every = np.concatenate(list(panels.values()))
    l2, ssim = ((min(low, one.min()), max(high, one.max())) for one, (low, high) in zip(every.T, LIMITS, strict=True))
    return DensityMap(
        f"evasion_attention_{network}",
        f"Change of attention under attack, {network}",
        caption,
        panels,
        labels,
        (l2, ssim),
    )


def _pairs(found: EvasionResults, network: str, rows: list[Row]) -> Sheet:
    strips = []
    for row in rows:
        kept, l2 = found.results.store.arrays(row.cell, "examples.safetensors"), found.column(row, "l2")
        for title, key in (("", "before"), ("its map", "map_before"), ("attacked", "after"), ("its map", "map_after")):
            images = kept.get(f"most_{key}", np.empty(0))[:SHOWN]
            if len(images):
                words = [f"{l2[position]:.2f}" if key == "map_after" else "" for position in kept["most"][:SHOWN]]
                strips.append(Strip(title or row.tags["attack"], images, words, stress=row.tags["attack"]))
    caption = (
        "Examples of successful attacks (classified correctly before, misclassified after) whose attention maps change "
        f"most, at most {SHOWN} per attack. Rows from top to bottom: the image, its Grad-CAM map, the attacked image, "
        "its map. Below: L2, the mean squared difference of the two maps, each scaled to [0, 1]. Of several seeds the "
        "first is shown."
    )
    return Sheet(
        f"evasion_pairs_{network}", f"Examples with the largest change of attention, {network}", caption, strips
    )
