"""Layout of shifted sets with one array file per shift, as in CIFAR-10-C."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farout.core import ImageSet
from farout.data.arrays import OUTLIER
from farout.data.writing.array_files import write_npy, write_npz
from farout.data.writing.layout import UNFINISHED, Format, Group, Job, Layout, Pixels, Sink
from farout.files import atomic_file, has_file, has_size, open_file, sync, temporary_path
from farout.shifts.corruption import SEVERITIES

_PIECE = 1 << 20


class Arrays(Layout):
    """Layout SHIFT.npz (`images`, `labels`, `severity`, `outlier`), or SHIFT.npy and labels.npy; severities in order.

    labels.npy is common to all files, so sets with outliers to their own class cannot be written as .npy.

    A finished severity is kept as raw pixels until all severities of the shift are finished.
    """

    def __init__(self, images: ImageSet, folder: Path, form: Format) -> None:
        super().__init__(images, folder, form)
        if form == "npy" and OUTLIER in images.attributes:
            raise ValueError(
                f"{images.name} has outliers to their own class, which .npy files cannot mark; write "
                "it as npz, png or jpeg"
            )
        self._temporary: dict[tuple[str, int], Path] = {}

    def place(self, group: Group) -> str:
        return f"{group.place}.{self.form}"

    def missing(self, group: Group) -> list[Job]:
        if has_file(self._target(group)):
            return []
        rows = self.rows(group)
        size = self.size(len(rows))
        wanted = [part for part in group.parts if not has_size(self._part(group, part[0]), size, self.folder)]
        return [Job(group, number, shift, rows) for number, shift in wanted]

    def begin(self, job: Job) -> None:
        self._temporary[job.group.name, job.severity] = path = temporary_path(self._part(job.group, job.severity))
        path.touch()

    def sink(self, job: Job, rows: NDArray[np.int64]) -> Sink:
        start = self.size(int(np.searchsorted(job.rows, rows[0])))
        return partial(_write_pixels, self._temporary[job.group.name, job.severity], start)

    def finish(self, job: Job) -> None:
        temporary = self._temporary[job.group.name, job.severity]
        sync([temporary])
        temporary.replace(self._part(job.group, job.severity))
        if not self.missing(job.group):
            self.complete(job.group)

    def complete(self, group: Group) -> None:
        target, parts = self._target(group), [self._part(group, number) for number, _ in group.parts]
        if self.form == "npy":
            self._write_labels()
        if has_file(target):
            return
        channels, height, width = self.images.shape
        shape = (len(parts) * len(self.rows(group)), height, width, channels)
        if self.form == "npz":
            write_npz(target, shape, _blocks(parts), self._extra_arrays(group))
        else:
            write_npy(target, shape, _blocks(parts))
        for part in parts:
            part.unlink()

    def _target(self, group: Group) -> Path:
        return self.folder / self.place(group)

    def _write_labels(self) -> None:
        """Write the labels five times over, once per severity, as in CIFAR-10-C; common to all files."""
        path = self.folder / "labels.npy"
        if self.images.labels is not None and not has_file(path):
            with atomic_file(path) as temporary, temporary.open("wb") as file:
                np.save(file, np.tile(self.images.labels, len(SEVERITIES)))

    def _part(self, group: Group, number: int) -> Path:
        return self.folder / UNFINISHED / f"{group.name}-{number}"

    def _extra_arrays(self, group: Group) -> dict[str, NDArray[np.int64]]:
        """Return the arrays that are stored with the images."""
        rows, known = self.rows(group), {"labels": self.images.labels, OUTLIER: self.images.attributes.get(OUTLIER)}
        arrays = {what: np.tile(of[rows], len(group.shifts)) for what, of in known.items() if of is not None}
        return {**arrays, **({"severity": np.repeat(group.severities, len(rows))} if group.severities else {})}


def _write_pixels(path: Path, start: int, pixels: Pixels) -> None:
    """Write pixels into a file. Not through a memory map: with a full disk that would kill the process."""
    with open_file(path, flags=os.O_RDWR) as file:
        file.seek(start)
        file.write(pixels.tobytes())


def _blocks(parts: Sequence[Path]) -> Iterator[bytes]:
    for part in parts:
        with open_file(part) as file:
            while block := file.read(_PIECE):
                yield block
