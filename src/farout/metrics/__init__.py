"""Metrics of out-of-distribution detection. Inlier scores come first; larger scores are more outlying."""

from farout.metrics.bootstrap import bootstrap_interval, bootstrap_intervals
from farout.metrics.density import overlap
from farout.metrics.detection import (
    aupr,
    auroc,
    detection_accuracy,
    fpr_at_95_id_recall,
    fpr_at_95_ood_recall,
    generalizability_score,
    min_rank,
)
from farout.metrics.intervals import Comparison, Interval, auroc_interval, paired_test
from farout.metrics.setups import generalizability, setup_auroc

__all__ = [
    "Comparison",
    "Interval",
    "aupr",
    "auroc",
    "auroc_interval",
    "bootstrap_interval",
    "bootstrap_intervals",
    "detection_accuracy",
    "fpr_at_95_id_recall",
    "fpr_at_95_ood_recall",
    "generalizability",
    "generalizability_score",
    "min_rank",
    "overlap",
    "paired_test",
    "setup_auroc",
]
