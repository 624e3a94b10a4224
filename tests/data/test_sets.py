"""The downloaded sets, from small files in the original formats: pixels, labels, order, splits."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat

import farout.data
from farout.core import ImageSet
from farout.data.download import DownloadError
from farout.data.file_sets import CATEGORIES
from farout.data.formats import parse_cifar_records, read_idx
from farout.data.splits import SPLITS
from farout.data.urls import SOURCES, Source
from helpers.originals import Serve, idx, pack_zip, png, random_pixels, tar, write

Bytes = NDArray[np.uint8]


def pixels(images: ImageSet) -> Bytes:
    """All images as uint8 [N, H, W, C]."""
    batch = images.batch(range(len(images))) * 255
    return batch.round().byte().numpy().transpose(0, 2, 3, 1)


def cifar_bin(images: Bytes, *labels: Bytes) -> bytes:
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([*(column[:, None] for column in labels), planes], 1).tobytes()


def check_splits(name: str, images: Bytes, labels: Bytes, **options: str) -> None:
    """train+val is the official order; train and val are disjoint, complete, and a tenth of each class is held out."""
    whole, train, val = (farout.data.load(name, split, **options) for split in ("train+val", "train", "val"))
    np.testing.assert_array_equal(pixels(whole), images)
    assert whole.labels is not None
    assert val.labels is not None
    np.testing.assert_array_equal(whole.labels, labels)
    np.testing.assert_array_equal(np.bincount(val.labels), np.bincount(labels) // 10)
    mine, held = ({image.tobytes() for image in pixels(part)} for part in (train, val))
    assert mine.isdisjoint(held)
    assert len(mine) + len(held) == len(images) == len(train) + len(val)
    again = farout.data.load(name, "val", **options)
    assert again.fingerprint == val.fingerprint != train.fingerprint


def test_cifar10(serve: Serve) -> None:
    images, labels = random_pixels(50, 32, 32, 3), np.arange(50, dtype=np.uint8) % 2
    test = random_pixels(3, 32, 32, 3, seed=1)
    files = {
        f"cifar-10-batches-bin/data_batch_{k + 1}.bin": cifar_bin(images[10 * k :][:10], labels[10 * k :][:10])
        for k in reversed(range(5))
    }
    files["cifar-10-batches-bin/test_batch.bin"] = cifar_bin(test, np.array([1, 0, 1], np.uint8))
    files["cifar-10-batches-bin/batches.meta.txt"] = b"airplane\nautomobile\n\n"
    serve("cifar10/cifar-10-binary.tar.gz", tar(files))
    loaded = farout.data.load("cifar10")
    np.testing.assert_array_equal(pixels(loaded), test)
    assert loaded.labels is not None
    assert loaded.labels.tolist() == [1, 0, 1]
    assert loaded.classes == ("airplane", "automobile")
    check_splits("cifar10", images, labels)


def test_cifar100_fine_and_coarse(serve: Serve) -> None:
    images, fine = random_pixels(40, 32, 32, 3), np.arange(40, dtype=np.uint8) % 4
    coarse = fine // 2
    folder = "cifar-100-binary"
    files = {
        f"{folder}/train.bin": cifar_bin(images, coarse, fine),
        f"{folder}/test.bin": cifar_bin(images[:2], coarse[1:3], fine[1:3]),
        f"{folder}/fine_label_names.txt": b"apple\nbaby\ncan\ndoor\n",
        f"{folder}/coarse_label_names.txt": b"fruit\nthings\n",
    }
    serve("cifar100/cifar-100-binary.tar.gz", tar(files))
    check_splits("cifar100", images, fine)
    test, super_test = farout.data.load("cifar100"), farout.data.load("cifar100", coarse=True)
    assert (test.labels.tolist(), test.classes[2]) == ([1, 2], "can")  # type: ignore[union-attr]
    assert (super_test.labels.tolist(), super_test.classes) == ([0, 1], ("fruit", "things"))  # type: ignore[union-attr]
    held = [pixels(farout.data.load("cifar100", "val", coarse=kind)) for kind in (False, True)]
    np.testing.assert_array_equal(*held)


def test_svhn(serve: Serve) -> None:
    images, digits = random_pixels(30, 32, 32, 3), np.array([10, 1, 9] * 10, np.uint8)
    for split, n in (("train", 30), ("test", 3)):
        out = io.BytesIO()
        savemat(out, {"X": images[:n].transpose(1, 2, 3, 0), "y": digits[:n, None]}, do_compression=True)
        serve(f"svhn/{split}_32x32.mat", out.getvalue())
    check_splits("svhn", images, digits % 10)
    assert farout.data.load("svhn").labels.tolist() == [0, 1, 9]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist(serve: Serve, name: str) -> None:
    images, labels = random_pixels(20, 28, 28), np.arange(20, dtype=np.uint8) % 2
    for prefix, n in (("train", 20), ("t10k", 3)):
        serve(f"{name}/{prefix}-images-idx3-ubyte.gz", idx(images[:n]))
        serve(f"{name}/{prefix}-labels-idx1-ubyte.gz", idx(labels[:n]))
    check_splits(name, images[..., None], labels)
    assert len(farout.data.load(name)) == 3
    assert farout.data.load(name).classes[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[name]


def test_celeba(serve: Serve, cache: Path) -> None:
    names = [f"{number:06}.jpg" for number in range(1, 6)]
    serve("celeba/img_align_celeba.zip", pack_zip({f"img_align_celeba/{n}": png(10 * k) for k, n in enumerate(names)}))
    partition = "".join(f"{name} {part}\n" for name, part in zip(names, [0, 2, 1, 0, 2], strict=True))
    serve("celeba/list_eval_partition.txt", partition.encode())
    rows = "".join(f"{name}  1 {value}\n" for name, value in zip(names, [-1, 1, 1, 1, -1], strict=True))
    serve("celeba/list_attr_celeba.txt", f"5\nYoung Smiling\n{rows}".encode())
    firsts = {split: pixels(farout.data.load("celeba", split))[:, 0, 0, 0].tolist() for split in SPLITS}
    assert firsts == {"train": [0, 30], "val": [20], "train+val": [0, 20, 30], "test": [10, 40]}
    assert farout.data.load("celeba").labels is None
    smiling = farout.data.load("celeba", attribute="Smiling", side=2)
    assert smiling.labels is not None
    assert (smiling.labels.tolist(), smiling.classes) == ([1, 0], ("not Smiling", "Smiling"))
    assert smiling.shape == (3, 2, 2)
    assert farout.data.load("celeba", crop=3, side=2).fingerprint != farout.data.load("celeba", side=2).fingerprint
    with pytest.raises(ValueError, match=r"attribute= of celeba: 'Smilin'\. Did you mean 'Smiling'"):
        farout.data.load("celeba", attribute="Smilin")
    (cache / "celeba" / "img_align_celeba.zip").unlink()
    assert len(farout.data.load("celeba")) == 2


def test_tiny_imagenet(serve: Serve) -> None:
    root = "tiny-imagenet-200"
    images = {s: random_pixels(10, 4, 4, 3, seed=k) for k, s in enumerate(("n01", "n02"))}
    files = {
        f"{root}/train/{s}/images/{s}_{k}.JPEG": png(im) for s, many in images.items() for k, im in enumerate(many)
    }
    files |= {f"{root}/val/images/val_{k}.JPEG": png(50 + k) for k in (0, 1, 10)}
    files[f"{root}/val/val_annotations.txt"] = "".join(
        f"val_{k}.JPEG\t{synset}\t0\t0\t62\t62\n" for k, synset in ((0, "n02"), (1, "n01"), (10, "n02"))
    ).encode()
    files[f"{root}/test/images/test_0.JPEG"] = png(0)
    serve("tiny_imagenet/tiny-imagenet-200.zip", pack_zip(files))
    check_splits("tiny_imagenet", np.concatenate([*images.values()]), np.repeat([0, 1], 10).astype(np.uint8))
    test = farout.data.load("tiny_imagenet")
    assert test.labels is not None
    assert (test.labels.tolist(), test.classes) == ([1, 0, 1], ("n01", "n02"))
    assert pixels(test)[:, 0, 0, 0].tolist() == [50, 51, 60]


def test_mvtec(serve: Serve) -> None:
    good = random_pixels(10, 4, 4, 3)
    files = {f"bottle/train/good/{k:03}.png": png(image) for k, image in enumerate(good)}
    files |= {
        "bottle/test/broken/000.png": png(1),
        "bottle/test/good/000.png": png(2),
        "bottle/test/zz/000.png": png(3),
    }
    files |= {"bottle/ground_truth/broken/000_mask.png": png(9), "readme.txt": b""}
    serve("mvtec/mvtec_anomaly_detection.tar.xz", tar(files, "w:xz"))
    check_splits("mvtec", good, np.zeros(10, np.uint8), category="bottle")
    test = farout.data.load("mvtec", category="bottle")
    assert test.labels is not None
    assert (test.labels.tolist(), test.classes, test.name) == ([0, 1, 1], ("good", "defect"), "mvtec/bottle")
    assert pixels(test)[:, 0, 0, 0].tolist() == [2, 1, 3]


def test_mvtec_of_all_categories(serve: Serve) -> None:
    files = {}
    for level, category in enumerate(CATEGORIES):
        files |= {f"{category}/train/good/{k:03}.png": png(level) for k in range(3)}
        files |= {f"{category}/test/cut/000.png": png(100 + level), f"{category}/test/good/000.png": png(level)}
    serve("mvtec/mvtec_anomaly_detection.tar.xz", tar(files, "w:xz"))
    test = farout.data.load("mvtec", side=4)
    assert test.labels is not None
    assert test.classes == CATEGORIES
    assert test.labels.tolist() == [label for label in range(15) for _ in range(2)]
    assert test.attributes["outlier"].tolist() == [0, 1] * 15
    assert pixels(test)[:, 0, 0, 0].tolist() == [level + 100 * defect for level in range(15) for defect in (0, 1)]
    train, val = (farout.data.load("mvtec", split, side=4) for split in ("train", "val"))
    assert (len(train), len(val)) == (30, 15)  # one of three of each category is held out
    assert not train.attributes["outlier"].any()


def test_mvtec_of_an_unknown_category() -> None:
    with pytest.raises(ValueError, match=r"category= of mvtec.*Known: bottle, .* zipper"):
        farout.data.load("mvtec", category="botle")


def test_mvtec_of_all_categories_needs_a_side() -> None:
    with pytest.raises(ValueError, match=r"differ in size: give side= .*, or one category= \(carpet, .* zipper\)"):
        farout.data.load("mvtec")


def test_imagenet_from_the_users_folder(tmp_path: Path) -> None:
    images = {s: random_pixels(10, 4, 4, 3, seed=k) for k, s in enumerate(("n01440764", "n01443537"))}
    files = {f"train/{s}/{k}.JPEG": png(image) for s, many in images.items() for k, image in enumerate(many)}
    root = write(tmp_path / "imagenet", files | {"val/n01440764/1.JPEG": png(7, 9), "val/n01443537/1.JPEG": png(8)})
    labels = np.repeat([0, 1], 10).astype(np.uint8)
    check_splits("imagenet", np.concatenate([*images.values()]), labels, root=str(root), side=4)  # type: ignore[arg-type]
    test = farout.data.load("imagenet", root=root)
    assert test.shape == (3, 224, 224)
    assert pixels(test)[:, 0, 0, 0].tolist() == [7, 8]


def test_imagenet_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected root=.*got no root.*image-net\.org"):
        farout.data.load("imagenet")
    with pytest.raises(FileNotFoundError, match="has no folder 'val'"):
        farout.data.load("imagenet", root=tmp_path)
    with pytest.raises(ValueError, match="expected one folder per synset"):
        farout.data.load("imagenet", root=write(tmp_path, {"val/1.JPEG": png(7)}))


def test_no_network_is_said_through_load(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in SOURCES:
        monkeypatch.setitem(SOURCES, key, Source(("http://127.0.0.1:9/",), "md5:" + "0" * 32))
    for name in ("cifar10", "cifar100", "svhn", "mnist", "fashion_mnist", "celeba", "tiny_imagenet"):
        with pytest.raises(DownloadError, match=f"cannot download {name}/"):
            farout.data.load(name)


def test_malformed_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cifar10: expected records of 3,073 bytes, got 100 bytes"):
        parse_cifar_records(bytes(100), 1, "cifar10")
    write(tmp_path, {"a.gz": idx(random_pixels(2, 2))})
    whole = (tmp_path / "a.gz").read_bytes()
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), random_pixels(2, 2))
    for content, message in [(gzip.decompress(whole)[:-1], "expected 4 values"), (b"text", "starts 00 00 08")]:
        (tmp_path / "c.gz").write_bytes(gzip.compress(content))
        with pytest.raises(ValueError, match=message):
            read_idx(tmp_path / "c.gz")
