"""Distances of generated sets: FID to the training images (Fig. 5), perceptual distance to the originals (Fig. 10a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from farout.metrics import Interval, mean_interval
from farout.protocols.raised_bar.entries import NEAR, NOISE, PLAIN, SHIFTED
from farout.protocols.raised_bar.results import BarResults, Distance
from farout.protocols.shared.columns import IMAGES
from farout.report.content import COUNT, INTERVAL, LABEL, VALUE, Bars, Column, Line, Table
from farout.study.cells.perceptual import AT_EQUAL_L2, DISTANCE, L2
from farout.study.quality import UNDERTRAINED
from farout.study.results import Row

SET, KIND, OF, FEATURES = (Column(name, LABEL) for name in ("set", "kind", "of", "features"))
FID = Column("fid", INTERVAL)
PLAIN_FID, NOISE_FID = (Column(name, VALUE) for name in ("fid_plain_generator", "fid_uniform_noise"))
QUALITY = Column("quality", LABEL)
LOW, HIGH, KEPT = (Column(name, VALUE) for name in ("mi_low", "mi_high", "share_kept"))
N = Column("n", COUNT)
EQUAL, BEFORE, LENGTH = (Column(name, INTERVAL) for name in ("distance_at_equal_l2", "distance", "l2"))


def sets_table(bar: BarResults) -> list[Table]:
    """Return the table of the generated sets: size, interval of mutual information, and quality."""
    lines = [
        _set_line(bar, row)
        for kind in (NEAR, SHIFTED)
        for label in bar.labels(kind)
        for row in bar.first("set", set=label)
    ]
    if not lines:
        return []
    caption = (
        "Sets that generators made from the inliers alone. kind: near (near the training images, of none of their "
        "classes) or shifted (test images changed so that they keep their class). mi_low, mi_high: mutual information "
        "in nats that a Near-OoD image must have; share_kept: the fraction of all samples that have it. fid: FID to "
        "the training images on the features of the network named, of n images each, lower is nearer; in brackets its "
        "95 % interval (for sets of this size). fid_plain_generator: of the same generator trained without the losses "
        "of the raised bar; none of a generator from a file, which the study does not train. fid_uniform_noise: of "
        f"noise. quality: undertrained if fid is more than {UNDERTRAINED:g} of that of noise; such a set enters no "
        "rank."
    )
    return [Table("raised_bar_sets", "Generated sets", caption, lines)]


def _set_line(bar: BarResults, row: Row) -> Line:
    label, facts = row.tags["set"], bar.store.facts(row.cell)
    line: dict[Column, Any] = {SET: label, KIND: row.tags["kind"], IMAGES: facts["images"]}
    names = {LOW: "low", HIGH: "high", KEPT: "share_kept"}
    line |= {column: facts[name] for column, name in names.items() if name in facts}
    own = [one for one in bar.distances.get(label, []) if one.of == label]
    quality = bar.quality(label)
    if own and quality:
        line |= {FEATURES: quality.features, N: quality.images, FID: own[0].fid}
        line |= {PLAIN_FID: quality.plain, NOISE_FID: quality.noise}
    words = "unknown" if quality is None else "undertrained" if quality.undertrained else "trained"
    return {**line, QUALITY: words}


def fid_table(bar: BarResults) -> list[Table]:
    """Return the table of all FIDs; empty if there is no result."""
    lines: list[Line] = [
        {SET: label, OF: one.of, KIND: one.kind, FEATURES: one.network, N: one.images, FID: one.fid}
        for label, found in bar.distances.items()
        for one in sorted(found, key=lambda one: one.fid.value)
    ]
    if not lines:
        return []
    caption = (
        "FID to the training images of a generated set and of the sets that it is compared with, nearest first; in "
        "brackets its 95 % interval for sets of this size. Lower is nearer. All FIDs of a set are of the same number n "
        "of images and on the features of the same network, so that they can be compared with each other, and with no "
        "others. test: the FID that real images of the same distribution have."
    )
    return [Table("raised_bar_fid", "FID to the training images", caption, lines)]


def fid_bars(bar: BarResults) -> list[Bars]:
    """Return bars of FID, a figure per generated set."""
    return [_fid_bars(number, bar.title(label), found) for number, (label, found) in enumerate(bar.distances.items())]


def _fid_bars(number: int, title: str, found: Sequence[Distance]) -> Bars:
    first = sorted(found, key=lambda one: (one.kind not in (NEAR, SHIFTED), one.kind in (PLAIN, NOISE)))
    frame = pd.DataFrame(
        [(one.of, one.kind, *one.fid) for one in first], columns=["bar", "group", "value", "low", "high"]
    )
    caption = (
        f"FID to the training images on the penultimate features of {found[0].network}, of {found[0].images:,} images "
        "each; lower is nearer. The first bar and the solid line: the generated set. test: real images of the same "
        "distribution; plain generator: the same generator trained without the losses of the raised bar. For Near-OoD "
        "lower is better: it should be nearer than conventional outlier sets; Shifted may be as far as corruptions. "
        "Whiskers: 95 % intervals."
    )
    limit = 1.05 * max(float(frame["high"].max()), 1e-6)
    name = f"raised_bar_fid_{number}"
    return Bars(name, f"FID to the training images, {title}", caption, {title: frame}, "FID", limit, chance=None)


class Perceived(NamedTuple):
    """Perceptual distance of changed images to their originals: means over images, with their intervals."""

    set: str
    of: str
    kind: str
    network: str
    form: str
    radius: float
    """L2 distance at which changes are compared."""
    images: int
    equal: Interval
    before: Interval
    length: Interval


def perceived(bar: BarResults) -> list[Perceived]:
    """Return the perceptual distances that are stored, of the first seed."""
    return [_perceived(bar, row) for label in bar.labels(SHIFTED) for row in bar.first("perceptual", set=label)]


def _perceived(bar: BarResults, row: Row) -> Perceived:
    facts, tags = bar.store.facts(row.cell), row.tags
    of = bar.title(tags["of"]) if tags["kind"] == SHIFTED else tags["of"]
    means = (mean_interval(bar.store.column(row.cell, name)) for name in (AT_EQUAL_L2, DISTANCE, L2))
    return Perceived(
        bar.title(tags["set"]),
        of,
        tags["kind"],
        facts["network"],
        facts["form"],
        facts["l2"],
        facts["images"],
        *means,
    )


def perceptual_table(found: Sequence[Perceived]) -> list[Table]:
    """Return the table of perceptual distances; empty if there is no result."""
    lines: list[Line] = [
        {
            SET: one.set,
            OF: one.of,
            KIND: one.kind,
            FEATURES: one.network,
            IMAGES: one.images,
            EQUAL: one.equal,
            BEFORE: one.before,
            LENGTH: one.length,
        }
        for one in sorted(found, key=lambda one: (one.set, -one.equal.value))
    ]
    if not lines:
        return []
    caption = (
        f"Mean perceptual distance of changed images to their originals, {_form(found[0])}, the farthest first; in "
        "brackets 95 % intervals (Student's t). distance_at_equal_l2: every change is first scaled to the same L2 "
        f"distance, {found[0].radius:.3g}: the paper's 50 at 224 px and three channels, scaled to images of this size "
        "so that the root mean square per value is the same; values are not clipped. distance, l2: both distances "
        "before scaling. A change that is large at equal L2 is one that networks see, and not just noise: "
        "for a Shifted set higher is better, as long as its images keep their class."
    )
    return [Table("raised_bar_perceptual", "Perceptual distance to the originals", caption, lines)]


def _form(one: Perceived) -> str:
    forms = {
        "unit": "summed over the blocks of {}, channels to unit norm",
        "printed": "summed over the blocks of {} as eq. 1 of the paper prints it",
        "lpips": "of {}",
    }
    return forms[one.form].format(one.network)


def perceptual_bars(found: Sequence[Perceived]) -> list[Bars]:
    """Return bars of the perceptual distance at equal L2, a panel per Shifted set."""
    if not found:
        return []
    panels: dict[str, pd.DataFrame] = {}
    for label in dict.fromkeys(one.set for one in found):
        rows = [(one.of, one.kind, *one.equal) for one in found if one.set == label]
        panels[label] = pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])
    caption = (
        f"Mean perceptual distance of {found[0].images:,} changed images to their originals ({_form(found[0])}), every "
        f"change scaled to the L2 distance {found[0].radius:.3g}. The first bar and the solid line: the Shifted set; a "
        "corruption whose bar is shorter changes less of what a network sees. Higher is better for a Shifted set, as "
        "long as its images keep their class. Whiskers: 95 % intervals."
    )
    limit = 1.05 * max(float(frame["high"].max()) for frame in panels.values())
    title = "Perceptual distance at equal L2"
    return [Bars("raised_bar_perceptual_bars", title, caption, panels, "distance", limit, chance=None)]
