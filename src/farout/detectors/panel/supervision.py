"""Supervised detectors: what they learn from outliers, and what that means for a test."""

from __future__ import annotations

from collections.abc import Mapping

from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.panel.provenance import Images
from farout.detectors.panel.sweeps import as_many, table_of
from farout.networks.network import Network
from farout.progress import Listener


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
    if outliers.fingerprint == val.fingerprint:
        raise ValueError(f"the val split and the outliers are the same images ({val.name!r}); give each its own")


def supervise(
    network: Network, detector: PostHoc, val: ImageSet, outliers: ImageSet, progress: Listener | None
) -> None:
    """Let one detector learn from outliers and as many inliers of the validation split."""

    def seen(images: ImageSet) -> Activations:
        return table_of(network, images, detector.needs, progress, detector if detector.perturbs else None)

    detector.supervise(seen(as_many(val, len(outliers))), seen(outliers))


def note(label: str, learned: Images, outliers: Mapping[str, ImageSet]) -> str:
    """What a detector learned from, for the readers of a test on these outliers; plainly so where it was the same."""
    told = [learned.met_again(name, "outliers", images, "learned from") for name, images in outliers.items()]
    return "; ".join([f"{label}: learned from {learned.total:,} images of {learned.name}", *filter(None, told)])
