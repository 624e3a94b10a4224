"""Training loop of classifiers, detectors and generators: seeded, and resumable bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import torch

from farout import interrupts
from farout.core import ImageSet
from farout.identity import Json, digest, digest_module
from farout.networks.base import seeded
from farout.networks.network import Network
from farout.networks.passes import with_gradients
from farout.processes import torch_threads
from farout.progress import task as show
from farout.training import checkpoint as checkpoints
from farout.training.history import StageHistory
from farout.training.recipe import Recipe
from farout.training.stage import StagePlan, StageRun
from farout.training.task import Player, Task
from farout.training.weights import copies, put, tensors_of

VERSION = 2
"""Bumped by hand when the same arguments give other weights."""
CHECKPOINT_SECONDS = 60.0
"""Seconds between two checkpoints; a killed training loses at most this time and one step."""
CHEAP = 100
"""A checkpoint is written after an epoch if the time since the last is at least this multiple of its cost."""
REPORT_SECONDS = 0.2
"""Seconds between two progress reports on devices where reading a loss blocks."""

Progress = Callable[[int, int, str], None]
"""`progress(done_images, total_images, message)`, called after steps and epochs."""


class _Surroundings(NamedTuple):
    """Defaults of trainings inside `resumable`."""

    folder: Path
    progress: Progress


_surroundings: ContextVar[_Surroundings | None] = ContextVar("surroundings", default=None)


@contextmanager
def resumable(folder: Path, progress: Progress) -> Iterator[None]:
    """Give every `fit` in the block a checkpoint in this folder and a progress callback, where the caller gives none.

    A study puts it around a detector's `fit`, so that a killed training continues without the detector's help.
    """
    token = _surroundings.set(_Surroundings(folder, progress))
    try:
        yield
    finally:
        _surroundings.reset(token)


def fit(
    task: Task,
    images: ImageSet,
    recipe: Recipe,
    *,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> list[StageHistory]:
    """Train a task; its modules end in eval mode with the weights that its stages keep. Return a history per stage.

    checkpoint: file that the state is written to every minute and, if that costs little, after every epoch. The same
        call on the same task resumes from it and ends, on the same kind of machine, in the same weights bit for bit.
        A checkpoint of another call is overwritten.
    progress: called after steps and epochs; an exception that it raises ends the training, as Ctrl-C does, after a
        last checkpoint. Without it, a terminal shows a bar.
    A call that fails or is interrupted restores the task to its state before the call.
    """
    device = torch.device(device)
    task.to(device)
    tensors = tensors_of(task.modules)
    initial, state = copies(tensors), copies(task.state())
    trainable = [one for one in tensors.values() if one.requires_grad]
    try:
        with torch_threads(recipe.threads), interrupts.listening(), seeded(recipe.seed, device), with_gradients():
            run = _Run(task, images, recipe, device, Path(checkpoint) if checkpoint is not None else None)
            if (around := _surroundings.get()) is not None:
                run.file = run.file or around.folder / f"{run.identity}.safetensors"
                progress = progress or around.progress
            if progress is not None:
                return run.train(progress)
            with show(f"train {type(task).__name__}", run.total) as count:
                return run.train(_Counter(count))
    except BaseException:
        put(tensors, initial)
        task.load_state(state)
        raise
    finally:
        for one in trainable:
            one.requires_grad_(True).grad = None
        for module in task.modules.values():
            module.eval()


class _Counter:
    """Progress callback that counts the images since the last call."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self.count, self.reported = count, 0

    def __call__(self, done: int, total: int, message: str) -> None:
        self.count(done - self.reported)
        self.reported = done


class _Run:
    """One call of `fit`."""

    def __init__(self, task: Task, images: ImageSet, recipe: Recipe, device: torch.device, file: Path | None) -> None:
        self.task, self.device, self.file = task, device, file
        self.plans = [StagePlan.of(stage, task, images, recipe, device) for stage in task.stages]
        self.identity = digest([VERSION, recipe.identity(), images.fingerprint, identity_of(task)])
        self.finished: list[StageHistory] = []
        self.total = sum(plan.total for plan in self.plans)
        """Number of images of all stages."""
        self.saved_at = self.reported_at = time.monotonic()
        self.cost = 0.0
        """Seconds that the last checkpoint took."""

    def train(self, progress: Progress) -> list[StageHistory]:
        """Train the stages that are left; return the histories of all stages."""
        found = checkpoints.load(self.file, self.identity) if self.file else None
        if found is not None:
            self.finished = [StageHistory(**one) for one in found.position["finished"]]
        for plan in self.plans[len(self.finished) :]:
            stage = StageRun(plan, self.task, self.device)
            if found is not None:
                stage.load(found)
                found = None
            self._train_stage(stage, progress)
            self.finished.append(stage.history)
        return self.finished

    @property
    def before(self) -> int:
        """Number of images of the finished stages."""
        return sum(plan.total for plan in self.plans[: len(self.finished)])

    def _train_stage(self, stage: StageRun, progress: Progress) -> None:
        """Train one stage; if it is interrupted between two steps, write a checkpoint."""

        def pulse(ended: bool) -> None:
            now = time.monotonic()
            if ended or self.device.type == "cpu" or now - self.reported_at > REPORT_SECONDS:
                self.reported_at = now
                self._read_losses(stage)
                progress(self.before + stage.done, self.total, stage.message(ended))
            wait = min(CHEAP * self.cost, CHECKPOINT_SECONDS) if ended else CHECKPOINT_SECONDS
            if stage.over or now - self.saved_at > wait:
                self._save(stage)

        try:
            stage.train(pulse)
        except FloatingPointError:
            raise
        except BaseException:
            with suppress(OSError, FloatingPointError):
                if stage.clean:
                    self._save(stage)
            raise

    def _read_losses(self, stage: StageRun) -> None:
        if stage.unread:
            with stage.changing():
                stage.read_losses()

    def _save(self, stage: StageRun) -> None:
        if self.file is None:
            return
        began = time.monotonic()
        self._read_losses(stage)
        state = stage.state()
        state.position["finished"] = [history.as_json() for history in self.finished]
        checkpoints.save(self.file, self.identity, state)
        self.saved_at = time.monotonic()
        self.cost = self.saved_at - began


def identity_of(task: Task) -> Json:
    """Return everything that determines a task's weights, except the recipe and the training images."""
    modules = {
        name: module.digest if isinstance(module, Network) else digest_module(module)
        for name, module in task.modules.items()
    }
    trainable = [name for name, tensor in tensors_of(task.modules).items() if tensor.requires_grad]
    stages = [[stage.name, dict(stage.changes), stage.keep] for stage in task.stages]
    players = [[_player(player) for player in task.players(stage.name)] for stage in task.stages]
    streams = {name: [one.images.fingerprint, one.batch, one.augment] for name, one in task.streams.items()}
    return [task.identity, modules, trainable, stages, players, streams, task.averaged]


def _player(player: Player) -> Json:
    known = {**player._asdict(), "changes": dict(player.changes)}
    if player.lr_factor == 1:
        del known["lr_factor"]  # checkpoints of players at the recipe's own rate stay valid
    return known
