"""`attributes`: SHAPES and CHARS with one attribute shifted at a time, to find which one fools the detector.

"In the known, out of the ordinary: probing OOD detection with synthetic datasets". Inlier test images against images
whose color, class or both are new (the paper's scenarios), or whose size, rotation, position or lighting is new (ours).
30 % of every test split carries a light corruption; uncorrupted inliers are compared with uncorrupted outliers, and
corrupted with corrupted ones (the paper's "with and without image corruption"). Overlaps are computed for every seed;
the paper's Fig. 4 has one per network and detector. The gallery of failures shows all images, corrupted or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from farout.data.scenes.worlds import ATTRIBUTES, WORLDS
from farout.data.shapes_chars import split_name
from farout.protocols.attributes.tables import summarize
from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.shared.pairs import scored
from farout.registry import unknown
from farout.report.content import (
    Summary,
)
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.sources.images import NamedImages
from farout.study.spec import Budget
from farout.study.study import Study, Trial

IMAGES: dict[Budget, int | None] = {"quick": 2_000, "standard": None, "full": None}
"""Largest number of images per test split."""


SCENARIOS = ("hue", "class", "hue+class")
"""Scenarios of the paper: outliers in color, in class, and in both."""


Shift = str | Sequence[str]


@PROTOCOLS.register("attributes")
class Attributes(Protocol):
    """SHAPES or CHARS with one attribute shifted at a time, to find which one fools the detector."""

    name = "attributes"

    def __init__(self, shift: Sequence[Shift] = SCENARIOS) -> None:
        """shift: the scenarios, each an attribute or several: [hue, size, [hue, class]]."""
        if isinstance(shift, str) or not shift:
            raise ValueError(f"shift must list scenarios, such as [hue, size, [hue, class]], got {shift!r}")
        self.shifts = list(dict.fromkeys(map(_parse_shift, shift)))

    def unsuited(self, study: Study) -> str | None:
        for trial in study.trials:
            test = trial.inliers.test
            if not isinstance(test, NamedImages) or test.spec.name not in WORLDS:
                got = test.spec.name if isinstance(test, NamedImages) else test.about.name
                return f"it needs inliers that are rendered from attributes, {' or '.join(WORLDS)}, got {got}"
            if test.spec.split not in ("test", "test/id"):
                return f"the inliers' test split must be test/id, got {test.spec.split}"
        return None

    def plan(self, study: Study) -> list[Entry]:
        return [entry for trial in study.trials for entry in self._scored(trial, IMAGES[study.budget])]

    def _scored(self, trial: Trial, count: int | None) -> list[Entry]:
        test = trial.inliers.test
        assert isinstance(test, NamedImages)
        shifted = {
            _label(shift): NamedImages(test.spec.model_copy(update={"split": split_name(shift)}))
            for shift in self.shifts
        }
        return scored(self.name, trial, shifted, count)

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)


def _parse_shift(shift: Shift) -> frozenset[str]:
    """Return the attributes of one scenario; raise if one is unknown."""
    if not isinstance(shift, str | list | tuple):
        raise ValueError(f"a scenario is an attribute or a list of them, got {shift!r}")
    names = shift.split("+") if isinstance(shift, str) else list(shift)
    for name in names:
        if name not in ATTRIBUTES:
            raise unknown("attribute to shift:", name, ATTRIBUTES)
    if not names:
        raise ValueError(
            f"a scenario must shift at least one attribute, got none; name one or more of {', '.join(ATTRIBUTES)}"
        )
    return frozenset(names)


def _label(shift: frozenset[str]) -> str:
    return "+".join(name for name in ATTRIBUTES if name in shift)
