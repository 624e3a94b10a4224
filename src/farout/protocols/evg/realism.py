"""Images of the generators that `evg` searches: real beside generated (Fig. 8), and worst cases that are noise.

The paper notes that a search may end in images that are noise (appendix B.5) and keeps them; here they are flagged. An
image is flagged if the distance of its features to the nearest image that the generator was trained on exceeds that of
99 % of these images to their own nearest neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout.metrics import fid
from farout.protocols.evg.latents import FOUND, REAL, ROLE, SAMPLES
from farout.protocols.evg.results import Reading, SearchKey, titled
from farout.protocols.shared.columns import DETECTOR, METHOD, NETWORK, OUTLIERS, SEED, SubjectKey
from farout.protocols.shared.pairs import Array
from farout.report.content import COUNT, LABEL, VALUE, Column, Sheet, Strip, Table
from farout.study.cells.features import read_features
from farout.study.results import Results, Row

EXPECTED = 0.01
"""Fraction of the training images themselves that lies beyond the threshold."""
Flags = dict[tuple[SubjectKey, SearchKey], NDArray[np.bool_]]
VARIATION, CHAINS = Column("variation", LABEL), Column("chains", COUNT)
NOISE, NOISE_SAMPLES, FID = Column("noise", VALUE), Column("noise_samples", VALUE), Column("fid", VALUE)
FEATURES, IMAGES = Column("features_of", LABEL), Column("images", COUNT)


@dataclass(frozen=True)
class Generated:
    """Images of one generator: features and pictures of real images and of samples."""

    real: Array
    samples: Array
    network: str
    pictures: dict[str, NDArray[np.uint8]]
    found: list[tuple[Row, NDArray[np.bool_]]]
    """Searches of its latent, with the flag of every worst case."""

    @property
    def threshold(self) -> float:
        """Largest distance to the nearest training image of an image that is not flagged."""
        return threshold(self.real)

    @property
    def noise_samples(self) -> float:
        """Fraction of plain samples that are flagged."""
        return float((nearest(self.samples, self.real) > self.threshold).mean())


def threshold(real: Array) -> float:
    """Return the distance to the nearest other image that 99 % of the real images do not exceed."""
    return float(np.quantile(nearest(real, real, itself=True), 1 - EXPECTED))


def nearest(rows: Array, bank: Array, *, itself: bool = False) -> Array:
    """Return the Euclidean distance of every row [N, D] to the nearest row of the bank [M, D].

    itself: the rows are those of the bank, and none is its own neighbor.
    """
    distances = np.empty(len(rows))
    norms = (bank**2).sum(1)
    for start in range(0, len(rows), 512):
        part = rows[start : start + 512]
        squared = (part**2).sum(1)[:, None] + norms - 2 * part @ bank.T
        if itself:
            squared[np.arange(len(part)), start + np.arange(len(part))] = np.inf
        distances[start : start + 512] = np.sqrt(squared.min(1).clip(0))
    return distances


def read_generated(results: Results, protocol: str) -> dict[tuple[str, str, str], Generated]:
    """Return the generators' images by seed, outlier set and variation; those with features of both kinds."""
    rows: dict[tuple[str, str, str], dict[str, list[Row]]] = {}
    for row in results.done(protocol):
        if row.tags["role"] == ROLE:
            key = (row.tags["seed"], row.tags["outliers"], row.tags["variation"])
            rows.setdefault(key, {}).setdefault(row.tags["part"], []).append(row)
    return {key: _generated(results, parts) for key, parts in rows.items() if {REAL, SAMPLES} <= parts.keys()}


def _generated(results: Results, parts: dict[str, list[Row]]) -> Generated:
    real, samples = (read_features(results.store, parts[name][0].cell).astype(np.float64) for name in (REAL, SAMPLES))
    limit = threshold(real)
    found = [
        (row, nearest(read_features(results.store, row.cell).astype(np.float64), real) > limit)
        for row in parts.get(FOUND, [])
    ]
    pictures = {
        name: results.store.arrays(parts[name][0].cell, "examples.safetensors")["first_images"]
        for name in (REAL, SAMPLES)
    }
    return Generated(real, samples, parts[REAL][0].tags["network"], pictures, found)


def flags(generated: dict[tuple[str, str, str], Generated]) -> Flags:
    """Return the flags of all worst cases by detector and search."""
    return {
        (SubjectKey.of(row), SearchKey(row.tags["outliers"], row.tags["variation"], row.tags["method"])): flagged
        for one in generated.values()
        for row, flagged in one.found
    }


def realism_tables(generated: dict[tuple[str, str, str], Generated]) -> list[Table]:
    """Return a line per search of a generator's latent; an empty list if there is none."""
    lines = [_line(row, flagged, one) for one in generated.values() for row, flagged in one.found]
    if not lines:
        return []
    caption = (
        "Worst cases in the latent of a generator that are noise rather than images (appendix B.5 of the paper). "
        "noise: the fraction of worst cases whose features are further from the nearest image that the generator was "
        "trained on than those of 99 % of these images are from their own nearest neighbors; noise_samples: the same "
        f"fraction of plain samples of the generator. About {EXPECTED:g} is expected of real images; where noise is "
        "far above noise_samples, the AUROC and MinRank of the search are largely those of noise. fid: Fréchet "
        "distance of samples and real images, so many each (images); lower is better. features_of: the network whose "
        "features are compared."
    )
    return [Table("evg_generated", "Worst cases that are noise", caption, lines)]


def _line(row: Row, flagged: NDArray[np.bool_], one: Generated) -> dict[Column, Any]:
    tags = row.tags
    return {
        NETWORK: tags["network"], SEED: tags["seed"], DETECTOR: tags["detector"], OUTLIERS: tags["outliers"],
        VARIATION: titled(tags["variation"]), METHOD: tags["method"], CHAINS: len(flagged),
        NOISE: float(flagged.mean()), NOISE_SAMPLES: one.noise_samples, FID: fid(one.samples, one.real),
        IMAGES: len(one.samples), FEATURES: one.network,
    }  # fmt: skip


def realism_sheets(generated: dict[tuple[str, str, str], Generated], reading: Reading) -> list[Sheet]:
    """Return a sheet per generator of the first seed: real images above generated ones (the paper's Fig. 8)."""
    sheets: list[Sheet] = []
    first = next(iter(generated), ("", "", ""))[0]
    for (seed, outliers, variation), one in generated.items():
        if seed == first:
            where = ", ".join([*([outliers] if reading.several_sets else []), titled(variation)])
            caption = (
                f"Images of {outliers} that the generator was trained on, and samples of it; neither are selected. FID "
                f"{fid(one.samples, one.real):.3g} on features of {one.network}, {len(one.samples):,} images each: "
                "lower is better. Worst cases can be trusted as far as samples look like the real images."
            )
            strips = [Strip(name, one.pictures[part], [""] * len(one.pictures[part]))
                      for name, part in (("real", REAL), ("generated", SAMPLES))]  # fmt: skip
            sheets.append(
                Sheet(f"evg_generated_{len(sheets)}", f"Real and generated outliers, {where}", caption, strips)
            )
    return sheets
