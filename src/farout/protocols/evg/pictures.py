"""Pictures of `evg`: worst cases (the paper's Figs. 3, 4), and the same outliers against all detectors (6, 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farout.protocols.evg.realism import Flags
from farout.protocols.evg.results import Found, Reading, methods, titled
from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.pairs import span
from farout.report.content import Sheet, Strip

GAP = 2
"""Pixels between a picture before and after."""
Pictures = NDArray[np.uint8]


def sheets(reading: Reading, flags: Flags) -> list[Sheet]:
    """Return two sheets per outlier set and variation, with a row per detector; of the first seed."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for one in reading.of_first_seed:
        groups.setdefault((one.search.outliers, one.search.variation), []).append(one)
    figures: list[Sheet] = []
    for (outliers, variation), found in groups.items():
        where = ", ".join([*([outliers] if reading.several_sets else []), titled(variation)])
        lowest = _lowest(found)
        labels = _labels(reading, lowest, several=len(methods(found)[variation]) > 1)
        figures.append(_worst(f"evg_worst_{len(figures)}", where, lowest, labels, flags))
        figures += _same(f"evg_same_{len(figures)}", where, lowest, labels)
    return figures


def _lowest(found: Sequence[Found]) -> list[Found]:
    """Return every detector's search with the lowest AUROC."""
    lowest: dict[SubjectKey, Found] = {}
    for one in found:
        if one.subject not in lowest or one.auroc.value < lowest[one.subject].auroc.value:
            lowest[one.subject] = one
    return list(lowest.values())


def _labels(reading: Reading, found: Sequence[Found], several: bool) -> list[str]:
    """Return the names of the detectors, with the method of the search if several were run."""
    return [reading.names[one.subject] + (f" · {one.search.method}" if several else "") for one in found]


def _worst(name: str, where: str, found: Sequence[Found], labels: Sequence[str], flags: Flags) -> Sheet:
    """Return the worst cases with the lowest scores of each detector, beside the originals if there are any."""
    strips, varied, flagged = [], False, False
    for one, label in zip(found, labels, strict=True):
        kept = one.examples()
        images, bases = kept["lowest_images"], kept.get("lowest_bases")
        varied = varied or bases is not None
        pictures = images if bases is None else _beside(bases, images)
        ranks, noise = _ranks(one, kept["lowest"], varied=bases is not None), flags.get((one.subject, one.search))
        if noise is not None:
            flagged = True
            ranks = [
                f"{text}, noise" if noise[chain] else text for text, chain in zip(ranks, kept["lowest"], strict=True)
            ]
        strips.append(Strip(label, pictures, ranks, one.subject.detector, titled(one.search.variation)))
    caption = "Worst cases with the lowest scores of each detector (row), found by a search against this detector"
    caption += ": left the unchanged outlier, right its worst case. " if varied else ". "
    caption += _meaning(found, varied)
    caption += " noise: further from the generator's training images than real images are." if flagged else ""
    return Sheet(name, f"Worst cases with the lowest scores, {where}", caption, strips)


def _same(name: str, where: str, found: Sequence[Found], labels: Sequence[str]) -> list[Sheet]:
    """Return the first outliers and their worst cases against each detector; an empty list if none were varied."""
    strips: list[Strip] = []
    for one, label in zip(found, labels, strict=True):
        kept = one.examples()
        if "first_bases" not in kept:
            continue
        if not strips:
            index = one.column("index")
            words = [f"image {index[chain]}" for chain in kept["first"]]
            strips.append(Strip("original", kept["first_bases"], words, stress=titled(one.search.variation)))
        ranks, stress = _ranks(one, kept["first"], varied=True), titled(one.search.variation)
        strips.append(Strip(label, kept["first_images"], ranks, one.subject.detector, stress))
    caption = (
        "The first outliers of the set, not selected by score: unchanged in the first row, below it their worst cases "
        "against each detector. "
    )
    title = f"Worst cases of the same outliers against every detector, {where}"
    return [Sheet(name, title, caption + _meaning(found, varied=True), strips)] if strips else []


def _meaning(found: Sequence[Found], varied: bool) -> str:
    count = span(len(one.inliers) for one in found)
    before = ", before → after the search" if varied else ""
    return (
        f"Below each picture its rank: how many of the {count} inliers score strictly below it{before}. A "
        "higher rank is better; at 0 no inlier looks more normal to the detector. Of several seeds the first is shown."
    )


def _ranks(one: Found, chains: NDArray[np.int64], *, varied: bool) -> list[str]:
    """Return the ranks of the worst cases of these chains, after those of the unchanged outliers if there are any."""
    after = [f"{int((one.inliers < one.scores[chain]).sum())}" for chain in chains]
    if not varied or not len(one.clean):
        return [f"rank {rank}" for rank in after]
    before = [f"{int((one.inliers < one.clean[chain]).sum())}" for chain in chains]
    return [f"{first} → {then}" for first, then in zip(before, after, strict=True)]


def _beside(left: Pictures, right: Pictures) -> Pictures:
    """Return pairs of pictures side by side, with white pixels between them."""
    white = np.full((*left.shape[:2], GAP, left.shape[3]), 255, np.uint8)
    return np.concatenate([left, white, right], axis=2)
