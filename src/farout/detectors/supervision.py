"""Supervised detectors: what they learn from outliers."""

from __future__ import annotations

from collections.abc import Mapping

from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.sweeps import Progress, as_many, table_of
from farout.networks.network import Network


def check_outliers(detectors: Mapping[str, PostHoc], outliers: ImageSet | None, val: ImageSet | None) -> None:
    """An error before the long work where outliers to learn from cannot serve."""
    if outliers is None:
        return
    if not any(detector.supervised for detector in detectors.values()):
        raise ValueError(f"none of {', '.join(detectors)} learns from outliers: leave outliers= out")
    if val is None:
        raise ValueError("to learn from outliers takes inliers to tell them from: pass val=")
    if not len(outliers):
        raise ValueError(f"the outliers {outliers.name!r} to learn from are an empty set")


def supervise(
    network: Network, detector: PostHoc, val: ImageSet, outliers: ImageSet, progress: Progress | None
) -> None:
    """Let one detector learn from outliers and as many inliers of the validation split."""

    def seen(images: ImageSet) -> Activations:
        return table_of(network, images, detector.needs, progress, detector if detector.perturbs else None)

    detector.supervise(seen(as_many(val, len(outliers))), seen(outliers))
