"""AUROC of a million scores a side, beside scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.timing import show, timed
from farout import metrics

SCORES = 1_000_000


def main() -> None:
    """AUROC alone, with its DeLong interval, and scikit-learn's AUROC."""
    rng = np.random.default_rng(0)
    inliers, outliers = rng.normal(size=SCORES), rng.normal(1, size=SCORES)
    labels = np.repeat([0, 1], SCORES)
    functions = {
        "numpy.sort of all scores": lambda: np.sort(np.concatenate([inliers, outliers])),
        "farout auroc": lambda: metrics.auroc(inliers, outliers),
        "farout auroc with DeLong interval": lambda: metrics.auroc_interval(inliers, outliers),
        "scikit-learn roc_auc_score": lambda: roc_auc_score(labels, np.concatenate([inliers, outliers])),
    }
    show(f"AUROC of {SCORES:,} × {SCORES:,} scores", timed(functions, 3), "numpy.sort of all scores")


if __name__ == "__main__":
    main()
