"""Images in files: order, classes, decoding, damage, fingerprints."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from farout.data import FolderSet, stamps, survey
from farout.data.pixels import Unreadable, decode
from helpers.originals import png, random_pixels, write

PIXELS = random_pixels(6, 8, 3)


def encoded(image: Image.Image, format: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)  # type: ignore[arg-type]
    return out.getvalue()


def values(images: FolderSet) -> list[int]:
    return [round(image.mean().item() * 255) for image in images.batch(range(len(images)))]


def test_classes_order_and_suffixes(tmp_path: Path) -> None:
    gray = encoded(Image.new("L", (4, 4), 5), "PPM")
    files = {"b/2.PNG": png(2), "b/deep/1.png": png(3), "a/10.png": png(1), "a/9.png": png(4), "c/x.pgm": gray}
    ignored = {
        "a/.hidden.png": b"",
        "b/.cache/1.png": b"",
        "a/notes.txt": b"",
        "empty/readme.md": b"",
        ".git/x.png": b"",
    }
    images = FolderSet(write(tmp_path, files | ignored))
    assert images.classes == ("a", "b", "c")
    assert images.files == ("a/10.png", "a/9.png", "b/2.PNG", "b/deep/1.png", "c/x.pgm")
    assert images.labels is not None
    assert images.labels.tolist() == [0, 0, 1, 1, 2]
    assert values(images) == [1, 4, 2, 3, 5]


def test_flat_folder_has_no_labels(tmp_path: Path) -> None:
    images = FolderSet(write(tmp_path, {"b.png": png(2), "a.png": png(1)}), name="mine")
    assert (images.labels, images.classes, images.name) == (None, (), "mine")
    assert values(images) == [1, 2]
    assert images.shape == (3, 4, 4)


def test_class_folders_may_be_links(tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/1.png": png(7)})
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert values(FolderSet(tmp_path / "set")) == [7]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"has no images; expected files ending in .*\.jpg"),
        ({"a/readme.txt": b""}, "has no images"),
        (
            {"x.png": png(0), "a/y.png": png(0)},
            "1 images next to 1 folders of images .*either images, or one sub-folder",
        ),
    ],
)
def test_bad_folders(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FolderSet(write(tmp_path, files))


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*expected a folder of images"):
        FolderSet(tmp_path / "nothing")


@pytest.mark.parametrize("options", [{"side": 0}, {"channels": 4}, {"side": 2.5}, {"crop": 0}, {"crop": "4"}])
def test_bad_options(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        FolderSet(write(tmp_path, {"a.png": png(0)}), **options)


def test_sizes_differ(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.png": png(9, 4), "b.png": png(9, 4), "c.png": png(9, 6)})
    how = r"one size with side: in Python .*side=4.* in a study .*options: {side: 4}"
    with pytest.raises(ValueError, match=rf"2 sizes: 4×4 \(2\), 6×6 \(1\); resize them to {how}"):
        _ = FolderSet(folder).shape
    assert FolderSet(folder, side=5).batch([0, 2]).shape == (2, 3, 5, 5)


def test_side_resizes_the_shorter_side_and_cuts_the_middle(tmp_path: Path) -> None:
    wide = random_pixels(4, 12, 3)
    folder = write(tmp_path, {"a.png": png(wide)})
    half = np.asarray(Image.fromarray(wide).resize((6, 2), Image.Resampling.BILINEAR))
    for side, expected in ((4, wide[:, 4:8]), (2, half[:, 2:4])):
        image = FolderSet(folder, side=side).batch([0])[0] * 255
        np.testing.assert_array_equal(image.round().numpy(), expected.transpose(2, 0, 1))


def framed(width: int, height: int, crop: int) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels of 0 to 127 with a border of 255 around the middle, and the middle."""
    image = np.full((height, width, 3), 255, np.uint8)
    left, top = (width - crop) // 2, (height - crop) // 2
    middle = random_pixels(crop, crop, 3) // 2
    image[top : top + crop, left : left + crop] = middle
    return image, middle


def test_crop_cuts_the_middle_before_the_image_is_resized(tmp_path: Path) -> None:
    """The faces of the paper behind `evg`: 178 × 218 px, of which the middle 140 × 140 become 32 × 32."""
    image, middle = framed(178, 218, 140)
    folder = write(tmp_path, {"a.png": png(image)})
    small = np.asarray(Image.fromarray(middle).resize((32, 32), Image.Resampling.BILINEAR))
    for options, expected in (({"crop": 140, "side": 32}, small), ({"crop": 140}, middle)):
        images = FolderSet(folder, **options)
        assert images.shape == (3, len(expected), len(expected))
        found = images.batch([0])[0] * 255
        np.testing.assert_array_equal(found.round().numpy(), expected.transpose(2, 0, 1))
        np.testing.assert_array_equal(images.subset([0]).batch([0]), images.batch([0]))
    assert (FolderSet(folder, side=32).batch([0]) == 1).any()  # without it the border is seen


def test_crop_brings_images_of_several_sizes_to_one(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.png": png(random_pixels(7, 9, 3)), "b.png": png(random_pixels(6, 5, 3))})
    assert FolderSet(folder, crop=5).batch([0, 1]).shape == (2, 3, 5, 5)
    images = FolderSet(folder, crop=6)
    with pytest.raises(ValueError, match=r"1 of 2 images are smaller than crop=6, such as b\.png \(5×6\)"):
        images.check()
    with pytest.raises(ValueError, match=r"b\.png: crop=6 needs at least 6×6 pixels, the image has 5×6"):
        images.batch([1])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (encoded(Image.fromarray(PIXELS), "BMP"), PIXELS),
        (encoded(Image.fromarray(PIXELS), "TIFF"), PIXELS),
        (encoded(Image.fromarray(PIXELS), "WEBP", lossless=True), PIXELS),
        (encoded(Image.fromarray(PIXELS[..., 0])), PIXELS[..., :1].repeat(3, 2)),
        (encoded(Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257)), PIXELS[..., :1].repeat(3, 2)),
        (encoded(Image.fromarray(PIXELS // 128 * 255).quantize(8)), PIXELS // 128 * 255),
        (encoded(Image.fromarray(PIXELS).convert("CMYK"), "TIFF"), PIXELS),
        (encoded(Image.new("1", (8, 6), 1)), np.full((6, 8, 3), 255)),
        (encoded(Image.new("RGBA", (8, 6), (200, 100, 0, 0))), np.full((6, 8, 3), 255)),
        (encoded(Image.new("RGBA", (8, 6), (255, 0, 51, 51))), np.full((6, 8, 3), [255, 204, 214])),
        (encoded(Image.new("LA", (8, 6), (0, 51))), np.full((6, 8, 3), 204)),
    ],
    ids=["bmp", "tiff", "webp", "gray", "16 bit", "palette", "cmyk", "1 bit", "transparent", "rgba", "la"],
)
def test_decoding(tmp_path: Path, content: bytes, expected: np.ndarray) -> None:
    path = write(tmp_path, {"x.png": content}) / "x.png"
    np.testing.assert_array_equal(decode(path, None, 3).transpose(1, 2, 0), expected)


def test_gray_by_request(tmp_path: Path) -> None:
    images = FolderSet(write(tmp_path, {"x.png": encoded(Image.new("RGB", (2, 2), (255, 0, 0)))}), channels=1)
    assert images.shape == (1, 2, 2)
    assert images.batch([0]).unique().tolist() == pytest.approx([76 / 255])  # .299 · 255


def test_exif_orientation(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise
    folder = write(tmp_path, {"x.png": encoded(Image.fromarray(PIXELS), exif=exif.tobytes())})
    images = FolderSet(folder)
    assert images.shape == (3, 8, 6)
    turned = np.rot90(PIXELS, -1).transpose(2, 0, 1)
    np.testing.assert_array_equal((images.batch([0])[0] * 255).round().numpy(), turned)


def test_float_pixels_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"x.tif": encoded(Image.new("F", (2, 2), 0.5), "TIFF")})
    with pytest.raises(Unreadable, match="has float pixels"):
        FolderSet(folder).check()


def test_damaged_images_are_listed_before_any_work(tmp_path: Path) -> None:
    jpeg = encoded(Image.fromarray(random_pixels(64, 64, 3)), "JPEG")
    bad = {"a/1.png": b"no image", "a/2.jpg": jpeg[: len(jpeg) // 2], "a/3.png": png(PIXELS)[:-40], "b/4.png": b""}
    folder = write(tmp_path, {"a/0.png": png(1), "b/5.png": png(1), **bad})
    with pytest.raises(Unreadable, match="4 of 6 images") as error:
        FolderSet(folder, side=4).check()
    assert all(name in str(error.value) for name in bad)
    with pytest.raises(Unreadable, match=r"2\.jpg: image file is truncated"):
        FolderSet(folder, side=4).batch([2])


def test_long_lists_of_damage_are_cut(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"{number:02}.png": b"x" for number in range(9)})
    with pytest.raises(Unreadable, match=r"and 4 more$"):
        FolderSet(folder).check()


FILES = {"a/1.png": png(1), "a/2.png": png(2), "b/1.png": png(3)}


def test_fingerprint_is_of_contents_names_and_options(tmp_path: Path) -> None:
    one, two = FolderSet(write(tmp_path / "x", FILES)), FolderSet(write(tmp_path / "other" / "y", FILES))
    os.utime(tmp_path / "x" / "a" / "1.png", (0, 0))
    assert one.fingerprint == two.fingerprint == FolderSet(tmp_path / "x").fingerprint
    variants = [
        FILES | {"b/1.png": png(4)},
        {"a/1.png": png(1), "a/2.png": png(2), "c/1.png": png(3)},
        {"a/1.png": png(1), "a/3.png": png(2), "b/1.png": png(3)},
    ]
    others = [FolderSet(write(tmp_path / str(k), files)) for k, files in enumerate(variants)]
    others += [
        FolderSet(tmp_path / "x", **options) for options in ({"side": 4}, {"crop": 3}, {"crop": 2}, {"channels": 1})
    ]
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 8


def test_second_look_is_from_memory(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "RESOLUTION", -60.0)  # these files are new, and would be read again
    folder = write(tmp_path / "set", FILES)
    first = FolderSet(folder).fingerprint
    probed: list[Path] = []
    real = survey.probe
    monkeypatch.setattr(survey, "probe", lambda path: probed.append(path) or real(path))
    assert FolderSet(folder).fingerprint == first
    assert probed == []
    stat = (folder / "a/1.png").stat()
    (folder / "a/1.png").write_bytes(png(9))
    os.utime(folder / "a/1.png", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert FolderSet(folder).fingerprint != first
    assert len(probed) == 3
    for known in (cache / "surveys").iterdir():
        known.write_bytes(b"damaged")
    assert FolderSet(folder, side=4).batch([0]).shape == (1, 3, 4, 4)
    FolderSet(folder).check()
    assert len(probed) == 6


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "set", FILES)
    monkeypatch.setenv("FAROUT_DATA", str(folder / "a" / "1.png"))
    assert FolderSet(folder).shape == (3, 4, 4)


def test_subset_is_a_set_of_its_own(tmp_path: Path) -> None:
    part = FolderSet(write(tmp_path / "x", FILES)).subset([2, 0], name="part")
    assert (part.name, part.files, part.shape) == ("part", ("b/1.png", "a/1.png"), (3, 4, 4))
    assert part.labels is not None
    assert part.labels.tolist() == [1, 0]
    assert part.fingerprint == FolderSet(tmp_path / "x").subset([2, 0]).fingerprint


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.integers(0, 5), max_size=9))
def test_a_batch_is_its_images_one_by_one(tmp_path: Path, indices: list[int]) -> None:
    if not (tmp_path / "set").exists():
        write(tmp_path / "set", {f"{k}.png": png(random_pixels(6, 9, 3, seed=k)) for k in range(6)})
    images = FolderSet(tmp_path / "set", side=5)
    batch = images.batch(indices)
    assert len(batch) == len(indices)
    for row, index in zip(batch, indices, strict=True):
        assert torch.equal(row, images.batch([index])[0])
