"""Pictures of generated sets (Figs. 1, 8, 13–15), histograms of mutual information (Fig. 9), and radar (Fig. 10b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from farout.protocols.raised_bar.calibration import MOST, Calibrated, ece_values
from farout.protocols.raised_bar.entries import NEAR, SHIFTED
from farout.protocols.raised_bar.results import BarResults
from farout.protocols.shared.columns import AUROC, NETWORK, OUTLIERS
from farout.report.content import Histograms, Line, Radar, Sheet, Strip
from farout.study.cells.generate import CLASS, IMAGES
from farout.study.cells.near_ood import LAMBDA, VALUES
from farout.study.results import Row

ACROSS, DOWN = 10, 8
"""Images in a row of a sheet, and largest number of rows."""
LEAST_AXES = 3
"""Smallest number of axes of a radar plot."""


def near_sheets(bar: BarResults) -> list[Sheet]:
    """Return a sheet of Near-OoD images per set: a row per class or, if the generator has none, per λs."""
    return [_near_sheet(bar, row) for label in bar.labels(NEAR) for row in bar.first("set", set=label)]


def _near_sheet(bar: BarResults, row: Row) -> Sheet:
    images = np.load(bar.store.file(row.cell, IMAGES), mmap_mode="r")
    by, what = (CLASS, "class") if CLASS in bar.store.columns(row.cell) else (LAMBDA, "λs")
    groups = bar.store.column(row.cell, by)
    strips = []
    for value in np.unique(groups)[:DOWN]:
        places = np.flatnonzero(groups == value)[:ACROSS]
        strips.append(Strip(f"{what} {value:g}", np.asarray(images[places]), [""] * len(places)))
    title = bar.title(row.tags["set"])
    caption = (
        f"Near-OoD images of {title}: the first {ACROSS} of each {what} of the generator (rows), of {len(images):,}. "
        "They should look like training images in their parts, and show nothing that belongs to a class. Of several "
        "seeds the first is shown."
    )
    return Sheet(f"raised_bar_near_{row.tags['set']}", f"Near-OoD images, {title}", caption, strips)


def shifted_sheets(bar: BarResults) -> list[Sheet]:
    """Return a sheet of test images above their Shifted copies per set, a column per class."""
    rows = [row for label in bar.labels(SHIFTED) for row in bar.first("perceptual", set=label, kind=SHIFTED)]
    return [_shifted_sheet(bar, row) for row in rows]


def _shifted_sheet(bar: BarResults, row: Row) -> Sheet:
    kept = bar.store.arrays(row.cell, "examples.safetensors")
    labels, strips = kept["labels"], []
    across = len(np.unique(labels))
    for start in range(0, len(labels), across):
        part = slice(start, start + across)
        for name, title in (("original_images", "test image"), ("changed_images", "its Shifted copy")):
            words = [f"class {label}" if name == "original_images" else "" for label in labels[part]]
            strips.append(Strip(title, kept[name][part], words))
    title = bar.title(row.tags["set"])
    caption = (
        f"Test images and below each its copy in {title}, a column per class (at most {ACROSS}). A copy should look "
        "different and still show the same class. Of several seeds the first is shown."
    )
    return Sheet(f"raised_bar_shifted_{row.tags['set']}", f"Shifted images, {title}", caption, strips)


def information_histograms(bar: BarResults) -> list[Histograms]:
    """Return histograms of mutual information, of validation and of generated images; a panel per Near-OoD set."""
    panels, counts = {}, []
    for label in bar.labels(NEAR):
        for row, made in zip(bar.first("information", set=label), bar.first("set", set=label), strict=False):
            facts, arrays = bar.store.facts(made.cell), bar.store.arrays(row.cell, VALUES)
            title = f"{bar.title(label)}: kept {facts['low']:.2g} to {facts['high']:.2g}"
            panels[title] = {"validation images": arrays["validation"], "generated images": arrays["generated"]}
            counts.append(len(arrays["validation"]))
    if not panels:
        return []
    caption = (
        f"Mutual information, in nats, of the generators' ensemble on {counts[0]:,} validation images and on as many "
        "generated images, before the filter; horizontal axis: mutual information, 0 where all networks agree. The "
        "panel's title names the interval in which Near-OoD images are kept: that of the study or, by the paper's "
        "rule, from the lowest bound that leaves the least overlap of both to 0.4 above it. Neither "
        "direction is good or bad by itself. Of several seeds the first is shown."
    )
    top = max(float(values.max()) for panel in panels.values() for values in panel.values())
    title = "Mutual information of validation and generated images"
    return [Histograms("raised_bar_information", title, caption, panels, (0.0, max(top, 1e-3)))]


def radar(detection: Sequence[Line], found: Sequence[Calibrated]) -> list[Radar]:
    """Return radar plots of AUROC and of calibration by network, one axis per image set; means over seeds."""
    every = {"AUROC, mean over detectors": _areas(detection), "1 − calibration error": _calibration(found)}
    panels = {title: frame for title, frame in every.items() if frame.shape[1] >= LEAST_AXES}
    if not panels:
        return []
    caption = (
        "Networks (lines) on all image sets (axes), each from 0 in the center to 1; farther out is better. AUROC: mean "
        "over the detectors, 0.5 is chance. 1 − calibration error: on test images, on corrupted ones (mean over types) "
        "and on Shifted sets. Lines that do not cross show networks in the same order on all sets. Means over seeds; "
        "numbers of images: see the tables."
    )
    return [Radar("raised_bar_radar", "Networks on all image sets", caption, panels)]


def _areas(detection: Sequence[Line]) -> pd.DataFrame:
    """Return the mean AUROC over detectors and seeds by network and outlier set."""
    values: dict[str, dict[str, list[float]]] = {}
    for line in detection:
        values.setdefault(line[OUTLIERS], {}).setdefault(line[NETWORK], []).append(line[AUROC][0])
    return _wide({name: {key: float(np.mean(part)) for key, part in by.items()} for name, by in values.items()})


def _calibration(found: Sequence[Calibrated]) -> pd.DataFrame:
    """Return 1 − ECE by network and image set; of corruptions the mean alone."""
    known = {name: by for name, by in ece_values(found).items() if name != MOST}
    return _wide({name: {key: 1 - value for key, value in by.items()} for name, by in known.items()})


def _wide(values: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Return a frame with a row per network and a column per image set."""
    return pd.DataFrame({name: pd.Series(dict(by), dtype=float) for name, by in values.items()})
