"""The figures of `evasion`: AUROC by attack, and how attention moves (the paper's Fig. 1) with pairs of examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from farout.protocols.evasion.results import Evaded
from farout.protocols.shared.columns import ATTACK, NETWORK, OUTLIERS, SEED
from farout.protocols.shared.pairs import OWN, SHOWN
from farout.report.content import LABEL, Column, DensityMap, HeatMap, Line, Sheet, Strip, frame_of
from farout.study.results import Row

LIMITS = (0.0, 0.3), (-0.2, 1.0)
"""L2 and SSIM that the densities show at least; two scaled maps rarely differ by more."""
OF, MADE_ON = Column("of", LABEL), Column("made_on", LABEL)


def at_home(detection: Sequence[Line]) -> list[Line]:
    """The lines of all images, for detectors that read the network that was attacked or none that is known."""
    return [line for line in detection if line[OF] == "all" and not (line[MADE_ON] and line[NETWORK])]


def under(line: Line) -> str:
    """The attack of a line, with the outliers that were changed or the network where it is not the detector's."""
    return " ".join(filter(None, (line[ATTACK], line.get(OUTLIERS, ""), line.get(MADE_ON, ""))))


def overview(detection: Sequence[Line], turned: Sequence[Line]) -> list[HeatMap]:
    """AUROC of every detector under every attack at home, of the first seed; outliers by set."""
    lines = [{**line, ATTACK: under(line)} for line in [*at_home(detection), *turned]]
    if not lines:
        return []
    frame = frame_of([line for line in lines if line[SEED] == lines[0][SEED]])
    panels = {
        str(network or OWN): part.pivot_table(index="detector", columns="attack", values="auroc", sort=False)
        for network, part in frame.groupby("network", sort=False)
    }
    caption = (
        "AUROC of attacked images against the test images as they are, by attack; of attacks on the detector itself "
        "those that were made against it. Red: attacked images look more normal than test images."
    )
    return [HeatMap("evasion_auroc", "Which attack fools the detector", caption, panels)]


def attention_figures(found: Evaded) -> Iterator[DensityMap | Sheet]:
    """Of the first seed: where L2 and SSIM lie densest by attack, and the examples whose attention moves most."""
    rows = found.rows("attention")
    by_network: dict[str, list[Row]] = {}
    for row in rows:
        if row.tags["seed"] == rows[0].tags["seed"]:
            by_network.setdefault(row.tags["network"], []).append(row)
    for network, some in by_network.items():
        yield _density(found, network, some)
        yield _pairs(found, network, some)


def _density(found: Evaded, network: str, rows: list[Row]) -> DensityMap:
    panels = {row.tags["attack"]: np.stack([found.column(row, name) for name in ("l2", "ssim")], 1) for row in rows}
    caption = (
        "Grad-CAM maps before and after the attack, all images: dark where many lie, the cross at the medians. At the "
        "upper left attention stays where it was, at the lower right it is another map altogether; high L2 with high "
        "SSIM is the same structure elsewhere."
    )
    labels = "L2 of the maps", "SSIM of the maps"
    every = np.concatenate(list(panels.values()))
    l2, ssim = ((min(low, one.min()), max(high, one.max())) for one, (low, high) in zip(every.T, LIMITS, strict=True))
    return DensityMap(f"evasion_attention_{network}", f"Attention, {network}", caption, panels, labels, (l2, ssim))


def _pairs(found: Evaded, network: str, rows: list[Row]) -> Sheet:
    strips = []
    for row in rows:
        kept, l2 = found.results.store.arrays(row.cell, "examples.safetensors"), found.column(row, "l2")
        for title, key in (("", "before"), ("its map", "map_before"), ("attacked", "after"), ("its map", "map_after")):
            images = kept.get(f"most_{key}", np.empty(0))[:SHOWN]
            if len(images):
                words = [f"{l2[place]:.2f}" if key == "map_after" else "" for place in kept["most"][:SHOWN]]
                strips.append(Strip(title or row.tags["attack"], images, words))
    caption = (
        "Images that were classified right and no longer are, whose attention moves most, by attack: the image and its "
        "map, the attacked image and its map; below the L2 of the two maps."
    )
    return Sheet(f"evasion_pairs_{network}", f"Attention moved, {network}", caption, strips)
