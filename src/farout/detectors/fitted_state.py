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
from farout.detectors.trained.detector import TrainedDetector
from farout.identity import same
from farout.scores import as_scores
from farout.tensors import CHUNK

TREE = "tree"
"""Name of the array that holds the structure of the state, as JSON."""
CHECK_IMAGES = CHUNK
"""Number of images on which a restored detector must give the same scores as the fitted one: a batch as in a study."""
DTYPES = {*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool"} | {
    f"float{bits}" for bits in (16, 32, 64)
}
"""Types of the arrays that can be stored."""
State = dict[str, NDArray[Any]]


class NotSerializable(TypeError):
    """Error: the state of a fitted detector cannot be serialized."""


def fit(detector: Detector, train: ImageSet, **others: Any) -> None:
    """Fit a detector on the splits that its `fit` takes: `fit(train)`, or also those of `accepted_arguments`."""
    detector.fit(train, **{name: others[name] for name in accepted_arguments(detector) if name in others})


def has_fit(detector: Detector) -> bool:
    """Return True if there is something to fit: not if it defines no `fit`, nor if it is a trained detector with its
    weights."""
    complete = isinstance(detector, TrainedDetector) and detector.complete
    return type(detector).fit is not Detector.fit and not complete


def accepted_arguments(detector: Detector) -> tuple[str, ...]:
    """Return those of `val`, `outliers`, `auxiliary_outliers` and `seed` that its `fit` accepts; of a trained detector,
    those that it uses."""
    if isinstance(detector, TrainedDetector):
        return detector.fit_arguments
    parameters = inspect.signature(detector.fit).parameters
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return tuple(name for name in ("val", "outliers", "auxiliary_outliers", "seed") if every or name in parameters)


def capture(fitted: Detector, build: Callable[[], Detector], images: Tensor | None) -> State:
    """Return the state of a fitted detector; raise `NotSerializable` if it cannot be restored from that state.

    images: a batch of images or None; the restored detector must give them the same scores.
    """
    try:
        return _capture(fitted, build, images)
    except NotSerializable:
        raise
    except Exception as error:  # code of the user runs here, and its objects may be of any kind
        raise NotSerializable(
            f"storing and restoring it raised {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error


def _capture(fitted: Detector, build: Callable[[], Detector], images: Tensor | None) -> State:
    arrays = State()
    tree = _Encoder(arrays).attributes(fitted, build())
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
        _load(fresh, tree["state_dict"], state)
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
            return {"state_dict": self.loadable(fitted, "state_dict()")}
        initial, now = vars(fresh), vars(fitted)
        changed = {name: value for name, value in now.items() if name not in initial or _differ(value, initial[name])}
        nodes = {name: self.node(value, initial.get(name), f"attribute {name}") for name, value in changed.items()}
        return {"attributes": nodes, "gone": [name for name in initial if name not in now]}

    def node(self, value: Any, initial: Any, where: str) -> Any:
        """Return the JSON of a value; its arrays go into the table. What is restored has the same type."""
        if isinstance(value, nn.Module):
            return {"module": self.module(value, initial, where)}
        kind = type(value)
        if kind in (type(None), bool, int, str) or (kind is float and math.isfinite(value)):
            return {"plain": value}
        if kind is float:
            return {"float": repr(value)}
        if kind in (Tensor, nn.Parameter):
            return {"tensor" if kind is Tensor else "parameter": self.put(value.detach().cpu().numpy(), where)}
        if kind is np.ndarray and value.dtype.kind == "U":
            return {"texts": [value.dtype.str, value.shape, value.ravel().tolist()]}
        if kind is np.ndarray or isinstance(value, np.generic):
            return {"array" if kind is np.ndarray else "scalar": self.put(np.asarray(value), where)}
        if kind is dict and all(type(key) in (str, int) for key in value):
            return {"dict": [[key, self.node(item, None, f"{where}[{key!r}]")] for key, item in value.items()]}
        if kind in (list, tuple):
            return {kind.__name__: [self.node(item, None, f"{where}[{place}]") for place, item in enumerate(value)]}
        raise NotSerializable(f"{where} is a {kind.__qualname__}")

    def put(self, array: NDArray[Any], where: str) -> str:
        if array.dtype.name not in DTYPES:
            raise NotSerializable(f"{where} is an array of {array.dtype}")
        key = str(len(self.arrays))
        self.arrays[key] = np.array(array, array.dtype.newbyteorder("="), order="C")
        return key

    def module(self, module: nn.Module, initial: Any, where: str) -> Any:
        """Encode the weights of a module; a newly built detector must hold a module of the same structure."""
        if type(initial) is not type(module) or repr(initial) != repr(module):
            raise NotSerializable(
                f"{where} is a module that fit() creates; create it in __init__, or define state_dict()"
            )
        return self.loadable(module, where)

    def loadable(self, held: Any, where: str) -> Any:
        """Encode an object with a `state_dict`; if it is a module, also which parts are in training mode."""
        return [self.node(dict(held.state_dict()), None, where), _modes(held)]


def _differ(value: Any, initial: Any) -> bool:
    return not same(value, initial) or _modes(value) != _modes(initial)


def _modes(value: Any) -> list[bool]:
    """Return which parts of a module are in training mode; an empty list for other values."""
    return [part.training for part in value.modules()] if isinstance(value, nn.Module) else []


def _load(fresh: Any, content: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Load what `_Encoder.loadable` encoded into an object, in place, and return it."""
    node, modes = content
    fresh.load_state_dict(_decode(node, arrays, None))
    for part, training in zip(fresh.modules() if modes else (), modes, strict=True):
        part.training = training
    return fresh


def _decode(node: Any, arrays: Mapping[str, NDArray[Any]], initial: Any) -> Any:
    ((kind, content),) = node.items()
    match kind:
        case "float":
            return float(content)
        case "tensor":
            return torch.from_numpy(np.array(arrays[content]))
        case "parameter":
            return nn.Parameter(torch.from_numpy(np.array(arrays[content])))
        case "array":
            return np.array(arrays[content])
        case "scalar":
            return arrays[content][()]
        case "texts":
            dtype, shape, texts = content
            return np.array(texts, dtype).reshape(shape)
        case "module":
            return _load(initial, content, arrays)
        case "dict":
            return {key: _decode(item, arrays, None) for key, item in content}
        case "list":
            return [_decode(item, arrays, None) for item in content]
        case "tuple":
            return tuple(_decode(item, arrays, None) for item in content)
    return content
