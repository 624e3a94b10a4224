"""The engine "ray" on a stand-in for Ray: options, resources, lost tasks, time limit, unfit nodes."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

import farout
from farout.registry import UnknownName
from farout.study.engines.executor import parse_options
from farout.study.engines.ray import cluster, node, options
from farout.study.engines.ray.cluster import RayFailure, count_tasks, resources_text
from farout.study.engines.ray.node import Beat, assigned_device, await_files
from farout.study.engines.ray.options import RayOptions
from farout.study.store import StoreError
from helpers.fake_ray import FakeRay, WorkerCrashedError

GIB = 1 << 30
STUDY = """
inliers: {test: {name: toy, limit: 100}}
outliers: [{name: noise, limit: 70}]
detectors: [brightness, contrast]
"""
PLUGIN = """
import farout


@farout.register
class Brightness(farout.Detector):
    name = "brightness"

    def score(self, images):
        return images.double().mean((1, 2, 3))


@farout.register
class Contrast(farout.Detector):
    name = "contrast"

    def score(self, images):
        return images.double().flatten(1).std(1)
"""


@pytest.fixture
def install(monkeypatch):
    """Install a stand-in for Ray with these nodes and faults."""
    before = signal.getsignal(signal.SIGINT), Path.cwd()

    def put(nodes=({"CPU": 2.0},), fault=lambda task, message: None):
        fake = FakeRay(list(nodes), fault)
        monkeypatch.setitem(__import__("sys").modules, "ray", fake)
        return fake

    monkeypatch.setattr(options, "find_spec", lambda name: True)
    monkeypatch.setattr(node, "_ready", (None, None))
    yield put
    signal.signal(signal.SIGINT, before[0])
    os.chdir(before[1])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def run(files, name="out", **settings):
    plugins = (str(files / "mine.py"),)
    return farout.run(files / "study.yaml", files / name, plugins=plugins, **{"engine": "ray", **settings})


def content(out: Path) -> dict[str, bytes]:
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in out.glob("cells/*/*") if p.name != "record.json"}


def test_a_run_gives_the_bytes_of_this_process_and_leaves_no_file_and_no_connection(install, files):
    run(files, "here", engine="local")
    ray = install()
    result = run(files, "there", options={"address": "head:6379"})
    expected = content(files / "here")
    assert len(expected) == 8  # scores and examples of two detectors on two sets
    assert content(files / "there") == expected
    assert not result.outcome.failed
    assert (ray.address, ray.open) == ("head:6379", False)
    assert not list((files / "there" / "running").iterdir())


def test_a_connection_of_the_users_is_used_and_stays_open(install, files):
    ray = install()
    ray.init("mine:1")
    run(files, options={"address": "head:6379"})
    assert (ray.address, ray.open) == ("mine:1", True)


def test_tasks_reserve_what_the_options_say_and_use_one_thread(install, files):
    ray = install([{"CPU": 4.0, "GPU": 1.0, "memory": 8.0 * GIB}])
    run(files, options={"cpus": 2, "gpus": "0.25", "memory": "1.5GiB"})
    asked = {name: ray.options[name] for name in ("num_cpus", "num_gpus", "memory", "num_returns", "max_retries")}
    assert asked == {
        "num_cpus": 2, "num_gpus": 0.25, "memory": 1.5 * GIB, "num_returns": "streaming", "max_retries": 0,
    }  # fmt: skip
    assert ray.options["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == "1"


def test_fewer_workers_than_the_cluster_has_run_at_a_time(install, files):
    ray = install([{"CPU": 8.0}])
    run(files, workers=1)
    assert ray.most == 1
    ray = install([{"CPU": 8.0}])
    run(files, "all")
    assert ray.most > 1


def test_a_lost_task_is_submitted_again_and_gives_the_same_bytes(install, files):
    run(files, "here", engine="local")
    lost = []

    def fault(task, message):
        if message == 1 and lost.count(task) < 2 and task.endswith("test-0-64"):
            lost.append(task)
            return WorkerCrashedError()
        return None

    ray = install(fault=fault)
    result = run(files, "there")
    assert not result.outcome.failed
    assert content(files / "there") == content(files / "here")
    assert len(lost) == 2 * 4  # the first chunk of two detectors on two sets
    assert len(ray.started) == 4 * (2 + 1) + len(lost)  # two chunks and the records of each


def test_a_task_that_is_lost_every_time_fails_alone(install, files):
    lost = []

    def fault(task, message):
        if message == 1 and "contrast" in task and task.endswith("test-64-100"):
            lost.append(task)
            return WorkerCrashedError()
        return None

    ray = install(fault=fault)
    result = run(files)
    assert len(lost) == 3
    reasons = set(result.outcome.failed.values())
    assert all("TaskLost: 3 times in a row; the last time its process died" in why for why in reasons)
    assert {why.partition(":")[0] for why in reasons} == {"contrast"}
    assert list(result.table()["detector"]) == ["brightness"]
    assert not ray.open


def test_a_cluster_on_which_no_task_begins_ends_the_run_with_the_reason(install, files):
    install(fault=lambda task, message: WorkerCrashedError())
    with pytest.raises(RayFailure, match="lost 3 times before it began; the last time its process died"):
        run(files)


def test_a_detector_that_exceeds_the_time_limit_is_ended_and_named(install, files):
    def fault(task, message):
        hangs = message == 1 and "contrast" in task and not task.endswith("None")
        return ("beat", Beat(0, 51.0, "", "node-7")) if hangs else None

    ray = install(fault=fault)
    result = run(files, timeout=50.0)
    reasons = set(result.outcome.failed.values())
    assert {why.partition(":")[0] for why in reasons} == {"contrast"}
    assert all("OutOfTime: took longer than 50 s for one chunk (--timeout)" in why for why in reasons)
    assert [one.canceled for one in ray.started if one.count == 2 and "contrast" in one.title] == ["force"]
    assert list(result.table()["detector"]) == ["brightness"]


def test_a_node_without_the_shared_folder_ends_the_run_with_its_name(install, files, monkeypatch):
    install()
    check = node._check
    monkeypatch.setattr(node, "_check", lambda setup: check(setup._replace(probe=str(files / "elsewhere"))))
    with pytest.raises(RayFailure, match=r"cannot compute this run. .*: it does not see the run's folder .*--out"):
        run(files)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"versions": ("0.0.1", "1.0")}, "it has farout and torch .* the run has .*install the same"),
        ({"plugins": (("/nowhere/mine.py", "0"),)}, "the plugin /nowhere/mine.py is missing or has another content"),
        ({"device": "cuda"}, "cuda"),
    ],
)
def test_a_node_that_cannot_compute_says_why(files, change, reason, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    setup = node.Setup(str(files), str(files / "study.yaml"), "cpu", (), str(files), node.versions())
    monkeypatch.chdir(Path.cwd())
    node._check(setup)
    with pytest.raises(node.NodeUnfit, match=reason):
        node._check(setup._replace(**change))


def test_a_cluster_that_cannot_be_reached_is_named(install, files):
    install()
    with pytest.raises(
        RayFailure, match=r"cannot reach a Ray cluster at nowhere:1: ConnectionError: no answer; expected"
    ):
        run(files, options={"address": "nowhere:1"})


def test_a_node_gives_as_many_tasks_as_its_scarcest_resource():
    assert count_tasks({"CPU": 8.0, "GPU": 2.0}, {"CPU": 1.0, "GPU": 0.5}) == 4
    assert count_tasks({"CPU": 8.0, "memory": 7.0 * GIB}, {"CPU": 1.0, "memory": 2.0 * GIB}) == 3
    assert count_tasks({"CPU": 8.0}, {"CPU": 1.0, "GPU": 1.0}) == 0
    assert count_tasks({"CPU": 0.3}, {"CPU": 0.1}) == 3  # not 2 by rounding
    assert resources_text({"CPU": 1.0, "GPU": 0.5, "memory": 1.5 * GIB}) == "1 CPU, 0.5 GPU, 1.5 GiB memory"


def test_a_cluster_without_the_resources_says_what_it_has(install, files, monkeypatch, caplog):
    install([{"CPU": 2.0, "memory": 4.0 * GIB}])
    monkeypatch.setattr(cluster, "PATIENCE", -1.0)
    monkeypatch.setattr("logging.Logger.propagate", True, raising=False)
    run(files, options={"gpus": 1})
    assert "no node of the Ray cluster can take a task of 1 CPU, 1 GPU" in caplog.text
    assert "Nodes now: 2 CPU, 4 GiB memory" in caplog.text


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"cpus": 0}, "cpus must be greater than 0, got 0"),
        ({"gpus": "a100:1"}, "gpus must be a whole number or a fraction of one, such as 1 or 0.25, got 'a100:1'"),
        ({"gpus": 1.5}, "gpus must be a whole number"),
        ({"memory": "4 GB"}, "memory must be a number of bytes or a size such as 4GiB or 512MiB, got '4 GB'"),
        ({"memory": "0GiB"}, "memory must be"),
        ({"address": "ray://head:10001"}, "is that of a Ray client.*ray job submit"),
    ],
)
def test_bad_options_are_errors_before_the_run(install, given, error):
    install()
    with pytest.raises(ValueError, match=error):
        RayOptions(**given)


def test_options_by_name(install):
    install()
    parsed = parse_options("ray", {"memory": "512MiB", "gpus": "2"})
    assert isinstance(parsed, RayOptions)
    assert parsed.resources("cpu") == {"CPU": 1.0, "GPU": 2.0, "memory": 512 << 20}
    assert RayOptions().resources("cuda") == {"CPU": 1.0, "GPU": 1.0}
    assert RayOptions().resources("cpu") == {"CPU": 1.0}
    with pytest.raises(UnknownName, match=r"unknown option of the engine 'ray': 'adress'. Did you mean 'address'\?"):
        parse_options("ray", {"adress": "auto"})


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs Ray: pip install "farout\[ray\]"'):
        parse_options("ray", {})


def test_a_task_computes_on_the_gpu_that_it_was_given():
    assert assigned_device("cuda", [3]) == torch.device("cuda", 3)
    assert assigned_device("cuda:1", [3]) == torch.device("cuda", 1)
    assert assigned_device("cuda", []) == torch.device("cuda")
    assert assigned_device("cpu", [3]) == torch.device("cpu")


def test_a_node_waits_for_the_files_of_another(tmp_path):
    await_files(tmp_path / "absent", (), 0.0)
    (tmp_path / "part-1").touch()
    await_files(tmp_path, ("part-1",), 0.0)
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"does not see the finished chunks .* must be shared by all nodes"):
        await_files(tmp_path, ("part-1", "part-2"), 0.3)
    assert time.monotonic() - began >= 0.3
