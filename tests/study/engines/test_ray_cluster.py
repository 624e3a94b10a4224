"""The engine "ray" on a real cluster of two nodes on this machine: the bytes of one process, also if a node is lost."""

import os
import secrets
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra ray)"),
    pytest.mark.filterwarnings("ignore"),  # warnings of Ray itself
]

STUDY = """
inliers:
  train: {name: toy, split: train, limit: 192}
  val: {name: toy, split: val, limit: 64}
  test: {name: toy, split: test, limit: 192}
outliers: [{name: toy, split: test/ood_cls, limit: 192}]
networks: [{name: lenet, train: {epochs: 2}}]
detectors: [msp, knn, mds, slow]
protocols: [clean, {name: evg, variations: [affine], methods: [mh], chains: 64, steps: 4, control: false}]
budget: quick
"""
PLUGIN = """
import os
import time
import farout


@farout.register
class Slow(farout.Detector):
    name = "slow"

    def score(self, images):
        while not os.path.exists("lost"):  # both nodes hold a task when one is lost, on any machine
            time.sleep(0.1)
        return images.mean((1, 2, 3))
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster with one node of one CPU; a test adds the second."""
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    settings = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    settings["RAY_worker_niceness"] = "0"  # on a busy machine, tasks of low priority would never begin
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster  # it reads these settings when it is imported

    nodes = Cluster()
    add_node(nodes)
    yield nodes
    nodes.shutdown()


def add_node(nodes, tries=5):
    """Add a node of one CPU. Ray gives a node half a minute to start, which may be too short on a busy machine."""
    for remaining in reversed(range(tries)):
        try:
            return nodes.add_node(num_cpus=1, include_dashboard=False)
        except Exception:
            if not remaining:
                raise
    return None


def start(folder: Path, name: str, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--plugin", "slow.py", "--out", name, *options]
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})


def wait_for(found, run, log: Path, seconds: float = 1500) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert run.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def content(out: Path) -> dict[str, bytes]:
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in out.glob("cells/*/*") if p.name != "record.json"}


def test_two_nodes_of_which_one_is_lost_give_the_bytes_of_one_process(cluster, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "slow.py").write_text(PLUGIN)
    gate = tmp_path / "lost"
    gate.touch()
    assert start(tmp_path, "here", "--workers", "0").wait(1500) == 0, (tmp_path / "here.log").read_text()
    gate.unlink()
    second = add_node(cluster)
    run, log = start(tmp_path, "there", "--engine", "ray", "--address", cluster.address), tmp_path / "there.log"
    busy = tmp_path / "there" / "running"
    wait_for(lambda: len(list(busy.glob("ray-*.1"))) == 2, run, log)  # both nodes compute
    cluster.remove_node(second, allow_graceful=False)
    wait_for(lambda: "it is submitted again" in log.read_text(), run, log)
    gate.touch()
    assert run.wait(1500) == 0, (tmp_path / "there.log").read_text()
    expected = content(tmp_path / "here")
    assert len(expected) > 40
    assert content(tmp_path / "there") == expected
    assert not list(busy.iterdir())
