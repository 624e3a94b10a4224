"""Layout of shifted sets with one file per image, as in ImageNet-C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from farout.core import ImageSet
from farout.data.arrays import OUTLIER
from farout.data.folder import OUTLIER_LIST
from farout.data.writing.layout import Format, Group, Job, Layout, Pixels, Sink
from farout.files import atomic_files, files_in, is_temporary, make_folder, write_text

QUALITY = 85
"""Quality of JPEG files, as in the published sets of 64 and 224 px."""


class Files(Layout):
    """Layout SHIFT/SEVERITY/CLASS/INDEX.png (or .jpg); the levels of severity and class are left out if there are none.

    outliers.txt next to the class folders lists the images that are outliers to their own class.
    """

    def place(self, group: Group) -> str:
        return group.place

    def missing(self, group: Group) -> list[Job]:
        jobs = []
        for number, shift in group.parts:
            finished = _finished_files(self._folder(group, number), self.folder)
            rows = [row for row in self.rows(group) if self.files[row] not in finished]
            jobs.append(Job(group, number, shift, np.array(rows, np.int64)))
        return [job for job in jobs if job.left]

    def begin(self, job: Job) -> None:
        for folder in {self._path(job, row).parent for row in job.rows}:
            make_folder(folder, self.folder)

    def sink(self, job: Job, rows: NDArray[np.int64]) -> Sink:
        return partial(_write_pixels, [self._path(job, row) for row in rows], self.folder, self.form)

    def finish(self, job: Job) -> None:
        self.complete(job.group)

    def complete(self, group: Group) -> None:
        outlier = self.images.attributes.get(OUTLIER)
        if outlier is None or not group.clean:
            return
        named = sorted(self.files[row] for row in np.flatnonzero(outlier))
        write_text(self._folder(group, 0) / OUTLIER_LIST, "".join(f"{file}\n" for file in named), self.folder)

    def _folder(self, group: Group, severity: int) -> Path:
        return self.folder / group.place / (str(severity) if severity else "")

    def _path(self, job: Job, row: int) -> Path:
        return self._folder(job.group, job.severity) / self.files[row]

    @cached_property
    def files(self) -> list[str]:
        """File of every image, relative to its severity's folder."""
        ending = "jpg" if self.form == "jpeg" else "png"
        names = [f"{index:06d}.{ending}" for index in range(len(self.images))]
        if self.images.labels is None:
            return names
        folders = class_folders(self.images)
        return [f"{folders[label]}/{name}" for label, name in zip(self.images.labels, names, strict=True)]


def _write_pixels(files: Sequence[Path], root: Path, form: Format, pixels: Pixels) -> None:
    options = {"quality": QUALITY, "optimize": True} if form == "jpeg" else {}
    with atomic_files(files, root) as temporary:
        for file, picture in zip(temporary, pixels, strict=True):
            image = Image.fromarray(picture.squeeze(-1) if picture.shape[-1] == 1 else picture)
            image.save(file, format=form, **options)


def _finished_files(folder: Path, root: Path) -> set[str]:
    """Return the finished files in a folder and its sub-folders, as `sub-folder/file`; remove unfinished ones."""
    found = set()
    for path in list(files_in(folder, root)):
        if is_temporary(path):
            path.unlink()
        else:
            found.add(path.relative_to(folder).as_posix())
    return found


def class_folders(images: ImageSet) -> list[str]:
    """Return a folder name per class; numbers are zero-padded, so that alphabetical order is numerical order."""
    assert images.labels is not None
    count = max(len(images.classes), int(images.labels.max()) + 1)
    names = [*images.classes, *map(str, range(len(images.classes), count))]
    if all(name.isdecimal() for name in names):
        return [name.zfill(max(map(len, names))) for name in names]
    safe = [re.sub(r"^\.|[/\\:*?\"<>|\x00-\x1f]", "_", name) or "_" for name in names]
    return [name if safe.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(safe)]
