"""Fitted state of a detector that reads images: taken out as arrays, and put into a fresh detector again.

Kept are the tensors, arrays, modules, numbers and texts that the object holds, in lists and dictionaries too, or what
its `state_dict` says where it has one. A detector whose state cannot be kept is used by the process that fitted it.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farout.core import Detector, ImageSet
from farout.identity import same
from farout.scores import as_scores

TREE = "tree"
"""The array that holds the structure: what stands where, as JSON."""
TRIED = 8
"""Images on which a restored detector must give the fitted one's scores."""
State = dict[str, NDArray[Any]]


class Unkeepable(TypeError):
    """A fitted detector holds something that cannot be kept."""


def fit(detector: Detector, train: ImageSet, **others: Any) -> None:
    """Fit a detector on the splits that its `fit` takes: `fit(train)`, or also `val`, `outliers` and `seed`."""
    detector.fit(train, **{name: others[name] for name in accepted(detector) if name in others})


def accepted(detector: Detector) -> tuple[str, ...]:
    """Return which of `val`, `outliers` and `seed` its `fit` takes."""
    taken = inspect.signature(detector.fit).parameters
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    return tuple(name for name in ("val", "outliers", "seed") if every or name in taken)


def capture(fitted: Detector, make: Callable[[], Detector], images: Tensor | None) -> State:
    """Return the state of a fitted detector; `Unkeepable` where a fresh one could not go on from it.

    images: a few images, if there are any; the detector that is put together again must give them the same scores.
    """
    fresh, arrays = make(), State()
    tree = _Taken(arrays).attributes(fitted, fresh)
    arrays[TREE] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    again = restore(make(), arrays)
    if images is None:
        return arrays
    first, second, third = (_scores(one, images) for one in (fitted, fitted, again))
    if np.array_equal(first, second) and not np.array_equal(first, third):
        raise Unkeepable(f"{fitted.name} holds state outside its attributes: put together again it scores otherwise")
    return arrays


def _scores(detector: Detector, images: Tensor) -> NDArray[np.float64]:
    with torch.no_grad():
        return as_scores(detector.score(images.clone()), len(images), detector.name, detector)


def restore(fresh: Detector, state: Mapping[str, NDArray[Any]]) -> Detector:
    """Return the detector with this state; it is changed in place."""
    tree = json.loads(state[TREE].tobytes())
    if "state_dict" in tree:
        fresh.load_state_dict(_built(tree["state_dict"], state, None))  # type: ignore[attr-defined]
        return fresh
    held = vars(fresh)
    for name in tree["gone"]:
        held.pop(name, None)
    for name, node in tree["attributes"].items():
        held[name] = _built(node, state, held.get(name))
    return fresh


class _Taken:
    """Takes arrays out of a structure."""

    def __init__(self, arrays: State) -> None:
        self.arrays = arrays

    def attributes(self, fitted: Detector, fresh: Detector) -> Any:
        if hasattr(fitted, "state_dict") and hasattr(fitted, "load_state_dict"):
            return {"state_dict": self.node(dict(fitted.state_dict()), None, "state_dict()")}
        before, now = vars(fresh), vars(fitted)
        changed = {name: value for name, value in now.items() if name not in before or not same(value, before[name])}
        nodes = {name: self.node(value, before.get(name), f"attribute {name}") for name, value in changed.items()}
        return {"attributes": nodes, "gone": [name for name in before if name not in now]}

    def node(self, value: Any, before: Any, where: str) -> Any:
        """The JSON that stands for a value; its arrays go into the table."""
        match value:
            case None | bool() | int() | str():
                return {"plain": value}
            case float():
                return {"plain": value} if math.isfinite(value) else {"float": repr(value)}
            case nn.Module():
                return {"module": self.module(value, before, where)}
            case Tensor():
                return {"tensor": self.put(value, where)}
            case np.ndarray() | np.generic():
                return {"array": self.put(torch.as_tensor(np.asarray(value)), where)}
            case dict() if all(isinstance(key, str | int) for key in value):
                pairs = [[key, self.node(item, None, f"{where}[{key!r}]")] for key, item in value.items()]
                return {"dict": pairs}
            case list() | tuple() if type(value) in (list, tuple):
                items = [self.node(item, None, f"{where}[{place}]") for place, item in enumerate(value)]
                return {"tuple" if isinstance(value, tuple) else "list": items}
        raise Unkeepable(f"{where} is a {type(value).__qualname__}")

    def put(self, tensor: Tensor, where: str) -> str:
        if tensor.layout != torch.strided or tensor.dtype == torch.bfloat16:
            raise Unkeepable(f"{where} is a tensor of {tensor.dtype} ({tensor.layout})")
        key = str(len(self.arrays))
        self.arrays[key] = tensor.detach().cpu().contiguous().numpy()
        return key

    def module(self, module: nn.Module, before: Any, where: str) -> Any:
        """The weights of a module that a fresh detector holds too, of the same structure."""
        if type(before) is not type(module) or repr(before) != repr(module):
            raise Unkeepable(f"{where} is a module that fit() makes; make it in __init__, or define state_dict()")
        return self.node(dict(module.state_dict()), None, where)


def _built(node: Any, arrays: Mapping[str, NDArray[Any]], before: Any) -> Any:
    ((kind, content),) = node.items()
    match kind:
        case "float":
            return float(content)
        case "tensor":
            return torch.from_numpy(np.array(arrays[content]))
        case "array":
            return np.array(arrays[content])
        case "module":
            before.load_state_dict(_built(content, arrays, None))
            return before
        case "dict":
            return {key: _built(item, arrays, None) for key, item in content}
        case "list":
            return [_built(item, arrays, None) for item in content]
        case "tuple":
            return tuple(_built(item, arrays, None) for item in content)
    return content
