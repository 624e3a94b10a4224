"""Measures of `evasion`'s tables, each with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farout import metrics
from farout.metrics.intervals import Interval, clopper_pearson_bounds
from farout.metrics.setups import copied_auroc
from farout.protocols.evasion.results import Test
from farout.protocols.shared.columns import AUROC, FPR_AT_95_ID_RECALL, FPR_AT_95_OOD_RECALL
from farout.report.content import Column

RESAMPLES = 200
"""Bootstrap resamples per interval."""
BOOTSTRAPPED = {
    FPR_AT_95_ID_RECALL: metrics.fpr_at_95_id_recall,
    FPR_AT_95_OOD_RECALL: metrics.fpr_at_95_ood_recall,
}
Line = dict[Column, Any]


def fraction(hits: NDArray[np.bool_]) -> Interval:
    """Return the fraction of hits with its exact interval; NaN if there are no trials."""
    if not len(hits):
        return Interval(*[float("nan")] * 3)
    return Interval(float(hits.mean()), *clopper_pearson_bounds(float(hits.mean()), len(hits), 0.025))


def detection_measures(test: Test, selected: NDArray[np.bool_]) -> Line:
    """Return AUROC and FPR of the selected attacked images; an image and its attacked copy are one cluster."""
    outliers, originals = test.outliers[selected], test.originals[selected]
    auroc = copied_auroc(test.inliers, outliers, originals).share()
    cache = test.results.intervals
    others = cache.bootstrap(BOOTSTRAPPED, test.inliers, outliers, copied=originals, resamples=RESAMPLES)
    return {AUROC: auroc, **others}
