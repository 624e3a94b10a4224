"""Supervised detectors: fit them on outliers, and note which outliers they learned from."""

from __future__ import annotations

from collections.abc import Mapping

from farout.core import Activations, ImageSet, PostHoc
from farout.detectors.panel.provenance import ImagesRecord
from farout.detectors.panel.sweeps import compute_activations, draw_subset
from farout.networks.network import Network
from farout.progress import Listener


def check_outliers(detectors: Mapping[str, PostHoc], outliers: ImageSet | None, val: ImageSet | None) -> None:
    """Raise, before any long computation, if the outliers to learn from cannot be used."""
    if outliers is None:
        return
    if not any(detector.supervised for detector in detectors.values()):
        raise ValueError(f"none of {', '.join(detectors)} learns from outliers: leave outliers= out")
    if val is None:
        raise ValueError("learning from outliers also needs inliers of the validation split: pass val=")
    if not len(outliers):
        raise ValueError(f"the outliers {outliers.name!r} to learn from are an empty set")
    if outliers.fingerprint == val.fingerprint:
        raise ValueError(f"the val split and the outliers are the same images ({val.name!r}); give each its own")


def supervise(
    network: Network, detector: PostHoc, val: ImageSet, outliers: ImageSet, progress: Listener | None
) -> None:
    """Fit one detector on outliers and as many inliers of the validation split."""

    def activations(images: ImageSet) -> Activations:
        return compute_activations(network, images, detector.needs, progress, detector if detector.perturbs else None)

    detector.supervise(activations(draw_subset(val, len(outliers))), activations(outliers))


def note(label: str, learned: ImagesRecord, outliers: Mapping[str, ImageSet]) -> str:
    """Return a note on the outliers a detector learned from, and whether the test uses the same images."""
    notes = [learned.overlap_note(name, "outliers", images, "learned from") for name, images in outliers.items()]
    return "; ".join([f"{label}: learned from {learned.total:,} images of {learned.name}", *filter(None, notes)])
