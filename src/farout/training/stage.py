"""Stage of a training: epochs, turns, steps, validation, and the state for checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from farout import interrupts
from farout.core import ImageSet
from farout.rng import seed_of
from farout.training.checkpoint import Checkpoint, with_prefix
from farout.training.feed import Feed
from farout.training.history import StageHistory
from farout.training.players import ActivePlayer, create_players, gradient_switch
from farout.training.recipe import Recipe
from farout.training.task import Batch, Context, Position, Stage, Task, diverged
from farout.training.weights import Average, copies, is_finite, put, tensors_of

Pulse = Callable[[bool], None]
"""Callback between two turns; its argument is True after an epoch."""


class StagePlan(NamedTuple):
    """Stage with its recipe and its images."""

    stage: Stage
    recipe: Recipe
    feed: Feed

    @classmethod
    def of(cls, stage: Stage, task: Task, images: ImageSet, recipe: Recipe, device: torch.device) -> StagePlan:
        """Return the plan of a stage; a named stage has its own seed."""
        seed = seed_of(recipe.seed, "stage", stage.name) if stage.name else recipe.seed
        recipe = recipe.changed(**stage.changes, seed=seed)
        most = max(player.steps for player in task.players(stage.name))
        return cls(stage, recipe, Feed(images, recipe, most, device))

    @property
    def steps(self) -> int:
        """Number of turns of the whole stage."""
        return self.recipe.total_steps(self.feed.per_epoch)

    @property
    def epochs(self) -> int:
        """Number of epochs; the last may be incomplete."""
        return math.ceil(self.steps / self.feed.per_epoch)

    def turns(self, epoch: int) -> int:
        """Return the number of turns of an epoch."""
        return min(self.feed.per_epoch, self.steps - epoch * self.feed.per_epoch)

    def images(self, epoch: int, turn: int) -> int:
        """Return the number of images processed before this turn of this epoch."""
        return epoch * self.feed.used + self.feed.seen(turn)

    @property
    def total(self) -> int:
        """Number of images of the whole stage."""
        return self.images(*divmod(self.steps, self.feed.per_epoch))


class StageRun:
    """Execution of a stage, with all its state."""

    def __init__(self, plan: StagePlan, task: Task, device: torch.device) -> None:
        self.plan, self.task, self.device = plan, task, device
        self.players = create_players(task, plan.stage.name, plan.recipe, device)
        self.tensors = tensors_of(task.modules)
        self.average = self._average()
        self.history = StageHistory(plan.stage.name, plan.stage.keep, figure=task.figure)
        self.best: dict[str, Tensor] = {}
        self.epoch = self.turn = 0
        self.begun = False
        """True if `start_epoch` was called for this epoch."""
        self.sums: dict[str, tuple[float, int]] = {}
        """Sum of the losses of this epoch and the number of images, by player."""
        self.latest: dict[str, float] = {}
        self.figure: float | None = None
        """Validation figure of the last epoch; None if it was not validated."""
        self.clean = True
        """True between two steps, when the state is consistent."""
        self.unread: list[tuple[ActivePlayer, Tensor, int]] = []
        """Losses of steps that have not been added up, each with its player and its number of images."""
        self._finite = [name for name, tensor in self.tensors.items() if is_finite(tensor)]
        """Names of the tensors that must stay finite; a constant buffer, such as a mask, may hold infinity."""
        self._batches: dict[int, Batch] = {}
        self._switch = gradient_switch(self.players)

    def _average(self) -> Average | None:
        names = self.task.averaged
        averaged = {key: one for key, one in self.task.modules.items() if names is None or key in names}
        return None if self.plan.recipe.ema is None else Average(averaged, self.plan.recipe)

    # The loop

    def train(self, pulse: Pulse) -> None:
        """Train the rest of the stage; the modules end with the weights that it keeps."""
        while not self.over:
            self._begin()
            while self.turn < self.plan.turns(self.epoch):
                with self.changing():
                    self._take_turn()
                pulse(False)
            figure = self._validate()
            with self.changing():
                self._end(figure)
            pulse(True)
        put(self.tensors, self.best or self._kept())

    @property
    def over(self) -> bool:
        """True if all epochs are trained, or if the task stops early."""
        early = self.epoch > 0 and self.turn == 0 and self.task.stops(self.history)
        return self.epoch >= self.plan.epochs or early

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Mark a block that changes the state: Ctrl-C is deferred to its end; after an error the state is not saved."""
        self.clean = False
        with interrupts.deferred():
            yield
            self.clean = True

    def _begin(self) -> None:
        with self.changing():
            if not self.begun:
                self.task.start_epoch(self._context("start"))
                self.begun = True
        self.plan.feed.begin(self.epoch, self.task.streams)
        for module in self.task.modules.values():
            module.train()

    def _take_turn(self) -> None:
        """Run the steps of all players for one turn."""
        position = self.position
        scalars = {name: schedule(position) for name, schedule in self.task.scalars.items()}
        for one in self.players:
            if position.step % one.player.every == 0:
                self._switch(one)
                for step in range(one.player.steps):
                    self._step(one, step, position, scalars)
        self._batches.clear()
        if self.average is not None:
            self.average.update(position.step + 1)
        self.turn += 1
        if self.device.type == "cpu":
            self.read_losses()

    def _step(self, one: ActivePlayer, step: int, position: Position, scalars: Mapping[str, float]) -> None:
        """Run one step of a player's optimizer, on the gradients of all its passes."""
        passes = self.plan.feed.step(self.turn, step)
        total, losses = sum(map(len, passes)), list[Tensor]()
        one.optimizer.zero_grad()
        for number, indices in enumerate(passes):
            batch = self._batch(indices, step * len(passes) + number)
            seed = seed_of(self.plan.recipe.seed, "train", self.epoch, self.turn, one.player.name, step, number)
            self._seed(seed)
            with one.autocast():
                loss = self.task.loss(one.player.name, batch, Context(position, one.recipe, scalars, self.device, seed))
            loss = loss if len(passes) == 1 else loss * (len(indices) / total)
            one.backward(loss)
            losses.append(loss.detach())
        one.update((one.owner or one).recipe.lr_at(position.step, position.per_epoch))
        self.unread.append((one, losses[0] if len(losses) == 1 else torch.stack(losses).sum(), total))

    def _batch(self, indices: Tensor, number: int) -> Batch:
        """Return a batch of this turn; players share batches."""
        if len(self.players) == 1:
            return self.plan.feed.batch(indices, self.turn, number)
        if number not in self._batches:
            self._batches[number] = self.plan.feed.batch(indices, self.turn, number)
        return self._batches[number]

    def _seed(self, seed: int) -> None:
        """Seed torch's global generators, which dropout uses."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def read_losses(self) -> None:
        """Add up the losses of the steps so far; raise if one is not finite.

        On a GPU reading a loss blocks until the step ends, so losses are read at intervals and before every checkpoint.
        """
        for one, loss, images in self.unread:
            value = float(loss)
            if not math.isfinite(value):
                raise diverged(f"the training loss became {value}", one.recipe.lr)
            total, seen = self.sums.get(one.player.name, (0.0, 0))
            self.sums[one.player.name] = total + value * images, seen + images
            self.latest[one.player.name] = value
        self.unread.clear()

    # Ends of epochs

    def _validate(self) -> float | None:
        self._check_weights()
        self._seed(seed_of(self.plan.recipe.seed, "train", self.epoch, "validate"))
        with self._averaged():
            figure = self.task.validate(self._context("validate"))
        if figure is None and self.plan.stage.keep != "last":
            raise ValueError(
                f"{type(self.task).__name__} keeps its best epoch, but its validate returned None: return a number"
            )
        if figure is not None and not math.isfinite(figure):
            raise FloatingPointError(f"the {self.task.figure} became {figure} after epoch {self.epoch + 1}")
        return figure

    def _check_weights(self) -> None:
        """Raise if a weight or buffer is no longer finite: after the last step no loss shows it."""
        kept = self._kept()
        if broken := [name for name in self._finite if not is_finite(kept[name])]:
            names = ", ".join(broken[:3]) + (", …" if len(broken) > 3 else "")
            raise diverged(f"the weights became NaN or infinite: {names}", self.plan.recipe.lr)

    def _end(self, figure: float | None) -> None:
        """Finish an epoch: history, best weights, and the task's hook."""
        self.read_losses()
        self.figure = figure
        names = [one.player.name for one in self.players]
        self.history.add({name: _mean(self.sums.get(name)) for name in names}, figure)
        if self.plan.stage.keep != "last" and self.history.best_epoch == self.epoch:
            self.best = copies(self._kept())
        with self._averaged():
            self.task.end_epoch(self._context("end"))
        self.epoch, self.turn, self.begun, self.sums = self.epoch + 1, 0, False, {}

    def _averaged(self) -> Any:
        return nullcontext() if self.average is None else self.average.swapped()

    def _kept(self) -> dict[str, Tensor]:
        """Return the current weights, averaged if there is an average."""
        return self.tensors | (self.average.values if self.average else {})

    def _context(self, purpose: str) -> Context:
        seed = seed_of(self.plan.recipe.seed, "train", self.epoch, purpose)
        position = self.position
        scalars = {name: schedule(position) for name, schedule in self.task.scalars.items()}
        return Context(position, self.plan.recipe, scalars, self.device, seed)

    @property
    def position(self) -> Position:
        """Position in the stage."""
        per_epoch = self.plan.feed.per_epoch
        return Position(
            self.plan.stage.name, self.epoch, self.epoch * per_epoch + self.turn, self.plan.steps, per_epoch
        )

    @property
    def done(self) -> int:
        """Number of images processed."""
        return min(self.plan.images(self.epoch, self.turn), self.plan.total)

    def message(self, ended: bool) -> str:
        """Return a line of progress: the validation figure after an epoch, else the latest losses."""
        stage = f"{self.plan.stage.name}, " if self.plan.stage.name else ""
        epoch = f"{stage}epoch {self.epoch + (not ended)}/{self.plan.epochs}"
        if ended and self.figure is not None:
            return f"{epoch}: {self.task.figure} {self.figure:.4f}"
        players = self.latest.items()
        losses = ", ".join(f"{name} {loss:.4f}" if len(players) > 1 else f"{loss:.4f}" for name, loss in players)
        return f"{epoch}: loss {losses}"

    # Checkpoints

    def state(self) -> Checkpoint:
        """Return everything that the rest of the stage depends on."""
        tensors = with_prefix("weights", self.tensors | ((self.average and self.average.trained) or {}))
        tensors |= with_prefix("average", self.average.values if self.average else {})
        tensors |= with_prefix("best", self.best) | with_prefix("task", self.task.state())
        for one in self.players:
            tensors |= with_prefix(f"optimizer/{one.player.name}", one.state())
        position = {
            "epoch": self.epoch,
            "turn": self.turn,
            "begun": self.begun,
            "sums": self.sums,
            "latest": self.latest,
            "history": self.history.as_json(),
            "scales": {one.player.name: one.scale() for one in self.players},
        }
        return Checkpoint(position, tensors)

    def load(self, state: Checkpoint) -> None:
        """Restore the state that `state` returned."""
        position = state.position
        self.epoch, self.turn, self.begun = position["epoch"], position["turn"], position["begun"]
        self.sums = {name: (total, images) for name, (total, images) in position["sums"].items()}
        self.latest, self.history = position["latest"], StageHistory(**position["history"])
        put(self.tensors, state.under("weights"))
        if self.average is not None:
            put(self.average.values, state.under("average"))
        self.best = {key: value.to(self.device) for key, value in state.under("best").items()}
        self.task.load_state({key: value.to(self.device) for key, value in state.under("task").items()})
        for one in self.players:
            one.load_state(state.under(f"optimizer/{one.player.name}"))
            if one.scaler is not None:
                one.scaler.load_state_dict(position["scales"][one.player.name])


def _mean(sums: tuple[float, int] | None) -> float | None:
    return None if sums is None else sums[0] / sums[1]
