"""The one size that the images of a set must have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SHOWN = 5
"""Sizes that an error lists."""


def one_size(sizes: Iterable[tuple[int, int]], name: str) -> tuple[int, int]:
    """Return the width and height that all images share; an error lists the sizes and says how to give `side`."""
    counts = Counter((int(width), int(height)) for width, height in sizes)
    if len(counts) == 1:
        return next(iter(counts))
    listed = ", ".join(f"{width}×{height} ({count:,})" for (width, height), count in counts.most_common(SHOWN))
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    side = min(counts.most_common(1)[0][0])
    raise ValueError(
        f"{name}: images of {len(counts)} sizes: {listed}{more}; bring them to one with side: in Python "
        f"farout.load(folder, side={side}) or farout.data.as_image_set(images, side={side}), in a study "
        f"{{name: folder, options: {{side: {side}}}}}"
    )
