"""Small named sets (CIFAR, SVHN, MNIST, …): downloaded once, held in memory."""

from __future__ import annotations

import numpy as np

from farout.core import ImageSet
from farout.data.archives import read_tar_members
from farout.data.arrays import ArraySet
from farout.data.download import announce_files, fetch
from farout.data.formats import parse_cifar_records, read_idx, read_svhn
from farout.data.splits import official_split, select_split

_DIGITS = tuple("0123456789")
_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def cifar10(split: str = "test") -> ImageSet:
    """CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 color images of 32 px, 10 classes.

    Splits as in `farout.data.splits.select_split`: "train" (45,000), "val" (5,000), "train+val", "test".
    """
    train = [f"data_batch_{number}" for number in range(1, 6)]
    parts = train if official_split(split, "cifar10") == "train" else ["test_batch"]
    folder, names = "cifar-10-batches-bin/", "cifar-10-batches-bin/batches.meta.txt"
    files = [f"{folder}{part}.bin" for part in parts]
    content = read_tar_members(fetch("cifar10/cifar-10-binary.tar.gz"), [*files, names])
    images, labels = parse_cifar_records(b"".join(content[file] for file in files), 1, "cifar10")
    return select_split(ArraySet(images, labels[:, 0], name="cifar10", classes=_lines(content[names])), split)


def cifar100(split: str = "test", *, coarse: bool = False) -> ImageSet:
    """CIFAR-100: 50,000 + 10,000 color images of 32 px, 100 classes, or with `coarse` the 20 super-classes.

    Splits as in `cifar10`; "val" is the same with both kinds of labels, a tenth of each of the 100 classes.
    """
    file = f"cifar-100-binary/{official_split(split, 'cifar100')}.bin"
    names = f"cifar-100-binary/{'coarse' if coarse else 'fine'}_label_names.txt"
    content = read_tar_members(fetch("cifar100/cifar-100-binary.tar.gz"), [file, names])
    images, labels = parse_cifar_records(content[file], 2, "cifar100")
    named = ArraySet(images, labels[:, 0 if coarse else 1], name="cifar100", classes=_lines(content[names]))
    return select_split(named, split, strata=labels[:, 1].astype(np.int64))


def svhn(split: str = "test") -> ImageSet:
    """Street View House Numbers (Netzer et al. 2011), cropped digits: 73,257 + 26,032 color images of 32 px.

    Splits as in `cifar10`; the "extra" images are not used.
    """
    images, labels = read_svhn(fetch(f"svhn/{official_split(split, 'svhn')}_32x32.mat"))
    return select_split(ArraySet(images, labels, name="svhn", classes=_DIGITS), split)


def mnist(split: str = "test") -> ImageSet:
    """MNIST (LeCun et al. 1998): 60,000 + 10,000 gray digits of 28 px. Splits as in `cifar10`."""
    return _idx("mnist", split, _DIGITS)


def fashion_mnist(split: str = "test") -> ImageSet:
    """Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 gray clothes of 28 px, 10 classes. Splits as in `cifar10`."""
    return _idx("fashion_mnist", split, _CLOTHES)


def _idx(name: str, split: str, classes: tuple[str, ...]) -> ImageSet:
    prefix = "t10k" if official_split(split, name) == "test" else "train"
    files = [f"{name}/{prefix}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    announce_files(*files)
    images, labels = (read_idx(fetch(file)) for file in files)
    return select_split(ArraySet(images, labels, name=name, classes=classes), split)


def _lines(text: bytes) -> tuple[str, ...]:
    return tuple(text.decode().split())
