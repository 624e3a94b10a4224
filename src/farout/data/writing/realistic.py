"""The "-R" sets of the realistic benchmark (rood, section 4.1) on disk: clean, augmented and corrupted images.

`write(farout.load("cifar10"), "cifar10-r", farout.shifts.choosing.choose("all"), clean=True)` makes CIFAR-10-R.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from farout.core import ImageSet, Shift
from farout.data.writing.array_layout import Arrays
from farout.data.writing.file_layout import Files
from farout.data.writing.layout import UNFINISHED, Format, Group, Job, Layout, severity_of
from farout.data.writing.manifest import check_folder, claim, held, manifest, note, read_manifest
from farout.data.writing.sweep import keep, plan_of, sweep
from farout.files import has_size
from farout.processes import crew
from farout.progress import Event, Listener, current
from farout.shifts.corruption import SEVERITIES

CLEAN = "clean"
"""The name of the images as they are."""


def write(
    images: ImageSet,
    folder: str | Path,
    shifts: Sequence[Shift],
    *,
    clean: bool = False,
    form: Format = "npz",
    seed: int = 0,
    workers: int = 0,
    plugins: tuple[str, ...] = (),
    progress: Listener | None = None,
) -> dict[str, Any]:
    """Write images under every shift to a folder, with `clean` also as they are, and return the manifest.

    Every image on disk is the 8-bit image that `Shifted(images, shift, seed)` gives at its place; "jpeg" files lose
    something beyond that. Images that are outliers to their own class (attribute "outlier") are written as they are and
    not under shifts, as in MVTec-AD-R; `farout.load` gives the attribute back. The same call again goes on where the
    first one stopped, and another one with the same images, seed and format adds shifts. With workers, scripts need the
    usual `if __name__ == "__main__":`.
    """
    folder, groups = Path(folder), _grouped(shifts, clean)
    if not len(images):
        raise ValueError(f"{images.name} is empty; expected at least one image")
    layout = (Arrays if form in ("npz", "npy") else Files)(images, folder, form)
    if not all(len(layout.rows(group)) for group in groups):
        raise ValueError(f"all images of {images.name} are outliers to their own class; there is none to be shifted")
    facts = manifest(layout, groups, seed)
    there = check_folder(images, folder, facts)
    _try_out(images, [group for group in groups if group.name not in there])
    with held(folder), _kept_when_stopped(folder):
        check_folder(images, folder, facts)  # another run may have been here meanwhile
        jobs = [job for group in groups for job in layout.missing(group)]
        for group in (finished := _done(groups, jobs)):
            layout.complete(group)  # a run may have been stopped when only that was left to do
        claim(folder, facts, finished)
        if jobs:
            _check_space(layout, jobs)
            _compute(layout, jobs, seed, workers, plugins, progress or current())
        return read_manifest(folder)


@contextmanager
def _kept_when_stopped(folder: Path) -> Iterator[None]:
    """What the system refuses in the middle of the work, as on a full disk, is said with what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # it has been said
            raise
        raise OSError(
            f"{folder} is not finished: {error}; what was finished is kept, and the same command goes on from there"
        ) from error


def _done(groups: Sequence[Group], jobs: Sequence[Job]) -> list[Group]:
    """The groups of which nothing is missing."""
    begun = {job.group.name for job in jobs}
    return [group for group in groups if group.name not in begun]


def _grouped(shifts: Sequence[Shift], clean: bool) -> list[Group]:
    """The shifts by name, the clean images first."""
    by_name: dict[str, list[Shift]] = {}
    for shift in sorted(shifts, key=severity_of):
        by_name.setdefault(shift.name, []).append(shift)
    groups = [Group(name, tuple(by_name[name])) for name in dict.fromkeys(shift.name for shift in shifts)]
    for group in groups:
        _check_name(group.name)
        if len({severity for severity, _ in group.parts}) < len(group.shifts):
            raise ValueError(f"{group.name} was given twice at the same severity; give every shift once")
    if not groups and not clean:
        raise ValueError("there is nothing to write: give shifts, or clean=True")
    return [Group(CLEAN, (None,)), *groups] if clean else groups


def _check_name(name: str) -> None:
    if name in (CLEAN, "labels") or not re.fullmatch(r"\w[\w-]*", name):
        raise ValueError(f"a shift named {name!r} can have no file of that name; set another `name` in its class")


def _try_out(images: ImageSet, groups: Sequence[Group]) -> None:
    """Put the first image under every shift, so that what cannot work fails now and not in an hour."""
    first = images.batch([0])
    for shift in (group.shifts[0] for group in groups):
        if shift is None:
            continue
        try:
            shift(first)
        except Exception as error:
            raise ValueError(f"{shift.label} fails on {images!r}: {type(error).__name__}: {error}") from error


def _check_space(layout: Layout, jobs: Sequence[Job]) -> None:
    """Arrays are as large as their pixels, and one shift's lie there twice while they are put together."""
    size = layout.size(len(layout.images))
    need = size * (1 + len(jobs) + len(SEVERITIES)) if isinstance(layout, Arrays) else size
    free = shutil.disk_usage(layout.folder).free
    if need > free:
        raise OSError(f"{layout.folder} needs about {need / 1e6:,.0f} MB, but {free / 1e6:,.0f} MB are free; make room")


def _compute(
    layout: Layout, jobs: Sequence[Job], seed: int, workers: int, plugins: tuple[str, ...], progress: Listener
) -> None:
    originals = layout.folder / UNFINISHED / "originals"
    progress(Event("getting ready", total=sum(job.left for job in jobs)))
    if not has_size(originals, layout.size(len(layout.images)), layout.folder):
        keep(layout.images, originals, progress)
    progress(Event("starting"))
    try:
        with crew(workers, plan_of(layout.images, originals, jobs, seed), plugins) as submit:
            sweep(layout, jobs, submit, 4 * workers, progress, partial(note, layout.folder))
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended without an answer, perhaps for want of memory; what was finished is kept, and "
            "the same command goes on from there (with fewer --workers it takes less memory)"
        ) from error
