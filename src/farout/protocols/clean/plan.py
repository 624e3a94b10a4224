"""`clean`: unchanged inlier test images against unchanged outlier sets, the baseline of every other protocol."""

from __future__ import annotations

from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.clean.tables import summarize
from farout.protocols.shared.budgets import IMAGES
from farout.protocols.shared.pairs import scored
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.results import Results
from farout.study.study import Study


@PROTOCOLS.register("clean")
class Clean(Protocol):
    """Standard evaluation: every detector scores the inlier test images and every outlier set, unchanged."""

    name = "clean"

    def plan(self, study: Study) -> list[Entry]:
        return [
            entry for trial in study.trials for entry in scored(self.name, trial, trial.outliers, IMAGES[study.budget])
        ]

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)
