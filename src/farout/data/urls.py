"""Download addresses and checksums of all files that are downloaded."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Source:
    """Addresses of a file, tried in order, and its checksum as `algorithm:hexadecimal`."""

    urls: tuple[str, ...]
    checksum: str


def _drive(*ids: str) -> tuple[str, ...]:
    return tuple(f"https://drive.usercontent.google.com/download?id={id}&export=download&confirm=t" for id in ids)


def _mnist(file: str, checksum: str) -> tuple[str, Source]:
    hosts = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")
    return f"mnist/{file}", Source(tuple(host + file for host in hosts), f"sha256:{checksum}")


def _fashion(file: str, checksum: str) -> tuple[str, Source]:
    url = f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{file}"
    return f"fashion_mnist/{file}", Source((url,), f"sha256:{checksum}")


_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_MVTEC, _MVTEC_FILE = "https://www.mydrive.ch/shares/", "mvtec_anomaly_detection.tar.xz"

SOURCES: dict[str, Source] = {
    "cifar10/cifar-10-binary.tar.gz": Source(
        (f"{_CIFAR}cifar-10-binary.tar.gz",),
        "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    "cifar100/cifar-100-binary.tar.gz": Source(
        (f"{_CIFAR}cifar-100-binary.tar.gz",),
        "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    "svhn/train_32x32.mat": Source(
        (f"{_SVHN}train_32x32.mat",), "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
    ),
    "svhn/test_32x32.mat": Source(
        (f"{_SVHN}test_32x32.mat",), "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"
    ),
    **dict(
        [
            _mnist("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            _mnist("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
            _fashion("train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            _fashion("train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            _fashion("t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            _fashion("t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ]
    ),
    "celeba/img_align_celeba.zip": Source(
        (
            "https://s3.amazonaws.com/pytorch-tutorial-assets/img_align_celeba.zip",
            *_drive("0B7EVK8r0v71pZjFTYXZWM3FlRnM", "1zmsC4yvw-e089uHXj5EdP0BSZ0AlDQRR"),
        ),
        "sha256:46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
    ),
    "celeba/list_eval_partition.txt": Source(
        _drive("0B7EVK8r0v71pY0NSMzRuSXJEVkk", "1ih_VMokoI774ErNWrb26lDeWlanUBpnX"),
        "sha256:fc955bcb3ef8fbdf7d5640d9a8693a8431b5f2ee291a5c1449a1549e7e073fe7",
    ),
    "celeba/list_attr_celeba.txt": Source(
        _drive("0B7EVK8r0v71pblRyaVFSWGxPY0U", "1gxmFoeEPgF9sT65Wpo85AnHl3zsQ4NvS"),
        "sha256:f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
    ),
    "tiny_imagenet/tiny-imagenet-200.zip": Source(
        ("https://cs231n.stanford.edu/tiny-imagenet-200.zip", "http://cs231n.stanford.edu/tiny-imagenet-200.zip"),
        "md5:90528d7ca1a48142e341f4ef8d21d0de",
    ),
    f"mvtec/{_MVTEC_FILE}": Source(
        (
            f"{_MVTEC}38536/3830184030e49fe74747669442f0f282/download/420938113-1629952094/{_MVTEC_FILE}",
            f"{_MVTEC}150996/b52ecdcbf521176e9db9c731f2304b27/download/420938113-1629960298/{_MVTEC_FILE}",
        ),
        "sha256:cf4313b13603bec67abb49ca959488f7eedce2a9f7795ec54446c649ac98cd3d",
    ),
}
"""Downloadable files by their path in the cache folder, `set/file`."""
