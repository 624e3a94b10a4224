"""Check that all images of a set have the same size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

SHOWN = 5
"""Number of sizes that an error lists."""


def one_size(sizes: Iterable[tuple[int, int]], name: str) -> tuple[int, int]:
    """Return the common width and height; if sizes differ, raise an error that lists them and suggests `side`."""
    counts = Counter((int(width), int(height)) for width, height in sizes)
    if len(counts) == 1:
        return next(iter(counts))
    listed = ", ".join(f"{width}×{height} ({count:,})" for (width, height), count in counts.most_common(SHOWN))
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    side = min(counts.most_common(1)[0][0])
    raise ValueError(
        f"{name}: images of {len(counts)} sizes: {listed}{more}; resize them to one size with side: in Python "
        f"farout.load(folder, side={side}) or farout.data.as_image_set(images, side={side}), in a study "
        f"{{name: folder, options: {{side: {side}}}}}"
    )
