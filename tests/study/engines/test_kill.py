"""A run that is told to stop keeps what is done, and says so; for kills see tests/faults."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STUDY = """
inliers:
  train: {name: toy, split: train, limit: 300}
  val: {name: toy, split: val, limit: 100}
  test: {name: toy, limit: 300}
outliers: [{name: toy, split: test/ood_cls, limit: 300}, {name: noise, limit: 300}]
networks: [{name: lenet, train: {epochs: 3, lr: 0.02}}]
detectors: [msp, entropy, mls, ebo, knn, mds, slow]
"""

PLUGIN = """
import time
import farout


@farout.register
class Slow(farout.Detector):
    name = "slow"

    def score(self, images):
        time.sleep(0.4)
        return images.mean((1, 2, 3))
"""

COMMAND = """
import signal
import farout.cli, farout.study.engines.scheduler, farout.study.packing

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background inherits that it is ignored
farout.study.engines.scheduler.FLUSH_SECONDS = 0.1
farout.study.packing.RECORDS = 6
farout.cli.main()
"""


def start(folder: Path, out: Path) -> subprocess.Popen:
    arguments = [
        "run",
        str(folder / "study.yaml"),
        "--out",
        str(out),
        "--workers",
        "2",
        "--plugin",
        str(folder / "slow.py"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=log, stderr=log, env=environment)


@pytest.mark.parametrize(
    ("sign", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_a_run_told_to_stop_keeps_what_is_done_and_says_so(tmp_path, sign, code):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(PLUGIN)
    process = start(tmp_path, tmp_path / "run")
    while not list((tmp_path / "run").glob("partial/*/part-*")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(sign)
    assert process.wait(60) == code
    assert "the same command resumes from there" in (tmp_path / "log").read_text()
    assert list((tmp_path / "run").glob("partial/*/part-*"))
