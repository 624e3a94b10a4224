"""Columns that the tables of several protocols share, and the key of the detector that a line is about."""

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


class Who(NamedTuple):
    """A detector on a network of one seed."""

    network: str
    seed: str
    detector: str

    @staticmethod
    def of(row: Row) -> Who:
        """Return the detector of a row."""
        return Who(*(row.tags[name] for name in Who._fields))

    @staticmethod
    def in_line(line: Line) -> Who:
        """Return the detector of a table's line."""
        return Who(line[NETWORK], line[SEED], line[DETECTOR])

    @property
    def line(self) -> dict[Column, Any]:
        """The columns that say which detector a line is about."""
        return {NETWORK: self.network, SEED: self.seed, DETECTOR: self.detector}
