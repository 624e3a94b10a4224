"""`function`: a plain function as a detector."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from farout.adapters.catalog import Larger, adapter, sign_of
from farout.core import Detector
from farout.identity import Json, describe_function
from farout.plugins import is_named, named_object
from farout.scores import as_scores

FUNCTIONS = (FunctionType, MethodType, partial)
"""Types that count as a plain function."""


@adapter
class Function(Detector):
    """Detector from a function: images in, one score per image out.

    of: a function, a bound method or a `functools.partial`, from float32 [B, C, H, W] in [0, 1] to a tensor, an array
        or a list of B numbers; or its place "file.py:name", in a file that was named with --plugin.
    name: label in tables; by default the function's name.
    larger: meaning of a larger score, "outlying" or "inlying".
    """

    name = "function"

    def __init__(
        self, of: Callable[[Tensor], Any] | str | Path, *, name: str | None = None, larger: Larger = "outlying"
    ):
        function = _load_plugin_function(str(of)) if isinstance(of, str | Path) else of
        if not isinstance(function, FUNCTIONS):
            what = f"the class {function.__name__}" if isinstance(function, type) else type(function).__name__
            raise TypeError(
                f"expected a function from images to scores, got {what}; "
                "write one that calls it: def score(images): return …"
            )
        self.function: Callable[[Tensor], Any] = function
        self.sign, self.larger = sign_of(larger), larger
        self.name = name or name_of(function)

    def score(self, images: Tensor) -> Tensor:
        if not len(images):
            return images.new_empty(0, dtype=torch.float64)
        scores = self.function(images)
        if isinstance(scores, Tensor) and scores.requires_grad and scores.shape == (len(images),):
            return self.sign * scores.double()
        return self.sign * torch.from_numpy(as_scores(scores, len(images), self.name, self.function))

    def identity(self) -> Json | None:
        """Return the function's source, and the values it reads and is bound to; None if these cannot be determined."""
        function = describe_function(self.function)
        return function and {"adapter": "function", "version": 1, "larger": self.larger, "function": function}


def _load_plugin_function(of: str) -> Any:
    """Return the object "file.py:name" of a plugin; a study file alone must not run code."""
    path = Path(of.rpartition(":")[0]).resolve()
    if path.suffix == ".py" and not is_named(path):
        raise ValueError(
            f"{of} is code, which runs only if you name its file: farout run … --plugin {shlex.quote(str(path))}"
        )
    return named_object(of)


def name_of(function: object) -> str:
    """Return the name of a function; "function" if it has none."""
    while isinstance(function, partial):
        function = function.func
    called = str(getattr(function, "__name__", "function"))
    return "function" if called == "<lambda>" else called
