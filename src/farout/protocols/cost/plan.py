"""`cost`: inference time of every detector, as in Table 1 of Yoon et al. 2022."""

from __future__ import annotations

from farout.protocols.base import PROTOCOLS, Protocol
from farout.protocols.cost.tables import summarize
from farout.report.content import Summary
from farout.study.cells.cell import Entry
from farout.study.cells.cost import BATCH, CostCell
from farout.study.results import Results
from farout.study.sources.images import FirstImages
from farout.study.study import Study


@PROTOCOLS.register("cost")
class Cost(Protocol):
    """Inference time: seconds per 10,000 images of every detector, on the run's device (Yoon et al. 2022, table 1)."""

    name = "cost"
    by_name = True

    def unsuited(self, study: Study) -> str | None:
        return None

    def plan(self, study: Study) -> list[Entry]:
        entries = []
        for trial in study.trials[:1]:
            images = FirstImages(trial.inliers.test, BATCH)
            for subject in trial.subjects:
                tags = {"network": subject.network, "seed": str(trial.seed), "detector": subject.label}
                entries.append(Entry(self.name, CostCell(subject, images, study.device, study.machine), tags))
        return entries

    @classmethod
    def summarize(cls, results: Results) -> Summary:
        return summarize(results, cls.name)
