"""Weights in training: copies of all tensors of modules, and their exponential moving average."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from farout.training.recipe import Recipe
from farout.training.schedules import ema_decay


def tensors_of(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return all parameters and buffers by module and name, those left out of state dicts included."""
    return {
        f"{name}/{key}": value
        for name, module in modules.items()
        for key, value in (*module.named_parameters(), *module.named_buffers())
    }


def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return detached copies."""
    return {key: value.detach().clone() for key, value in tensors.items()}


def is_finite(tensor: Tensor) -> bool:
    """Return True if no value is NaN or infinite."""
    return bool(tensor.detach().isfinite().all())


@torch.no_grad()
def put(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Overwrite tensors with values of the same names."""
    for key, value in values.items():
        tensors[key].copy_(value)


class Average:
    """Exponential moving average of modules: a ← decay · a + (1 − decay) · w after every step."""

    def __init__(self, modules: Mapping[str, nn.Module], recipe: Recipe) -> None:
        assert recipe.ema is not None
        self.recipe, self.decay, self.tensors = recipe, recipe.ema, tensors_of(modules)
        self.values = copies(self.tensors)
        parameters = (f"{name}/{key}" for name, module in modules.items() for key, _ in module.named_parameters())
        self._averaged = self._with_buffers(parameters)
        self.trained: dict[str, Tensor] | None = None
        """Weights as trained, while the modules have the averaged ones; else None."""

    def _with_buffers(self, parameters: Iterable[str]) -> set[str]:
        """Return the names of the tensors that are averaged; the others are copied."""
        if self.recipe.ema_buffers == "copy":
            return set(parameters)
        return {key for key, value in self.tensors.items() if value.is_floating_point()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the weights after step 1, 2, …"""
        decay = ema_decay(self.decay, step, self.recipe.ema_start, self.recipe.ema_ramp)
        for key, value in self.values.items():
            if key in self._averaged and decay:
                value.lerp_(self.tensors[key], 1 - decay)
            else:
                value.copy_(self.tensors[key])

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Use the averaged weights in the modules within this block."""
        self.trained = copies(self.tensors)
        try:
            put(self.tensors, self.values)
            yield
        finally:
            put(self.tensors, self.trained)
            self.trained = None
