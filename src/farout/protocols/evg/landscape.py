"""Score landscape (left panel of the paper's Fig. 2): one outlier's scores, and the lowest states of all chains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from farout.protocols.evg.figures import standardized
from farout.protocols.evg.results import Reading
from farout.protocols.shared.columns import SubjectKey
from farout.protocols.shared.named import create_components
from farout.protocols.shared.pairs import Array
from farout.registry import Named
from farout.report.content import Landscapes, Surface
from farout.study.cells.search import FOUND
from farout.study.results import Results, Row
from farout.variations import VARIATIONS
from farout.variations.variation import Variation

POINTS, ENDS = 4096, 16
"""Points of a landscape, drawn uniformly, and chains per method."""
NEAR = 0.1
"""Distance to the lowest known score within which a chain counts as successful, in standard deviations of inlier
scores."""
ROLE = "landscape"


def plane(landscape: Named) -> Variation:
    """Return the variation of two coordinates that a landscape is drawn over."""
    ((label, variation),) = create_components("landscape", VARIATIONS, [landscape]).items()
    if variation.dim != 2 or variation.domain != "cube" or not variation.conditional:
        raise ValueError(
            f"a landscape needs a variation of outliers with two coordinates in a cube, got {label} with "
            f"{variation.dim}: select two, as in {{name: slice, of: affine, free: [rotation, scale]}}"
        )
    return variation


def landscapes(results: Results, protocol: str, reading: Reading) -> list[Landscapes]:
    """Return a figure with a panel per detector and method; an empty list if no landscape is stored."""
    rows = [row for row in results.done(protocol) if row.tags["role"].partition(":")[0] == ROLE]
    rows = [row for row in rows if row.tags["seed"] == rows[0].tags["seed"]]
    inliers = {one.subject: one.inliers for one in reading.clean.values()}
    panels: dict[str, Surface] = {}
    for subject in dict.fromkeys(SubjectKey.of(row) for row in rows):
        if subject in inliers:
            own = [row for row in rows if SubjectKey.of(row) == subject]
            panels |= _panels(results, own, reading.names[subject], inliers[subject])
    if not panels:
        return []
    x, y = rows[0].tags["axes"].split("\n")
    caption = (
        f"Score of one outlier ({rows[0].tags['outliers']}) over two coordinates of its variation, each from its lower "
        f"to its upper bound, at {POINTS:,} random points: dark is low, that is, the detector takes the image for an "
        f"inlier; the cross is the lowest point. Circles: the lowest state of each of the {ENDS} chains of a search "
        "method. In brackets, how many of these chains came within "
        f"{NEAR} standard deviations of inlier scores of the lowest score of all points and chains; the more, the "
        "better the method searches. A method that gets stuck leaves circles in other valleys. Of several seeds the "
        "first is shown."
    )
    return [
        Landscapes(
            "evg_landscape", f"Score landscape of one outlier, {rows[0].tags['variation']}", caption, panels, (x, y)
        )
    ]


def _panels(results: Results, rows: Sequence[Row], name: str, inliers: Array) -> dict[str, Surface]:
    """Return the panels of one detector, by method."""
    scores = {row.tags["role"]: standardized(results.scores(row), inliers) for row in rows}
    latents = {row.tags["role"]: results.store.arrays(row.cell, FOUND)["latents"].astype(np.float64) for row in rows}
    if ROLE not in scores:
        return {}
    lowest = min(values.min() for values in scores.values())
    panels = {}
    for role, ends in latents.items():
        if role != ROLE:
            near = int((scores[role] <= lowest + NEAR).sum())
            title = f"{name} · {role.partition(':')[2]} ({near} of {len(ends)})"
            panels[title] = Surface(latents[ROLE], scores[ROLE], ends)
    return panels
