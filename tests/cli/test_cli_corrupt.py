"""`farout corrupt`: what it writes, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import farout
from farout import cli
from farout.data.shifted import Shifted

Command = Callable[..., tuple[int, str, str]]
COMMAND = """
import signal
import farout.cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background inherits that it is ignored
farout.cli.main()
"""
PLUGIN = """
import time
import farout
from farout.shifts.corruption import Corruption

@farout.register
class Slow(Corruption):
    "Takes its time."
    name = "slow"
    random = False

    def corrupt(self, images, params, constants):
        time.sleep(0.1 if len(images) > 1 else 0)
        return 1 - images

    def constants(self, shape):
        return ()
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """`command("--set", "C")`: `farout corrupt` in a folder of its own, beside pictures.npz; code, stdout, stderr."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.delenv("FAROUT_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "pictures.npz", 12)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["farout", "corrupt", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def pictures(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    np.savez(path, images=rng.integers(0, 256, (count, 32, 32, 3), np.uint8), labels=np.arange(count) % 3)


def test_a_whole_set(command: Command) -> None:
    code, out, err = command("pictures.npz", "--out", "r", "--limit", "4", "--workers", "0", "--seed", "6")
    assert (code, err) == (0, "")
    corruptions = {s.name for s in farout.shifts.choosing.select_shifts("C")}
    augmentations = {s.name for s in farout.shifts.choosing.select_shifts("A")}
    facts = json.loads(Path("r/manifest.json").read_text())
    assert set(facts["shifts"]) == {"clean"} | corruptions | augmentations
    assert {line.split()[-1]: int(line.split()[0]) for line in out.splitlines()} == {
        f"r/{entry['place']}": 20 if name in corruptions else 4 for name, entry in facts["shifts"].items()
    }
    assert "       20 images  frost (procedural)  r/frost.npz\n" in out
    assert "        4 images  clean               r/clean.npz\n" in out
    images = farout.load("pictures.npz", limit=4)
    for name in ("fog", "shot_noise"):
        written = farout.load(f"r/{name}.npz")
        for severity in range(1, 6):
            view = Shifted(images, farout.shift(name, severity=severity), 6)
            assert torch.equal(written.batch(range(4 * severity - 4, 4 * severity)), view.batch(range(4)))
    assert torch.equal(farout.load("r/rot90.npz").batch(range(4)), images.batch(range(4)).rot90(1, (2, 3)))
    assert torch.equal(farout.load("r/clean.npz").batch(range(4)), images.batch(range(4)))


def test_some_shifts_as_files(command: Command) -> None:
    options = ("--out", "r", "--workers", "0", "--format", "png", "--severity", "2", "--severity", "4")
    code, out, _ = command("pictures.npz", *options, "--shift", "contrast", "--shift", "flip")
    assert code == 0
    assert out.split() == ["24", "images", "contrast", "r/contrast", "12", "images", "flip", "r/flip"]
    view = Shifted(farout.load("pictures.npz"), farout.shift("contrast", severity=4))
    order = np.argsort(np.arange(12) % 3, kind="stable")
    assert torch.equal(farout.load("r/contrast/4").batch(range(12)), view.batch(order))
    assert sorted(path.name for path in Path("r").iterdir()) == ["contrast", "flip", "manifest.json"]
    assert sorted(path.name for path in Path("r/contrast").iterdir()) == ["2", "4"]


def test_a_folder_of_images_of_many_sizes(command: Command) -> None:
    from PIL import Image

    Path("photos/cat").mkdir(parents=True)
    for side in (40, 50):
        Image.new("RGB", (side, side), (side, 100, 200)).save(f"photos/cat/{side}.png")
    code, _, err = command("photos", "--out", "r", "--shift", "contrast", "--workers", "0")
    assert code == 2
    assert "images of 2 sizes" in err
    code, _, err = command("photos", "--out", "r", "--shift", "contrast", "--workers", "0", "--side", "36")
    assert (code, err) == (0, "")
    flat = np.repeat([[40, 100, 200], [50, 100, 200]], 5, axis=0).reshape(2, 5, 3).transpose(1, 0, 2).reshape(10, 3)
    with np.load("r/contrast.npz") as file:  # contrast leaves a flat image as it is
        assert np.array_equal(file["images"], np.broadcast_to(flat[:, None, None].astype(np.uint8), (10, 36, 36, 3)))


def test_options_of_the_set_are_those_of_a_study(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def cifar100(split: str = "test", *, coarse: bool = False) -> farout.ImageSet:
        labels = np.arange(6) // 3 if coarse is True else np.arange(6)
        return farout.ImageSet.from_arrays(np.zeros((6, 32, 32, 3), np.uint8), labels, name="cifar100")

    monkeypatch.setitem(farout.data.catalog.DATASETS._makers, "cifar100", cifar100)
    arguments = ("--shift", "flip", "--workers", "0")
    code, _, err = command("cifar100", "--option", "coarse=true", "--out", "coarse", *arguments)
    assert (code, err) == (0, "")
    assert farout.load("coarse/flip.npz").labels.tolist() == [0, 0, 0, 1, 1, 1]  # type: ignore[union-attr]
    code, _, err = command(
        "shapes", "--option", "seed=2", "--option", "side=16", "--limit", "5", "--out", "s", *arguments
    )
    assert (code, err) == (0, "")
    view = Shifted(farout.load("shapes", seed=2, side=16, limit=5), farout.shift("flip"))
    assert torch.equal(farout.load("s/flip.npz").batch(range(5)), view.batch(range(5)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pictures.npz", "--shift", "contrst"), "unknown shift 'contrst'. Did you mean 'contrast'?"),
        (("pictures.npz", "--shift", "flip", "--severity", "3"), "severities [3] need a corruption"),
        (("pictures.npz", "--set", "A", "--frost-dir", "photos"), "frost_dir=photos needs the shift frost"),
        (("pictures.npz", "--shift", "frost", "--frost-dir", "photos"), "there is no folder 'photos'"),
        (("picturs.npz",), "no file or folder picturs.npz"),
        (("cifar11",), "Did you mean 'cifar10'?"),
        (("pictures.npz", "--side", "8"), "an .npz file takes no options, got side"),
        (("pictures.npz", "--option", "crop=8"), "an .npz file takes no options, got crop"),
        (("toy", "--option", "crop"), "--option takes NAME=VALUE, got 'crop'"),
        (("toy", "--option", "crop=[8"), "--option 'crop=[8': the value cannot be read"),
        (("shapes", "--option", "sides=16"), "sides"),
    ],
)
def test_what_cannot_be_corrupted(command: Command, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = command(*arguments, "--out", "r", "--workers", "0")
    assert (code, out) == (2, "")
    assert said in err
    assert not Path("r").exists()


def test_another_set_in_the_same_folder(command: Command) -> None:
    again = ("pictures.npz", "--out", "r", "--shift", "contrast", "--workers", "0")
    assert command(*again)[0] == 0
    code, _, err = command(*again, "--limit", "5")
    assert code == 2
    assert "r holds another set: fingerprint is" in err
    assert command(*again)[:2] == (0, "       60 images  contrast  r/contrast.npz\n")


def test_other_severities_in_the_same_folder(command: Command) -> None:
    again = ("pictures.npz", "--out", "r", "--shift", "contrast", "--workers", "0")
    assert command(*again, "--severity", "3")[:2] == (0, "       12 images  contrast 3  r/contrast.npz\n")
    code, _, err = command(*again)
    assert code == 2
    assert "r holds severities [3] of contrast, requested were [1, 2, 3, 4, 5]; request the same ones" in err


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_ctrl_c_keeps_what_is_done(tmp_path: Path, sign: int, code: int) -> None:
    """The signal goes to the workers too, as from a terminal; nobody but the parent says a word."""
    pictures(tmp_path / "pictures.npz", 700)
    (tmp_path / "slow.py").write_text(PLUGIN)
    arguments = ["corrupt", "pictures.npz", "--out", "r", "--shift", "slow", "--workers", "2", "--plugin", "slow.py"]
    start = [sys.executable, "-c", COMMAND, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        start, cwd=tmp_path, env=environment, start_new_session=True, text=True, stderr=subprocess.PIPE
    )
    kept = tmp_path / "r" / ".unfinished" / "slow-1"
    while not kept.exists() and process.poll() is None:
        time.sleep(0.02)
    if sign == signal.SIGINT:
        os.killpg(process.pid, sign)
    else:
        process.send_signal(sign)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (
        code,
        "stopped; finished results are kept, the same command resumes from there\n",
    )
    assert kept.read_bytes() == (255 - np.load(tmp_path / "pictures.npz")["images"]).tobytes()
    assert not (tmp_path / "r" / "slow.npz").exists()
    assert not [path for path in (tmp_path / "r").rglob(".*") if path.name != ".unfinished"]
    again = subprocess.run(
        start, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=True
    )
    assert (again.stdout, again.stderr) == ("    3,500 images  slow  r/slow.npz\n", "")
    with np.load(tmp_path / "r" / "slow.npz") as file, np.load(tmp_path / "pictures.npz") as source:
        assert np.array_equal(file["images"], np.concatenate([255 - source["images"]] * 5))
