"""Images per second read from every format, beside a plain loop over the same images, in one process and one run.

`python -m benchmarks.reading [--images 2000] [--side 32]`
"""

from __future__ import annotations

import argparse
import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

import farout
from benchmarks.timing import show, timed
from farout.data import npz

CLASSES = 10


def encode(pixels: np.ndarray) -> bytes:
    """Return the pixels as PNG."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def write_folder(folder: Path, images: list[bytes]) -> None:
    """Write one file per image, by class."""
    for number, image in enumerate(images):
        place = folder / f"{number * CLASSES // len(images)}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06}.png").write_bytes(image)


def write_tar(path: Path, images: list[bytes]) -> None:
    """Write a tar archive in WebDataset's layout."""
    with tarfile.open(path, "w") as archive:
        for number, image in enumerate(images):
            label = str(number * CLASSES // len(images)).encode()
            for name, content in ((f"{number:06}.png", image), (f"{number:06}.cls", label)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_all(folder: Path, pixels: np.ndarray) -> dict[str, Path]:
    """Write the images in every format; return the paths by format."""
    images, labels = [encode(image) for image in pixels], np.arange(len(pixels)) * CLASSES // len(pixels)
    write_folder(folder / "folder", images)
    write_tar(folder / "tar.tar", images)
    cells = [{"bytes": image, "path": None} for image in images]
    pq.write_table(pa.table({"image": cells, "label": labels}), folder / "table.parquet", row_group_size=100)
    np.savez(folder / "stored.npz", images=pixels, labels=labels)
    np.savez_compressed(folder / "compressed.npz", images=pixels, labels=labels)
    np.save(folder / "images.npy", pixels)
    names = {"folder": "folder", "tar": "tar.tar", "parquet": "table.parquet", "npz, stored": "stored.npz",
             "npz, compressed": "compressed.npz", "npy": "images.npy"}  # fmt: skip
    return {what: folder / name for what, name in names.items()}


def decode_plainly(files: list[Path]) -> float:
    """Decode files with Pillow and numpy, in batches of 64 as float32 [B, C, H, W]."""
    total = 0.0
    for start in range(0, len(files), 64):
        pixels = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files[start : start + 64]])
        total += float(torch.from_numpy(np.divide(pixels.transpose(0, 3, 1, 2), np.float32(255)))[0, 0, 0, 0])
    return total


def slice_plainly(pixels: np.ndarray) -> float:
    """Convert an array in memory, in batches of 64, to float32 [B, C, H, W]."""
    total = 0.0
    for start in range(0, len(pixels), 64):
        part = np.ascontiguousarray(pixels[start : start + 64].transpose(0, 3, 1, 2))
        total += float(torch.from_numpy(np.divide(part, np.float32(255)))[0, 0, 0, 0])
    return total


def read(images: farout.ImageSet) -> float:
    """Read a set as a panel does."""
    return sum(float(batch[0, 0, 0, 0]) for batch in images)


def main(arguments: list[str] | None = None) -> None:
    """Encoded images beside Pillow, arrays beside numpy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--side", type=int, default=32)
    options = parser.parse_args([] if arguments is None else arguments)
    shape = (options.images, options.side, options.side, 3)
    npz.HELD = 0  # so that few images are mapped, as many are
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    with tempfile.TemporaryDirectory() as place:
        os.environ["FAROUT_DATA"] = f"{place}/cache"
        paths = write_all(Path(place), pixels)
        sets = {what: farout.load(path) for what, path in paths.items()}
        files = sorted((Path(place) / "folder").rglob("*.png"))

        def reader(what: str) -> Callable[[], float]:
            return lambda: read(sets[what])

        encoded = {"Pillow and numpy, a loop over files": lambda: decode_plainly(files)}
        arrays = {"numpy, slices of an array in memory": lambda: slice_plainly(pixels)}
        for title, plain, kinds in (
            (f"{options.images:,} PNG images of {options.side} px", encoded, ("folder", "tar", "parquet")),
            ("The same images in arrays", arrays, ("npy", "npz, stored", "npz, compressed")),
        ):
            times = timed({**plain, **{f"farout, {what}": reader(what) for what in kinds}})
            show(title, times, next(iter(plain)))
            for name, time in times.items():
                print(f"{name:<44}{options.images / time.seconds:>12,.0f} images/s")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
