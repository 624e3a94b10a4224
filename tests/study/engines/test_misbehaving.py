"""Detectors that misbehave in every way we know fail by name; the sound one's results are there all the same."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farout.networks import create, save_weights
from farout.study.results import Results

STUDY = """
inliers: {train: {name: toy, split: train, limit: 80}, test: {name: toy, limit: 100}}
outliers: [{name: toy, split: test/ood_cls, limit: 70}]
detectors: [NAMES]
protocols: [clean]
"""

PLUGIN = """
import ctypes, os, resource, sys, threading, time
import torch
import farout

def detector(name, act):
    def score(self, images):
        act()
        return images.mean((1, 2, 3))
    return farout.register(type(name, (farout.Detector,), {"name": name, "score": score}))

class Odd(Exception):
    def __init__(self, a, b):  # it does not unpickle: its args are another number
        super().__init__("only one")

def leaves():
    raise SystemExit(0)
def quits():
    os._exit(0)
def hangs():
    while True:
        time.sleep(0.05)
def crashes():
    ctypes.string_at(0)
def odd():
    raise Odd(1, 2)
def interrupts():
    raise KeyboardInterrupt
def closes():
    raise GeneratorExit
def thread():
    threading.Thread(target=time.sleep, args=(3600,), name="left by a detector").start()
def greedy():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
    torch.zeros(1 << 40)

for act in (leaves, quits, hangs, crashes, odd, interrupts, closes, thread, greedy):
    detector(act.__name__, act)
detector("sound", lambda: None)

@farout.register
class NaN(farout.Detector):
    name = "nan"
    def score(self, images):
        return images.mean((1, 2, 3)) * torch.nan

@farout.register
class Shape(farout.Detector):
    name = "shape"
    def score(self, images):
        return images.mean((2, 3))

@farout.register
class FitQuits(farout.Detector):
    name = "fit_quits"
    def fit(self, images):
        os._exit(7)
    def score(self, images):
        return images.mean((1, 2, 3))
"""
REASONS = {
    "leaves": "SystemExit: 0",
    "quits": r"WorkerDied: the process ended with exit code 0 \(score toy by quits",
    "hangs": r"OutOfTime: took longer than 6 s for one chunk \(--timeout\)",
    "crashes": "WorkerDied: the process was ended by SIGSEGV",
    "nan": "nan gave (100|70) NaN",
    "shape": "shape",
    "odd": "Odd: only one",
    "interrupts": "KeyboardInterrupt",
    "closes": "GeneratorExit",
    "greedy": "allocate memory",
    "fit_quits": "WorkerDied: the process ended with exit code 7",
}
"""Why each fails; the two that are fine are not among them."""
ENDING = {"quits", "crashes", "fit_quits"}
"""Those that end the very process they run in."""


def run(folder: Path, names: list[str], *options: str, limit: int = 400) -> subprocess.CompletedProcess[str]:
    (folder / "study.yaml").write_text(STUDY.replace("NAMES", ", ".join(names)))
    (folder / "mine.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "mine.py", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)


def results(folder: Path) -> tuple[dict[str, int], dict[str, str]]:
    """How many results each detector has, and the traceback of those that failed."""
    found = Results(folder / "run")
    done = [row.tags["detector"] for row in found.done("clean")]
    failed = {one.row.tags["detector"]: one.reason for one in found.failures().values()}
    return {name: done.count(name) for name in done}, failed


def children(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == folder.resolve():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
def test_on_two_workers_every_bad_detector_fails_by_name_and_the_sound_one_is_there(tmp_path):
    names = [*REASONS, "thread", "sound"]
    ended = run(tmp_path, names, "--workers", "2", "--timeout", "6")
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"sound": 2, "thread": 2}
    assert failed.keys() == REASONS.keys()
    for name, why in REASONS.items():
        assert re.search(why, failed[name]), failed[name]
        assert name in ended.stdout + ended.stderr
    assert not children(tmp_path)
    assert not list((tmp_path / "run" / "running").iterdir())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_without_workers_the_same_for_all_that_do_not_end_the_process(tmp_path):
    names = [name for name in REASONS if name not in ENDING] + ["thread", "sound"]
    ended = run(tmp_path, names, "--workers", "0", "--timeout", "6")
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"sound": 2, "thread": 2}
    assert failed.keys() == REASONS.keys() - ENDING
    for name in failed:
        assert re.search(REASONS[name], failed[name]), failed[name]
    assert "left by a detector" in ended.stderr  # and yet the process has ended


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
def test_a_detector_that_ends_the_process_is_named_by_the_next_run_and_can_be_left_out(tmp_path):
    first = run(tmp_path, ["quits", "sound"], "--workers", "0")
    assert first.returncode == 0  # the detector's own exit code: nobody was left to say another
    assert "results computed" not in first.stdout
    second = run(tmp_path, ["quits", "sound"], "--workers", "0")
    assert re.search("crashed or was killed while it computed: score toy by quits", second.stderr)
    assert results(tmp_path)[0] == {"sound": 2}  # computed before the suspect is tried again
    third = run(tmp_path, ["quits", "sound"], "--workers", "0", "--without", "quits")
    assert third.returncode == 0, third.stderr
    assert "0 failed" in third.stdout


POST_HOC = """
import os, sys, threading
import farout

class Top(farout.PostHoc):
    needs = frozenset({"logits"})

    def score(self, activations):
        return activations.logits.double().amax(1)

@farout.register
class Copied(Top):
    name = "copied"

    def __deepcopy__(self, memo):
        sys.exit(0)

@farout.register
class Words(Top):
    name = "words"

    def score(self, activations):
        raise ValueError("lone \\udc80 surrogate")

@farout.register
class Frames(Top):
    name = "frames"

    def score(self, activations):
        raise ValueError('first\\n  File "nowhere", line 1\\n    last')

@farout.register
class Elsewhere(Top):
    name = "elsewhere"

    def score(self, activations):
        os.chdir("/")
        return super().score(activations)

@farout.register
class Locked(Top):
    name = "locked"

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_post_hoc_detectors_that_misbehave_fail_alone_in_the_pass_they_share(tmp_path, workers):
    save_weights(create("lenet", 4, 32), tmp_path / "lenet.safetensors")
    bad = ["copied", "words", "frames", "locked"]
    (tmp_path / "study.yaml").write_text(
        STUDY.replace("NAMES", ", ".join([*bad, "elsewhere", "msp"]))
        + "networks: [{name: lenet, weights: lenet.safetensors}]\n"
    )
    (tmp_path / "mine.py").write_text(POST_HOC)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "mine.py"]
    ended = subprocess.run([*command, "--workers", workers], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"msp": 2, "elsewhere": 2}
    assert failed.keys() == set(bad)
    assert "surrogate" in failed["words"]
    assert "lock" in failed["locked"]


@pytest.mark.parametrize("moment", ["import", "__init__"])
def test_a_file_that_ends_the_program_is_an_error(tmp_path, moment):
    body = "import sys; sys.exit(0)" if moment == "import" else "import farout, sys"
    own = "class Mine(farout.Detector):\n    name = 'sound'\n    def __init__(self):\n        sys.exit(0)\n"
    (tmp_path / "mine.py").write_text(f"{body}\n" + ("" if moment == "import" else f"@farout.register\n{own}"))
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAMES", "sound"))
    command = [sys.executable, "-m", "farout", "plan", "study.yaml", "--plugin", "mine.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert re.match(r"error: .*ends the program with sys.exit\(0\) \(mine.py, line \d\)", ended.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_workers_start_leaves_no_process(tmp_path, number):
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAMES", "sound"))
    (tmp_path / "mine.py").write_text(PLUGIN)
    code = "import signal, farout.cli; signal.signal(signal.SIGINT, signal.default_int_handler); farout.cli.main()"
    options = ["run", "study.yaml", "--out", "run", "--plugin", "mine.py", "--workers", "4"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", code, *options], cwd=tmp_path, stdout=log, stderr=log)
        while len(children(tmp_path)) < 3 and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        assert process.wait(60) == 128 + number, (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()
    deadline = time.monotonic() + 10
    while children(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children(tmp_path)
