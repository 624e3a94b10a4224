"""Small inputs that ask for a lot of memory or time, each tried within a limit of both.

As a script it prints, for every bomb, the error that it led to: `python bombs.py FOLDER`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

import farout
from farout.study.spec import StudySpec

MEMORY, SECONDS = 1 << 30, 20
STUDY = "inliers: {test: toy}\ndetectors: [msp]\n"


def study(folder: Path, text: str) -> Callable[[], object]:
    (folder / "study.yaml").write_text(text)
    return lambda: StudySpec.read(folder / "study.yaml")


def aliases(folder: Path) -> Callable[[], object]:
    lines = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    head = ["detectors: [msp]", "inliers: {test: toy}", "validation_outliers:", " name: noise", " options:"]
    read = study(folder, "\n".join([*head, "  a0: &a0 [x, x, x]", *lines]))
    return lambda: read().model_dump_json()  # type: ignore[attr-defined]


def merges(folder: Path) -> Callable[[], object]:
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    return study(folder, "\n".join(["a0: &a0 {x: 1}", *lines]))


def arrays(folder: Path, labels: object) -> Callable[[], object]:
    np.savez(folder / "set.npz", images=np.zeros((4, 8, 8, 3), np.uint8), labels=np.asarray(labels))
    return lambda: farout.load(folder / "set.npz").classes


def pictures(folder: Path, name: str, make: Callable[[Path], object]) -> Callable[[], object]:
    (folder / "images" / name).parent.mkdir(parents=True)
    make(folder / "images" / name)
    return lambda: farout.load(folder / "images").fingerprint


def archive(folder: Path, megabytes: int) -> Callable[[], object]:
    """An .npz file with one array of zeros: three gigabytes that take three megabytes in the file."""
    header = np.lib.format.magic(1, 0) + struct.pack("<H", 118)
    shape = {"descr": "|u1", "fortran_order": False, "shape": (megabytes << 10, 32, 32, 1)}
    header += repr(shape).encode().ljust(117) + b"\n"
    press = zlib.compressobj(9, wbits=-15)
    first = press.compress(header) + press.flush(zlib.Z_FULL_FLUSH)
    block = press.compress(bytes(1 << 20)) + press.flush(zlib.Z_FULL_FLUSH)
    data = first + block * megabytes + press.flush(zlib.Z_FINISH)
    facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(data), len(header) + (megabytes << 20), 10, 0)
    local = b"PK\3\4" + facts + b"images.npy"
    central = b"PK\1\2" + struct.pack("<H", 20) + facts + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"images.npy"
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    (folder / "set.npz").write_bytes(local + data + central + end)
    return lambda: farout.load(folder / "set.npz")


def liar(folder: Path) -> Callable[[], object]:
    """An .npz file whose array says that it is larger than any memory."""
    import zipfile

    with zipfile.ZipFile(folder / "set.npz", "w") as pack, pack.open("images.npy", "w") as file:
        shape = (10**13, 32, 32, 3)
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return lambda: farout.load(folder / "set.npz")


def png(path: Path) -> None:
    """A PNG file of 169 megapixels in half a megabyte."""
    side = 13_000

    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = zlib.compress(bytes((3 * side + 1) * side), 1)
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", pixels) + part(b"IEND", b""))


TRAIN = "networks: [{name: lenet, members: %s, train: {epochs: 1}}]\n"
MANY = "\n".join(f"k{n}: {n}" for n in range(100_000))
BOMBS: dict[str, tuple[Callable[[Path], Callable[[], object]], str]] = {
    "aliases": (aliases, "more than 20,000 values"),
    "merged aliases": (merges, "more than 20,000 values"),
    "an alias to itself": (lambda at: study(at, "a: &a [*a]"), "a part of"),
    "100,000 keys": (lambda at: study(at, MANY), "characters, at most 262,144"),
    "30,000 keys": (
        lambda at: study(at, "\n".join(f"k{n}: 1" for n in range(30_000)) + "\n" + STUDY),
        "characters|20,000",
    ),
    "deep lists": (lambda at: study(at, STUDY + "seeds: " + "[" * 5000 + "]" * 5000), "deeper than 50 levels"),
    "deep mappings": (lambda at: study(at, "{a: " * 5000 + "1" + "}" * 5000), "deeper than 50 levels"),
    "deep dashes": (lambda at: study(at, "- " * 5000 + "1"), "deeper than 50 levels"),
    "a million members": (lambda at: study(at, STUDY + TRAIN % 1_000_000), "members: .*less than or equal to 100"),
    "5,000 seeds": (lambda at: study(at, STUDY + f"seeds: {list(range(5000))}"), "seeds: .*at most 1000 items"),
    "5,000 outlier sets": (lambda at: study(at, STUDY + f"outliers: [{'noise, ' * 5000}]"), "outliers: .*at most 1000"),
    "a study without end": (lambda at: lambda: StudySpec.read("/dev/zero"), "not a regular file"),
    "label 4294967295": (
        lambda at: arrays(at, [0, 1, 2, 4294967295]),
        "4294967295 would need 4,294,967,296 classes, the limit is 100,000",
    ),
    "label 2^64 - 1": (
        lambda at: arrays(at, np.array([0, 1, 2, 2**64 - 1], np.uint64)),
        "below 2\\^63, got 18446744073709551615",
    ),
    "label -1": (lambda at: arrays(at, [0, 1, 2, -1]), "from 0 on, got -1"),
    "a pipe": (lambda at: pictures(at, "a.png", os.mkfifo), "a.png has the name of an image but is a pipe"),
    "a pipe in a class": (
        lambda at: pictures(at, "cat/a.png", os.mkfifo),
        "cat/a.png has the name of an image but is a pipe",
    ),
    "a device": (
        lambda at: pictures(at, "a.png", lambda path: path.symlink_to("/dev/zero")),
        "a.png has the name of an image",
    ),
    "a device in a class": (
        lambda at: pictures(at, "cat/a.png", lambda path: path.symlink_to("/dev/zero")),
        "cat/a.png has the name of an image",
    ),
    "a link to nothing": (
        lambda at: pictures(at, "cat/a.png", lambda path: path.symlink_to("/none")),
        "a.png cannot be read",
    ),
    "an archive of zeros": (lambda at: archive(at, 3000), "in memory; more than 100 times the stored size is refused"),
    "an array without data": (liar, "is damaged: images.npy does not have the size of its header, uint8"),
    "a png of zeros": (lambda at: pictures(at, "a.png", png), "13000 × 13000 pixels, at most 89,478,485 are allowed"),
}
"""How each is made, and what is said of it."""


def tried(call: Callable[[], object]) -> str:
    """The error that a call leads to, within the limits."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        call()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "nothing"


def main(folder: Path) -> dict[str, str]:
    calls = {}
    for number, (name, (make, _)) in enumerate(BOMBS.items()):
        (folder / str(number)).mkdir()
        calls[name] = make(folder / str(number))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    return {name: tried(call) for name, call in calls.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
