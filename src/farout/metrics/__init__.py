"""Metrics of out-of-distribution detection, calibration and generated images.

Where scores of inliers and outliers are compared, inlier scores come first; larger scores are more outlying.
"""

from farout.metrics.agreement import Agreement, rank_agreement, rank_agreements, representatives
from farout.metrics.bootstrap import bootstrap_interval, bootstrap_intervals
from farout.metrics.calibration import Reliability, ece, ece_interval, reliability
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
from farout.metrics.frechet import Moments, fid, fid_interval, frechet_distance
from farout.metrics.information import mutual_information
from farout.metrics.intervals import Comparison, Interval, auroc_interval, mean_interval, paired_test
from farout.metrics.manifold import PRDC, prdc
from farout.metrics.multiplicity import holm
from farout.metrics.setups import generalizability, setup_auroc
from farout.metrics.similarity import lpips, ssim

__all__ = [
    "PRDC",
    "Agreement",
    "Comparison",
    "Interval",
    "Moments",
    "Reliability",
    "aupr",
    "auroc",
    "auroc_interval",
    "bootstrap_interval",
    "bootstrap_intervals",
    "detection_accuracy",
    "ece",
    "ece_interval",
    "fid",
    "fid_interval",
    "fpr_at_95_id_recall",
    "fpr_at_95_ood_recall",
    "frechet_distance",
    "generalizability",
    "generalizability_score",
    "holm",
    "lpips",
    "mean_interval",
    "min_rank",
    "mutual_information",
    "overlap",
    "paired_test",
    "prdc",
    "rank_agreement",
    "rank_agreements",
    "reliability",
    "representatives",
    "setup_auroc",
    "ssim",
]
