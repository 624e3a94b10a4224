"""Writer of the "-R" sets of the realistic benchmark (rood, section 4.1): clean, augmented and corrupted images.

CIFAR-10-R: `write(farout.load("cifar10"), "cifar10-r", farout.shifts.selection.select_shifts("all"), clean=True)`.
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
from farout.data.writing.manifest import (
    build_manifest,
    check_folder,
    locked_folder,
    mark_finished,
    read_manifest,
    write_manifest,
)
from farout.data.writing.sweep import build_plan, run_jobs, write_originals
from farout.files import has_size
from farout.processes import worker_tasks
from farout.progress import Event, Listener, current
from farout.shifts.corruption import SEVERITIES

CLEAN = "clean"
"""Name of the group of clean images."""


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
    """Write images under every shift to a folder, with `clean` also the clean images, and return the manifest.

    Every image on disk equals the 8-bit image of `Shifted(images, shift, seed)` at the same index, except for the loss
    of "jpeg" compression. Outliers to their own class (attribute "outlier") are written clean only, as in MVTec-AD-R;
    `farout.load` restores the attribute. The same call again continues after an interruption; a call with other shifts
    and the same images, seed and format adds them. With workers, scripts need the usual `if __name__ == "__main__":`.
    """
    folder, groups = Path(folder), _group_shifts(shifts, clean)
    if not len(images):
        raise ValueError(f"{images.name} is empty; expected at least one image")
    layout = (Arrays if form in ("npz", "npy") else Files)(images, folder, form)
    if not all(len(layout.rows(group)) for group in groups):
        raise ValueError(
            f"all images of {images.name} are outliers to their own class; expected at least one inlier to shift"
        )
    facts = build_manifest(layout, groups, seed)
    finished_names = check_folder(images, folder, facts)
    _check_shifts(images, [group for group in groups if group.name not in finished_names])
    with locked_folder(folder), _explain_os_errors(folder):
        check_folder(images, folder, facts)  # another run may have written here before the lock was taken
        jobs = [job for group in groups for job in layout.missing(group)]
        for group in (finished := _finished_groups(groups, jobs)):
            layout.complete(group)  # an earlier run may have stopped just before this step
        write_manifest(folder, facts, finished)
        if jobs:
            _check_space(layout, jobs)
            _compute(layout, jobs, seed, workers, plugins, progress or current())
        return read_manifest(folder)


@contextmanager
def _explain_os_errors(folder: Path) -> Iterator[None]:
    """Explain errors of the operating system, such as a full disk, and how to continue."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # our own error, which already explains what to do
            raise
        raise OSError(
            f"{folder} is not finished: {error}; finished files are kept, and the same command continues from there"
        ) from error


def _finished_groups(groups: Sequence[Group], jobs: Sequence[Job]) -> list[Group]:
    """Return the groups without missing images."""
    unfinished = {job.group.name for job in jobs}
    return [group for group in groups if group.name not in unfinished]


def _group_shifts(shifts: Sequence[Shift], clean: bool) -> list[Group]:
    """Return the shifts grouped by name, the clean images first."""
    by_name: dict[str, list[Shift]] = {}
    for shift in sorted(shifts, key=severity_of):
        by_name.setdefault(shift.name, []).append(shift)
    groups = [Group(name, tuple(by_name[name])) for name in dict.fromkeys(shift.name for shift in shifts)]
    for group in groups:
        _check_name(group.name)
        if len({severity for severity, _ in group.parts}) < len(group.shifts):
            raise ValueError(f"{group.name} occurs twice at the same severity; pass every shift once")
    if not groups and not clean:
        raise ValueError("there is nothing to write: pass shifts, or clean=True")
    return [Group(CLEAN, (None,)), *groups] if clean else groups


def _check_name(name: str) -> None:
    if name in (CLEAN, "labels") or not re.fullmatch(r"\w[\w-]*", name):
        raise ValueError(f"the shift name {name!r} cannot be used as a file name; set another `name` in its class")


def _check_shifts(images: ImageSet, groups: Sequence[Group]) -> None:
    """Apply every shift to the first image, so that a shift that cannot work fails at once and not after an hour."""
    first = images.batch([0])
    for shift in (group.shifts[0] for group in groups):
        if shift is None:
            continue
        try:
            shift(first)
        except Exception as error:
            raise ValueError(f"{shift.label} fails on {images!r}: {type(error).__name__}: {error}") from error


def _check_space(layout: Layout, jobs: Sequence[Job]) -> None:
    """Raise an error if disk space is too small: arrays take the size of their pixels, one shift twice while merged."""
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
        write_originals(layout.images, originals, progress)
    progress(Event("starting"))
    try:
        with worker_tasks(workers, build_plan(layout.images, originals, jobs, seed), plugins) as submit:
            run_jobs(layout, jobs, submit, 4 * workers, progress, partial(mark_finished, layout.folder))
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process died, perhaps from lack of memory; finished files are kept, and the same command "
            "continues from there (fewer --workers need less memory)"
        ) from error
