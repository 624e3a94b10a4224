"""Logit mask of labeled sets that have some of the inliers' classes, such as ImageNet-A with 200 of 1,000."""

from __future__ import annotations

from farout.data.class_names import class_indices
from farout.study.sources.images import About


def logit_mask(inliers: About, images: About) -> tuple[int, ...]:
    """Return the inliers' classes that a labeled set has, in the order of its labels; empty if no mask is needed.

    Classes are matched by name. A set with as many classes as the inliers, but other names (numbers in ImageNet-V2),
    has the same classes in the same order.
    """
    total = len(inliers.classes)
    expected = f"expected the {total:,} classes of the inliers, or at least 2 of them by the same names"
    if not images.labeled:
        raise ValueError(f"no labels, {expected}")
    if not set(images.classes) <= set(inliers.classes):
        if len(images.classes) == total:
            return ()
        other = next(name for name in images.classes if name not in inliers.classes)
        raise ValueError(f"{len(images.classes):,} classes such as {other!r}, {expected}")
    if len(images.classes) < 2:
        raise ValueError(f"{len(images.classes)} class, {expected}")
    mask = class_indices(inliers.classes, images.classes, inliers.name)
    return () if mask == tuple(range(total)) else mask
