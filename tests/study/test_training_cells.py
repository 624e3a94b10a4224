"""Cells that train: side by side in worker processes, the same bytes for any number of them and after kills."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import yaml

import farout
from farout.protocols import plan
from farout.study.cells.cell import Chunk, closure
from farout.study.cells.train import TrainCell, TrainWork
from farout.study.engines import local
from farout.study.engines.executor import Context, Task
from farout.study.engines.run import group_works
from farout.study.engines.worker import Order
from farout.study.sources.images import LiveImages
from farout.study.spec import NetworkSpec, StudySpec
from farout.study.store import Store
from farout.study.study import from_spec

STUDY = """
budget: full
inliers:
  train: {name: toy, split: train, limit: 200}
  val: {name: toy, split: val, limit: 60}
  test: {name: toy, limit: 40}
outliers: [{name: noise, limit: 40}]
networks:
- {name: lenet, label: a, train: {epochs: 4, lr: 0.02, batch: 32, augment: [flip, color_jitter], ema: 0.9}}
- {name: lenet, label: b, train: {steps: 20, optimizer: adam, lr: 0.001, batch: 32, accumulate: 2}}
- {name: resnet20, label: c, train: {epochs: 1, lr: 0.05, batch: 50, threads: 2, autocast: bf16}}
detectors: [msp]
"""

DETECTORS = """
budget: quick
inliers:
  train: {name: toy, split: train, limit: 200}
  val: {name: toy, split: val, limit: 60}
  test: {name: toy, limit: 40}
outliers: [{name: noise, limit: 40}]
detectors:
- {name: ae, label: a, width: 4, training: {epochs: 3, batch: 32}}
- {name: ae, label: b, width: 6, training: {steps: 20, batch: 32}}
"""

KINDS = """
budget: quick
inliers:
  train: {name: toy, split: train, limit: 96}
  val: {name: toy, split: val, limit: 16}
  test: {name: toy, limit: 16}
outliers: [{name: noise, limit: 16}]
auxiliary_outliers: {name: toy, split: test/ood_cls, limit: 48}
detectors:
- {name: good, training: {steps: 8, batch: 16}}
- name: nae
  width: 4
  latent: 2
  latent_steps: 2
  data_steps: 2
  buffer: 40
  training: {steps: 8, batch: 16}
  energy: {steps: 8, batch: 16}
- {name: pixelcnn, blocks: 1, width: 4, mixtures: 2, training: {steps: 12, batch: 16}}
- {name: csi, width: 4, training: {steps: 12, batch: 16}}
"""

PLUGIN = """
import importlib, os, time
from pathlib import Path
from farout.training import loop

loop.CHECKPOINT_SECONDS = 0.0
LOG = Path(__file__).with_name("steps")


def watch(task):
    plain = task.loss

    def loss(self, player, batch, context):
        begun = time.monotonic()
        value = plain(self, player, batch, context)
        with LOG.open("a") as log:
            log.write(f"{os.getpid()} {begun}\\n")
        return value

    task.loss = loss


for module, name in TASKS:
    watch(getattr(importlib.import_module(module), name))
"""

TRAINED = "farout.detectors.trained"


class Watched(NamedTuple):
    """A study whose trainings log their steps."""

    study: str
    trainings: int
    tasks: tuple[tuple[str, str], ...]
    """Modules and classes of the tasks."""
    file: str
    """File with what was learned, of every training."""
    checkpoint: str
    killed: tuple[int, int] = (4, 9)
    """Range of the steps after which the run is killed."""

    @property
    def plugin(self) -> str:
        return PLUGIN.replace("TASKS", repr(self.tasks))


NETWORKS = Watched(STUDY, 3, (("farout.training", "Classifier"),), "weights.safetensors", "checkpoint.safetensors")
AUTOENCODERS = Watched(DETECTORS, 2, ((f"{TRAINED}.ae", "Reconstruction"),), "state.safetensors", "*.safetensors")
SEVERAL = Watched(
    KINDS,
    4,
    (
        (f"{TRAINED}.good", "GuaranteedClassifier"),
        (f"{TRAINED}.nae.task", "NormalizedAutoencoder"),
        (f"{TRAINED}.density", "Likelihood"),
        (f"{TRAINED}.csi", "ShiftContrast"),
    ),
    "state.safetensors",
    "*.safetensors",
    killed=(20, 30),
)
"""Trainings of one stage and of two, with and without outliers."""


def start(folder: Path, out: str, workers: int) -> subprocess.Popen[bytes]:
    (folder / "steps").unlink(missing_ok=True)
    arguments = ["--out", folder / out, "--workers", workers, "--plugin", folder / "watched.py"]
    command = [sys.executable, "-m", "farout", "run", folder / "study.yaml", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=environment)


def learned(run: Path, watched: Watched) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in run.glob(f"cells/*/{watched.file}")}


def steps(folder: Path) -> list[tuple[int, float]]:
    """Return the process and the time of every step that has begun."""
    lines = (folder / "steps").read_text().splitlines() if (folder / "steps").exists() else []
    return [(int(pid), float(at)) for pid, at in (line.split() for line in lines if line.count(" "))]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("watched", [NETWORKS, AUTOENCODERS, SEVERAL], ids=["networks", "detectors", "kinds"])
def test_any_number_of_workers_and_kills_give_the_same_bytes(tmp_path: Path, watched: Watched) -> None:
    (tmp_path / "study.yaml").write_text(watched.study)
    (tmp_path / "watched.py").write_text(watched.plugin)
    farout.run(tmp_path / "study.yaml", tmp_path / "inline", workers=0)
    expected = learned(tmp_path / "inline", watched)
    assert len(expected) == watched.trainings
    assert start(tmp_path, "two", workers=2).wait(300) == 0, (tmp_path / "log").read_text()
    assert learned(tmp_path / "two", watched) == expected
    whole = steps(tmp_path)
    assert overlapping(whole)
    kill_in_training(tmp_path, "killed", watched)
    assert start(tmp_path, "killed", workers=1).wait(300) == 0, (tmp_path / "log").read_text()
    assert learned(tmp_path / "killed", watched) == expected
    assert len(steps(tmp_path)) < len(whole), "it goes on from the checkpoints"


def overlapping(found: list[tuple[int, float]]) -> bool:
    """Do two processes train at the same time?"""
    spans = {pid: [at for who, at in found if who == pid] for pid, _ in found}
    (first, last), (second, end) = ((min(times), max(times)) for times in spans.values())
    return first < end and second < last


def kill_in_training(folder: Path, out: str, watched: Watched) -> None:
    """Kill the run once both workers have a checkpoint."""
    process, target = start(folder, out, workers=2), random.Random(0).randrange(*watched.killed)
    while len(steps(folder)) < target and process.poll() is None:
        time.sleep(0.005)
    while len(list((folder / out).glob(f"partial/*/{watched.checkpoint}"))) < 2 and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    time.sleep(1)  # workers end when their parent has


def test_training_travels_where_its_images_do() -> None:
    study = from_spec(StudySpec.model_validate({"name": "trained", **yaml.safe_load(STUDY)}))
    works = group_works(closure([entry.cell for entry in plan(study)]))
    trainings = [work for work in works if isinstance(work, TrainWork)]
    assert [work.portable for work in trainings] == [True] * 3
    assert [work.total_cost for work in trainings] == [800, 640, 200]
    assert [pickle.loads(pickle.dumps(work)).id for work in trainings] == [work.id for work in trainings]
    assert not any(work.limited for work in trainings)


def test_live_images_stay_in_their_process() -> None:
    images = LiveImages(farout.load("toy", "train", limit=20))
    network = NetworkSpec.model_validate({"name": "lenet", "train": {"epochs": 1}})
    work = TrainCell(network, "lenet", 0, images, images).work([TrainCell(network, "lenet", 0, images, images)])
    assert not work.portable


class Handed:
    """Work that is only queued."""

    limited = True


def test_nothing_waits_behind_a_training_while_a_worker_is_idle() -> None:
    chunk, queues = Chunk("train", 0, 1), [list[Order](), list[Order]()]
    orders = [Order(number, b"", chunk, 0.0, number != 0, unbounded=number in (0, 3)) for number in range(5)]
    selected = []
    for order in orders:
        position = local.select_queue(order, queues)
        selected.append(position)
        if position is not None:
            queues[position].append(order)
    assert selected == [0, 1, 1, None, None], "one trains, the other has two short tasks"
    queues[1].clear()
    assert local.select_queue(orders[3], queues) == 1
    queues[0].clear()
    assert local.select_queue(orders[4], queues) == 0


def test_a_task_that_is_canceled_before_it_is_sent_is_reported_as_skipped(tmp_path: Path) -> None:
    skipped: list[int] = []
    listener: Any = SimpleNamespace(skipped=skipped.append)
    pool = local.LocalExecutor(Context(listener, Store(tmp_path), torch.device("cpu"), tmp_path, workers=0))
    for number in range(3):
        pool.submit(Task(number, Handed(), Chunk("train", 0, 1)))  # type: ignore[arg-type]
    pool.cancel({1})
    pool.wait(0.0)
    pool.close(stopped=False)
    assert skipped == [1]
