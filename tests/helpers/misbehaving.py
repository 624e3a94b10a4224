"""Detectors that misbehave in every way we know, a study of them, and why each fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    def identity(self):
        return {"name": name, "version": 1}
    return farout.register(type(name, (farout.Detector,), {"name": name, "score": score, "identity": identity}))

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
    used = 4096 * int(open("/proc/self/statm").read().split()[0]) if os.path.exists("/proc/self/statm") else 0
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
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


def run(
    folder: Path, names: list[str], *options: str, limit: int = 900, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a study of these detectors, into the folder `run`."""
    (folder / "study.yaml").write_text(STUDY.replace("NAMES", ", ".join(names)))
    (folder / "mine.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "mine.py", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)


def results(folder: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Return how many results each detector has, and the traceback of those that failed."""
    found = Results(folder / "run")
    done = [row.tags["detector"] for row in found.done("clean")]
    failed = {one.row.tags["detector"]: one.reason for one in found.failures().values()}
    return {name: done.count(name) for name in done}, failed


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
"""Plugin of post-hoc detectors, which share a forward pass."""
