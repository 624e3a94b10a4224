"""Columns that the tables of several protocols share, and the key of the subject that a line is about."""

from __future__ import annotations

from typing import Any, NamedTuple

from farout.report.content import COUNT, INTERVAL, LABEL, Column, Line
from farout.study.results import Row

NETWORK = Column("network", LABEL, varying=True)
SEED = Column("seed", LABEL, varying=True)
SEEDS = Column("seeds", COUNT)
DETECTOR = Column("detector", LABEL)
OUTLIERS = Column("outliers", LABEL)
METHOD = Column("method", LABEL)
ATTACK = Column("attack", LABEL)
IMAGES = Column("images", COUNT)
N_INLIERS = Column("n_inliers", COUNT)
N_OUTLIERS = Column("n_outliers", COUNT)
AUROC = Column("auroc", INTERVAL, better="higher")
FPR_AT_95_ID_RECALL = Column("fpr_at_95_id_recall", INTERVAL, better="lower")
FPR_AT_95_OOD_RECALL = Column("fpr_at_95_ood_recall", INTERVAL, better="lower")


class SubjectKey(NamedTuple):
    """Key of a subject: a detector, the network that it reads, and the seed."""

    network: str
    seed: str
    detector: str

    @staticmethod
    def of(row: Row) -> SubjectKey:
        """Return the key of a row."""
        return SubjectKey(*(row.tags[name] for name in SubjectKey._fields))

    @staticmethod
    def in_line(line: Line) -> SubjectKey:
        """Return the key of a table's line."""
        return SubjectKey(line[NETWORK], line[SEED], line[DETECTOR])

    @property
    def line(self) -> dict[Column, Any]:
        """Cells that name the subject of a line."""
        return {NETWORK: self.network, SEED: self.seed, DETECTOR: self.detector}
