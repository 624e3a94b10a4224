"""Writer of SHAPES and CHARS: PNG files by class or one .npz file, with the table of configurations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from farout.data.arrays import as_bytes
from farout.data.shapes_chars import Drawn
from farout.data.writing.array_files import write_npz
from farout.data.writing.facts import read_facts
from farout.files import atomic_file, atomic_files, check_path, has_file, make_folder, write_json
from farout.progress import Progress
from farout.tensors import chunks

Format = Literal["png", "npz"]


def export(images: Drawn, path: Path, form: Format = "png", progress: Progress = lambda done: None) -> Path:
    """Write a set to `path`; the same call again continues after an interruption.

    PATH.parquet: the table of configurations; PATH.json: the manifest; images as PATH/<class>/<index>.png, or as
    `images` and `labels` in PATH.npz.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_manifest(images, path)
    with atomic_file(_sibling(path, "parquet")) as temporary:
        images.configurations.write(temporary)
    return (_write_png if form == "png" else _write_npz)(images, path, progress)


def _write_manifest(images: Drawn, path: Path) -> None:
    """Write the manifest; raise an error if the path holds another set or files without a manifest."""
    manifest = _sibling(path, "json")
    if has_file(manifest):
        if read_facts(manifest).get("fingerprint") != images.fingerprint:
            raise ValueError(f"{path} holds another set (see {manifest}); choose another folder with --out")
    else:
        _check_unused(path)
    facts = {"name": images.name, "images": len(images), "side": images.side, "fingerprint": images.fingerprint}
    write_json(manifest, facts)


def _check_unused(path: Path) -> None:
    """Raise an error if files exist without a manifest: it is written first, so they belong to something else."""
    taken = [file for file in (_sibling(path, "npz"), _sibling(path, "parquet")) if has_file(file)]
    if check_path(path).exists() and not (path.is_dir() and not any(path.iterdir())):
        taken.append(path)
    if taken:
        raise ValueError(
            f"{taken[0]} exists already, without a {_sibling(path, 'json').name} that describes it; move it away, "
            "or choose another folder with --out"
        )


def _write_png(images: Drawn, path: Path, progress: Progress) -> Path:
    names = images.attributes["class"]
    for name in np.unique(names):
        make_folder(path / str(name), path.parent)
    for part in chunks(len(images)):
        files = {index: path / str(names[index]) / f"{index:06d}.png" for index in range(part.start, part.stop)}
        missing = [index for index, file in files.items() if not has_file(file, path.parent)]
        with atomic_files([files[index] for index in missing], path.parent) as temporary:
            for file, pixels in zip(temporary, _pixels(images, missing), strict=True):
                Image.fromarray(pixels).save(file, format="png")
        progress(part.stop - part.start)
    return path


def _write_npz(images: Drawn, path: Path, progress: Progress) -> Path:
    """Write the .npz file atomically, with one chunk in memory at a time."""
    target = _sibling(path, "npz")
    if has_file(target):
        progress(len(images))
        return target
    channels, height, width = images.shape
    others = {} if images.labels is None else {"labels": images.labels}
    write_npz(target, (len(images), height, width, channels), _blocks(images, progress), others, compress=True)
    return target


def _blocks(images: Drawn, progress: Progress) -> Iterator[bytes]:
    for part in chunks(len(images)):
        yield _pixels(images, range(part.start, part.stop)).tobytes()
        progress(part.stop - part.start)


def _pixels(images: Drawn, indices: list[int] | range) -> NDArray[np.uint8]:
    """Return images as uint8 [B, H, W, C]."""
    if not len(indices):
        return np.empty((0, *images.shape[1:], images.shape[0]), np.uint8)
    return as_bytes(images.batch(np.asarray(indices)))


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")
