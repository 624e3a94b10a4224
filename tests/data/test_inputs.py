"""Whatever a user holds as an image set: the same pixels from every form, read a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import farout
from farout.data import as_image_set
from farout.tensors import CHUNK, as_images

PIXELS = np.random.default_rng(0).integers(0, 256, (150, 6, 8, 3), np.uint8)
FLOATS = PIXELS.transpose(0, 3, 1, 2).astype(np.float32) / 255
CLASSES = np.arange(150) % 4


class Rows:
    """A stand-in for a Hugging Face data set: a length, rows that are dicts, columns, and features with class names."""

    def __init__(self, column: str = "image") -> None:
        self.column = column
        self.features = {column: object(), "label": type("ClassLabel", (), {"names": ["a", "b", "c", "d"]})()}
        self.column_names = list(self.features)

    def __len__(self) -> int:
        return len(PIXELS)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {self.column: Image.fromarray(PIXELS[index]), "label": int(CLASSES[index])}


class Pairs(Dataset[Any]):
    """A data set that counts what is read of it."""

    read = 0

    def __len__(self) -> int:
        return len(FLOATS)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.read += 1
        return torch.from_numpy(FLOATS[index].copy()), int(CLASSES[index])


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


FORMS: dict[str, Any] = {
    "uint8 NHWC": PIXELS,
    "read-only uint8": read_only(PIXELS),
    "read-only float": read_only(FLOATS),
    "float64": FLOATS.astype(np.float64),
    "float tensor": torch.from_numpy(FLOATS),
    "uint8 tensor NCHW": torch.from_numpy(PIXELS).permute(0, 3, 1, 2),
    "uint8 tensor NHWC": torch.from_numpy(PIXELS),
    "uint8 NCHW": PIXELS.transpose(0, 3, 1, 2),
    "list of Pillow images": [Image.fromarray(image) for image in PIXELS],
    "list of arrays": list(PIXELS),
    "list of tensors": list(torch.from_numpy(FLOATS)),
    "pairs": [(Image.fromarray(image), 1) for image in PIXELS],
    "data set": Pairs(),
    "tensor data set": TensorDataset(torch.from_numpy(FLOATS), torch.from_numpy(CLASSES)),
    "loader": DataLoader(Pairs(), batch_size=70),
    "rows": Rows(),
    "rows with img": Rows("img"),
    "set": farout.ImageSet.from_arrays(PIXELS, CLASSES),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pixels(form: str) -> None:
    images = as_image_set(FORMS[form])
    assert (len(images), images.shape) == (150, (3, 6, 8))
    order = [3, 149, 3, 64]
    np.testing.assert_allclose(images.batch(order).numpy(), FLOATS[order], atol=1e-7)
    np.testing.assert_allclose(torch.cat(list(images)).numpy(), FLOATS, atol=1e-7)
    assert max(map(len, images)) <= CHUNK
    assert as_images(images.batch([])).shape == (0, 3, 6, 8)


@pytest.mark.parametrize("form", ["data set", "tensor data set", "loader", "rows", "set"])
def test_data_sets_bring_their_classes(form: str) -> None:
    images = as_image_set(FORMS[form])
    assert images.labels is not None
    assert images.labels.tolist() == CLASSES.tolist()
    assert images.classes == (("a", "b", "c", "d") if form == "rows" else ("0", "1", "2", "3"))


def test_one_image_is_a_set_of_one(tmp_path: Path) -> None:
    path = tmp_path / "one.PNG"
    Image.fromarray(PIXELS[0]).save(path, "png")
    for one in (path, str(path), Image.fromarray(PIXELS[0]), PIXELS[0], FLOATS[0], torch.from_numpy(FLOATS[0])):
        images = as_image_set(one)
        np.testing.assert_allclose(images.batch([0]).numpy(), FLOATS[:1], atol=1e-7)
        assert len(images) == 1
    assert as_image_set([path, str(path)]).batch([0, 1]).shape == (2, 3, 6, 8)
    assert as_image_set(path).name == "one"


def test_gray_images_and_networks_meet() -> None:
    gray = PIXELS[..., 0]
    assert as_image_set(gray).shape == (1, 6, 8)
    assert as_image_set(gray[0]).shape == (1, 6, 8)
    assert as_image_set(Image.fromarray(gray[0])).shape == (3, 6, 8)
    assert as_image_set(Image.fromarray(PIXELS[0]), channels=1).shape == (1, 6, 8)


def test_names_and_folders_are_read_as_load_reads_them(tmp_path: Path) -> None:
    Image.fromarray(PIXELS[0]).save(tmp_path / "a.png")
    assert as_image_set(tmp_path).shape == (3, 6, 8)
    assert as_image_set(tmp_path, side=4).shape == (3, 4, 4)
    assert as_image_set("toy").fingerprint == farout.load("toy").fingerprint


def test_a_data_set_is_read_lazily_a_chunk_at_a_time() -> None:
    given = Pairs()
    images = as_image_set(given)
    assert given.read == 0
    next(iter(images))
    assert given.read == CHUNK


def test_labels_and_fingerprint_take_one_pass() -> None:
    given = Pairs()
    images = as_image_set(given)
    assert images.labels is not None
    assert images.fingerprint == as_image_set(Pairs()).fingerprint
    assert given.read == 150 + 1  # the first tells that there are classes
    assert images.fingerprint != as_image_set(list(torch.from_numpy(FLOATS))).fingerprint  # those have no classes


def test_sizes_that_differ_say_how_to_give_a_side() -> None:
    mixed = [Image.new("RGB", (8, 8)), Image.new("RGB", (12, 8)), PIXELS[0]]
    with pytest.raises(
        ValueError, match=r"images of 3 sizes: .*farout.data.as_image_set\(images, side=8\), in a study"
    ):
        as_image_set(mixed).batch([0, 1, 2])
    assert as_image_set(mixed, side=4).batch([0, 1, 2]).shape == (3, 3, 4, 4)
    wide = torch.zeros(1, 3, 4, 8)
    wide[..., 2:6] = 1  # the middle square
    assert as_image_set(wide, side=2).batch([0]).eq(1).all()
    with pytest.raises(ValueError, match="1 channel and some 3"):
        as_image_set([FLOATS[0], FLOATS[0, :1]]).batch([0, 1])


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (object(), TypeError, "base: expected a Pillow image, the path .* got object"),
        ([], TypeError, "base: expected a list of Pillow images, paths or arrays, got one of nothing"),
        (["notes.txt"], TypeError, "got one of str"),
        ({"train": PIXELS}, TypeError, "base: expected one data set, got a mapping of train: pass one"),
        (Endless(), TypeError, "base: Endless has no length"),
        ((image for image in PIXELS), TypeError, "base: generator has no length"),
        (DataLoader(Endless()), TypeError, "the data set Endless of this loader has no length"),
        (DataLoader(Pairs(), shuffle=True), ValueError, "matched to images: pass the data set itself"),
        (DataLoader(Pairs(), batch_size=None), ValueError, "pass the data set itself"),
        (np.zeros((2, 3, 4, 4), np.int32), TypeError, "got int32; divide 8-bit images by 255"),
        ("gone.png", FileNotFoundError, "no file or folder gone.png"),
    ],
)
def test_what_is_no_image_is_said(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_image_set(given, what="base")


def test_a_row_without_an_image_names_its_columns() -> None:
    with pytest.raises(ValueError, match="expected a column 'image' or 'img', got picture, label"):
        as_image_set(Rows("picture")).batch([0])


def test_a_set_takes_no_side_afterwards() -> None:
    with pytest.raises(TypeError, match="toy is already an image set: pass side=8 where it is created"):
        as_image_set(farout.load("toy"), side=8)


def test_a_loader_that_drops_its_last_batch_has_fewer_images() -> None:
    images = as_image_set(DataLoader(Pairs(), batch_size=64, drop_last=True))
    assert len(images) == 128
    assert torch.cat(list(images)).shape[0] == 128
