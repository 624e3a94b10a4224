"""Serialization of fitted detectors that read images: to arrays, and back into a newly built detector.

The state consists of the tensors, arrays, modules, numbers and strings that the object holds, also in lists and
dictionaries, or of its `state_dict` if it has one. A detector whose state cannot be serialized is used only by the
process that fitted it.
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
"""Name of the array that holds the structure of the state, as JSON."""
CHECK_IMAGES = 8
"""Number of images on which a restored detector must give the same scores as the fitted one."""
State = dict[str, NDArray[Any]]


class NotSerializable(TypeError):
    """Error: the state of a fitted detector cannot be serialized."""


def fit(detector: Detector, train: ImageSet, **others: Any) -> None:
    """Fit a detector on the splits that its `fit` takes: `fit(train)`, or also `val`, `outliers` and `seed`."""
    detector.fit(train, **{name: others[name] for name in accepted_arguments(detector) if name in others})


def accepted_arguments(detector: Detector) -> tuple[str, ...]:
    """Return those of `val`, `outliers` and `seed` that its `fit` accepts."""
    parameters = inspect.signature(detector.fit).parameters
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return tuple(name for name in ("val", "outliers", "seed") if every or name in parameters)


def capture(fitted: Detector, build: Callable[[], Detector], images: Tensor | None) -> State:
    """Return the state of a fitted detector; raise `NotSerializable` if it cannot be restored from that state.

    images: a few images or None; the restored detector must give them the same scores.
    """
    fresh, arrays = build(), State()
    tree = _Encoder(arrays).attributes(fitted, fresh)
    arrays[TREE] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    restored = restore(build(), arrays)
    if images is None:
        return arrays
    first, second, third = (_scores(one, images) for one in (fitted, fitted, restored))
    if np.array_equal(first, second) and not np.array_equal(first, third):
        raise NotSerializable(
            f"{fitted.name} holds state outside its attributes: restored from them, it gives other scores"
        )
    return arrays


def _scores(detector: Detector, images: Tensor) -> NDArray[np.float64]:
    with torch.no_grad():
        return as_scores(detector.score(images.clone()), len(images), detector.name, detector)


def restore(fresh: Detector, state: Mapping[str, NDArray[Any]]) -> Detector:
    """Load the state into a newly built detector, in place, and return it."""
    tree = json.loads(state[TREE].tobytes())
    if "state_dict" in tree:
        fresh.load_state_dict(_decode(tree["state_dict"], state, None))  # type: ignore[attr-defined]
        return fresh
    held = vars(fresh)
    for name in tree["gone"]:
        held.pop(name, None)
    for name, node in tree["attributes"].items():
        held[name] = _decode(node, state, held.get(name))
    return fresh


class _Encoder:
    """Encoder of a structure as JSON and a table of arrays."""

    def __init__(self, arrays: State) -> None:
        self.arrays = arrays

    def attributes(self, fitted: Detector, fresh: Detector) -> Any:
        if hasattr(fitted, "state_dict") and hasattr(fitted, "load_state_dict"):
            return {"state_dict": self.node(dict(fitted.state_dict()), None, "state_dict()")}
        initial, now = vars(fresh), vars(fitted)
        changed = {name: value for name, value in now.items() if name not in initial or not same(value, initial[name])}
        nodes = {name: self.node(value, initial.get(name), f"attribute {name}") for name, value in changed.items()}
        return {"attributes": nodes, "gone": [name for name in initial if name not in now]}

    def node(self, value: Any, initial: Any, where: str) -> Any:
        """Return the JSON of a value; its arrays go into the table."""
        match value:
            case None | bool() | int() | str():
                return {"plain": value}
            case float():
                return {"plain": value} if math.isfinite(value) else {"float": repr(value)}
            case nn.Module():
                return {"module": self.module(value, initial, where)}
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
        raise NotSerializable(f"{where} is a {type(value).__qualname__}")

    def put(self, tensor: Tensor, where: str) -> str:
        if tensor.layout != torch.strided or tensor.dtype == torch.bfloat16:
            raise NotSerializable(f"{where} is a tensor of {tensor.dtype} ({tensor.layout})")
        key = str(len(self.arrays))
        self.arrays[key] = tensor.detach().cpu().contiguous().numpy()
        return key

    def module(self, module: nn.Module, initial: Any, where: str) -> Any:
        """Encode the weights of a module; a newly built detector must hold a module of the same structure."""
        if type(initial) is not type(module) or repr(initial) != repr(module):
            raise NotSerializable(
                f"{where} is a module that fit() creates; create it in __init__, or define state_dict()"
            )
        return self.node(dict(module.state_dict()), None, where)


def _decode(node: Any, arrays: Mapping[str, NDArray[Any]], initial: Any) -> Any:
    ((kind, content),) = node.items()
    match kind:
        case "float":
            return float(content)
        case "tensor":
            return torch.from_numpy(np.array(arrays[content]))
        case "array":
            return np.array(arrays[content])
        case "module":
            initial.load_state_dict(_decode(content, arrays, None))
            return initial
        case "dict":
            return {key: _decode(item, arrays, None) for key, item in content}
        case "list":
            return [_decode(item, arrays, None) for item in content]
        case "tuple":
            return tuple(_decode(item, arrays, None) for item in content)
    return content
