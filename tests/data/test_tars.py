"""Tar shards: samples, labels and pixels as the webdataset package reads them; images read at random."""

from __future__ import annotations

import gc
import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import farout
from farout.data import stamps, tar_index
from farout.data.pixels import Unreadable
from helpers.originals import png, random_pixels
from helpers.shards import samples, write_tar

PIXELS = random_pixels(10, 6, 5, 3)
IMAGES = [png(pixels) for pixels in PIXELS]
LABELS = [0, 2, 1, 2, 0, 1, 1, 0, 2, 0]


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """A pattern of three shards, in one folder."""
    for shard, (start, end) in enumerate([(0, 4), (4, 5), (5, 10)]):
        write_tar(tmp_path / f"photos-{shard:04}.tar", samples(IMAGES[start:end], LABELS[start:end], start))
    return str(tmp_path / "photos-{0000..0002}.tar")


def pixels(images: farout.ImageSet, indices: object) -> np.ndarray:
    return (images.batch(indices).numpy() * 255).round().astype(np.uint8).transpose(0, 2, 3, 1)  # type: ignore[arg-type]


def test_images_and_labels_are_those_that_were_written(shards: str) -> None:
    images = farout.load(shards)
    assert images.labels is not None
    assert (images.name, images.shape, images.labels.tolist()) == ("photos", (3, 6, 5), LABELS)
    assert images.classes == ("0", "1", "2")
    order = [9, 0, 4, 4, 7]
    np.testing.assert_array_equal(pixels(images, order), PIXELS[order])
    part = images.subset([8, 3])
    np.testing.assert_array_equal(pixels(part, [0, 1]), PIXELS[[8, 3]])
    assert (part.labels.tolist(), part.index.tolist()) == ([2, 2], [8, 3])  # type: ignore[union-attr]


def test_a_folder_a_pattern_and_a_wildcard_are_one_set(shards: str, tmp_path: Path) -> None:
    prints = {farout.load(path).fingerprint for path in (shards, tmp_path, tmp_path / "photos-*.tar")}
    whole = write_tar(tmp_path / "all.tar", samples(IMAGES, LABELS))
    assert prints == {farout.load(whole).fingerprint}  # the same samples, in one shard


def test_the_fingerprint_is_of_names_labels_and_images(tmp_path: Path) -> None:
    def fingerprint(name: str, images: list[bytes], labels: list[int] | None, first: int = 0) -> str:
        return farout.load(write_tar(tmp_path / name, samples(images, labels, first))).fingerprint

    variants = [
        fingerprint("a.tar", IMAGES[:4], LABELS[:4]),
        fingerprint("b.tar", [*IMAGES[:3], IMAGES[5]], LABELS[:4]),
        fingerprint("c.tar", IMAGES[:4], [1, 2, 1, 2]),
        fingerprint("d.tar", IMAGES[:4], None),
        fingerprint("e.tar", IMAGES[:4], LABELS[:4], first=7),
    ]
    assert len(set(variants)) == 5
    assert fingerprint("f.tar", IMAGES[:4], LABELS[:4]) == variants[0]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # theirs
def test_as_the_webdataset_package_reads_it(tmp_path: Path) -> None:
    """Samples with other members, JSON labels, folders, upper case and long names; written and read by the package."""
    wds = pytest.importorskip("webdataset")
    path, metadata = tmp_path / "a.tar", [{"label": 3, "width": 5}, 1, {"cls": 2}, {"target": 0}]
    keys = ["deep/folder/0001", "0002", "x" * 150, "a b ü"]
    with wds.TarWriter(str(path)) as writer:
        for key, image, about in zip(keys, IMAGES, metadata, strict=False):
            writer.write({"__key__": key, "json": json.dumps(about).encode(), "PNG": image, "txt": b"caption"})
    theirs = list(wds.WebDataset(str(path), shardshuffle=False, empty_check=False).decode("rgb8"))
    gc.collect()
    ours = farout.load(path)
    assert len(theirs) == len(ours) == 4
    np.testing.assert_array_equal(pixels(ours, range(4)), np.stack([sample["png"] for sample in theirs]))
    labels = [known if isinstance(known := sample["json"], int) else next(iter(known.values())) for sample in theirs]
    assert ours.labels is not None
    assert ours.labels.tolist() == labels == [3, 1, 2, 0]


def test_members_that_are_no_sample_are_left_out(tmp_path: Path) -> None:
    folder = tarfile.TarInfo("a")
    folder.type = tarfile.DIRTYPE
    hidden = [("a/._0.png", b"resource fork"), ("__MACOSX__/0.png", b"x"), ("README", b"x")]
    path = write_tar(tmp_path / "a.tar", [folder, *hidden, ("a/0.seg.png", b"mask"), ("a/0.png", IMAGES[0])])
    images = farout.load(path)
    assert (len(images), images.labels) == (1, None)
    np.testing.assert_array_equal(pixels(images, [0]), PIXELS[:1])


def test_options_are_those_of_folders(tmp_path: Path) -> None:
    wide = random_pixels(4, 12, 3)
    write_tar(tmp_path / "a.tar", samples([png(wide), png(3, 9)]))
    with pytest.raises(ValueError, match=r"a: images of 2 sizes: 12×4 \(1\), 9×9 \(1\)"):
        _ = farout.load(tmp_path / "a.tar").shape
    images = farout.load(tmp_path / "a.tar", side=4, channels=1, name="mine")
    assert (images.shape, images.name) == ((1, 4, 4), "mine")
    whole = farout.load(tmp_path / "a.tar", side=4)
    np.testing.assert_array_equal(pixels(whole, [0])[0], wide[:, 4:8])
    with pytest.raises(ValueError, match=r"1 of 2 images are smaller than crop=5, such as 00000\.png \(12×4\)"):
        farout.load(tmp_path / "a.tar", crop=5)
    with pytest.raises(ValueError, match="unknown option for shards: 'sides'"):
        farout.load(tmp_path / "a.tar", sides=5)


def test_names_of_shards_give_the_split(tmp_path: Path) -> None:
    write_tar(tmp_path / "train-0.tar", samples(IMAGES[:4]))
    write_tar(tmp_path / "train-1.tar", samples(IMAGES[4:7]))
    assert len(farout.load(tmp_path)) == 7  # a single split: the same for all
    write_tar(tmp_path / "validation-0.tar", samples(IMAGES[7:]))
    assert [len(farout.load(tmp_path, split)) for split in ("train", "val")] == [7, 3]
    with pytest.raises(ValueError, match=r"unknown split of .*: 'test'. Known: train, val"):
        farout.load(tmp_path)
    write_tar(tmp_path / "training.tar", samples(IMAGES))
    assert len(farout.load(tmp_path)) == 20  # "training" is a name


def test_the_index_and_the_survey_are_read_once(
    shards: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "RESOLUTION", -60.0)  # these files are new, and would be read again
    indexed = list[Path]()
    real = tar_index._index
    monkeypatch.setattr(tar_index, "_index", lambda path: indexed.append(path) or real(path))
    first = farout.load(shards).fingerprint
    assert len(indexed) == 3
    assert farout.load(shards).fingerprint == first
    assert len(indexed) == 3
    write_tar(tmp_path / "photos-0001.tar", samples([IMAGES[9]], [1], 4))
    assert farout.load(shards).fingerprint != first
    assert indexed[3:] == [tmp_path / "photos-0001.tar"]
    for known in (cache / "indexes").iterdir():
        known.write_bytes(b"damaged")
    np.testing.assert_array_equal(pixels(farout.load(shards), [4]), PIXELS[9:])
    assert len(indexed) == 7


def test_a_limit_reads_only_what_it_keeps(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", samples([*IMAGES[:4], b"no image"]))
    assert len(farout.load(path, limit=4)) == 4
    with pytest.raises(Unreadable, match=r"1 of 5 images in .*a\.tar cannot be read.*\n  00004\.png: not an image"):
        farout.load(path)


def test_a_shard_that_changes_while_it_is_open_is_told(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", samples(IMAGES))
    images = farout.load(path)
    write_tar(path, samples(IMAGES[:2]))
    with pytest.raises(RuntimeError, match=r"a\.tar has changed or is gone since it was opened; load the set again"):
        images.batch([0])


def test_another_process_opens_the_shards_itself(shards: str) -> None:
    images = farout.load(shards)
    packed = pickle.dumps(images)
    assert IMAGES[0][:60] not in packed
    np.testing.assert_array_equal(pixels(pickle.loads(packed), range(10)), PIXELS)


def test_jpeg_and_webp(tmp_path: Path) -> None:
    out = [io.BytesIO(), io.BytesIO()]
    Image.fromarray(PIXELS[0]).save(out[0], "JPEG")
    Image.fromarray(PIXELS[1]).save(out[1], "WEBP", lossless=True)
    path = write_tar(tmp_path / "a.tar", [("0.JPG", out[0].getvalue()), ("1.webp", out[1].getvalue())])
    decoded = np.asarray(Image.open(out[0]).convert("RGB"))
    np.testing.assert_array_equal(pixels(farout.load(path), [0, 1]), np.stack([decoded, PIXELS[1]]))
