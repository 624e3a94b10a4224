"""All corruptions beside the package imagecorruptions on one core: microseconds per image, and how often faster.

The package has the constants of 224 px alone and takes them at 32 px too, so at 32 px it blurs wider than farout does.
At 224 px both do the same, but for elastic, whose constants the package changed, and frost: the package reads a
photograph from its file for every image, farout keeps what it cuts from.
`python -m benchmarks.corruptions --images 100` measures on fewer images; --help lists the options.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import farout
from farout.shifts.corruption import SEVERITIES
from farout.shifts.tables import TABLES

SIZES = {32: 1_000, 224: 20}
"""Sides and how many images of each: the package takes a second for five images of 224 px."""
LEAST = {32: 10, 224: 5}
"""Smallest speed-up over the package for all corruptions together."""
CALLED = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
"""Names that differ in the package."""

Corrupt = Callable[[NDArray[np.uint8], int, str], NDArray[np.uint8]]
"""The package's function: an image [H, W, 3], severity and name."""


class Row(NamedTuple):
    """Seconds per image at every severity; of the package only where it is installed."""

    ours: list[float]
    theirs: list[float]


def package() -> Corrupt | None:
    """The package's function on one thread; None where it cannot be imported."""
    try:
        import cv2
        import imagecorruptions
    except ImportError as error:
        print(f"\nwithout imagecorruptions ({error}): pip install imagecorruptions-imaug")
        return None
    cv2.setNumThreads(1)
    corrupt: Corrupt = imagecorruptions.corrupt
    return corrupt


def seconds(run: Callable[[], object]) -> float:
    """The processor's seconds, so that others on the machine do not count."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measured(name: str, images: Tensor, corrupt: Corrupt | None) -> Row:
    """Both in turn on the same images, severity by severity, after a warm-up."""
    pixels = images.mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    row = Row([], [])
    for severity in SEVERITIES:
        shift = farout.shift(name, severity=severity)
        shift(images[:2])
        row.ours.append(seconds(partial(shift, images)) / len(images))
        if corrupt:
            one = called(corrupt, severity, CALLED.get(name, name))
            one(pixels[:2])
            row.theirs.append(seconds(partial(one, pixels)) / len(images))
    return row


def called(corrupt: Corrupt, severity: int, name: str) -> Callable[[NDArray[np.uint8]], None]:
    """The package on one image after the other, without what it prints and warns of."""

    def run(pixels: NDArray[np.uint8]) -> None:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for image in pixels:
                corrupt(image, severity, name)

    return run


def show(side: int, count: int, rows: dict[str, Row]) -> None:
    """Print the table, the total beside what it must reach, and the slowest."""
    print(f"\n{len(rows)} corruptions, {count:,} images of {side} px, one core: µs per image, mean of 5 severities")
    print(f"{'':<20}{'farout':>12}{'the package':>14}{'ratio':>9}")
    for name, row in rows.items():
        _show_line(name, row)
    _show_line("total", total(rows.values()), LEAST[side] if set(rows) == set(TABLES) else None)
    if set(rows) > {"frost"}:
        _show_line("total but for frost", total(row for name, row in rows.items() if name != "frost"))
    slowest = max(rows, key=lambda name: sum(rows[name].ours))
    each = ", ".join(f"{value * 1e6:,.0f}" for value in rows[slowest].ours)
    print(f"the slowest is {slowest}: {each} µs at severities 1 to 5")


def total(rows: Iterable[Row]) -> Row:
    """The seconds of all rows together."""
    return Row(*(list(np.sum(part, axis=0)) for part in zip(*rows, strict=True)))


def _show_line(name: str, row: Row, least: float | None = None) -> None:
    ours, theirs = np.mean(row.ours), np.mean(row.theirs) if row.theirs else np.nan
    ratio = theirs / ours
    judged = f"  at least {least}: {'met' if ratio >= least else 'MISSED'}" if least and row.theirs else ""
    print(f"{name:<20}{ours * 1e6:>12,.1f}{theirs * 1e6:>14,.1f}{ratio:>9.1f}{judged}")


def main(arguments: Sequence[str] = ()) -> None:
    """Both sizes, unless told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corruptions", description=__doc__)
    parser.add_argument("--side", type=int, choices=list(SIZES), action="append", help="both unless given")
    parser.add_argument("--images", type=int, help=f"of each side; {SIZES} unless given")
    parser.add_argument("--name", action="append", choices=list(TABLES), help="may be given again; all unless given")
    given = parser.parse_args(list(arguments))
    torch.set_num_threads(1)
    corrupt = package()
    for side in given.side or SIZES:
        images = torch.cat(list(farout.load("shapes", side=side).limit(given.images or SIZES[side])))
        rows = {name: measured(name, images, corrupt) for name in given.name or TABLES}
        show(side, len(images), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
