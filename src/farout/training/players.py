"""Players with their optimizers: clipping, loss scaling, and switching of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from farout.registry import unknown
from farout.training.lars import LARS
from farout.training.recipe import Recipe
from farout.training.task import Player, Task

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_optimizer(recipe: Recipe, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer that a recipe names."""
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            recipe.lr,
            recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=recipe.nesterov and recipe.momentum > 0,
        )
    if recipe.optimizer == "lars":
        return LARS(
            parameters,
            lr=recipe.lr,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            trust=recipe.trust,
            exclude_1d=recipe.exclude_1d,
        )
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, recipe.lr, betas=recipe.betas, eps=recipe.eps, weight_decay=recipe.weight_decay)


class ActivePlayer:
    """Player with its parameters and its optimizer."""

    def __init__(
        self, player: Player, recipe: Recipe, task: Task, device: torch.device, others: Sequence[ActivePlayer]
    ):
        self.player = player
        self.recipe = recipe.changed(**{"lr": recipe.lr * player.lr_factor, **player.changes})
        self.parameters = _parameters(player, task)
        self.owner: ActivePlayer | None = _owner(player, others, self.parameters)
        self.optimizer: torch.optim.Optimizer
        self.scaler: torch.amp.GradScaler | None
        if self.owner is not None:
            self.optimizer, self.scaler = self.owner.optimizer, self.owner.scaler
        else:
            self.optimizer = make_optimizer(self.recipe, self.parameters.values())
            self.scaler = torch.amp.GradScaler(device.type) if self.recipe.autocast == "fp16" else None
        self._device = device

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        dtype = TYPES.get(self.recipe.autocast)
        return nullcontext() if dtype is None else torch.autocast(self._device.type, dtype)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self, lr: float) -> None:
        """Clip the gradients and step."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if self.recipe.clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    # Checkpoints

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's tensors by parameter and name; none if the optimizer is another player's."""
        return {
            f"{name}/{key}": value
            for name, parameter in (self.parameters.items() if self.owner is None else ())
            for key, value in self.optimizer.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the tensors that `state` returned."""
        for path, value in state.items():
            name, _, key = path.rpartition("/")
            parameter = self.parameters[name]
            alike = value.shape == parameter.shape and value.ndim > 0
            kept = torch.empty_like(parameter, dtype=value.dtype).copy_(value).detach() if alike else value.clone()
            self.optimizer.state[parameter][key] = kept

    def scale(self) -> dict[str, Any]:
        """Return the state of the loss scaling as JSON."""
        return {} if self.scaler is None else self.scaler.state_dict()


def _parameters(player: Player, task: Task) -> dict[str, nn.Parameter]:
    """Return the trainable parameters of a player, by module and name."""
    for name in player.modules:
        if name not in task.modules:
            raise unknown(f"module of player {player.name!r}:", name, task.modules)
    named = {
        f"{name}/{key}": parameter
        for name in player.modules
        for key, parameter in task.modules[name].named_parameters()
        if parameter.requires_grad
    }
    if not named:
        raise ValueError(
            f"player {player.name!r} has nothing to train: expected at least one parameter that is not frozen"
        )
    return named


def _owner(
    player: Player, others: Sequence[ActivePlayer], parameters: Mapping[str, nn.Parameter]
) -> ActivePlayer | None:
    """Return the player whose optimizer this one uses."""
    if not player.shares:
        return None
    found = {other.player.name: other for other in others}
    if player.shares not in found:
        raise unknown(f"player before {player.name!r}:", player.shares, found)
    if more := parameters.keys() - found[player.shares].parameters.keys():
        raise ValueError(
            f"player {player.name!r} shares the optimizer of {player.shares!r}, which does not have {min(more)}"
        )
    return found[player.shares]


def create_players(task: Task, stage: str, recipe: Recipe, device: torch.device) -> list[ActivePlayer]:
    """Return the players of a stage with their optimizers."""
    players: list[ActivePlayer] = []
    for player in task.players(stage):
        players.append(ActivePlayer(player, recipe, task, device, players))
    return players


def gradient_switch(players: Sequence[ActivePlayer]) -> Callable[[ActivePlayer], None]:
    """Return a function that enables gradients for a player's parameters and disables them for all others.

    This avoids building the graph of a generator while only the discriminator learns, and vice versa.
    """
    everything = {id(one): one for player in players for one in player.parameters.values()}
    own = {id(player): {id(one) for one in player.parameters.values()} for player in players}
    if all(len(ids) == len(everything) for ids in own.values()):
        return lambda player: None

    def switch(player: ActivePlayer) -> None:
        for key, parameter in everything.items():
            parameter.requires_grad_(key in own[id(player)])

    return switch
