"""Classifiers: architectures by name, the `Network` wrapper of any module, and weights.

`train` and `History` are those of `farout.training`, imported when first used.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from farout.core import Head
from farout.identity import Json, describe_maker, is_users
from farout.networks import (  # noqa: F401
    allconv,
    convolutional,
    densenet,
    inception,
    residual,
    timm_bridge,
    transformer,
    wide,
)
from farout.networks.accuracy import accuracy
from farout.networks.base import NETWORKS, seeded
from farout.networks.ensemble import Ensemble
from farout.networks.mode import Mode
from farout.networks.network import Network
from farout.networks.restricted import restrict
from farout.networks.weights import load_weights, save_weights
from farout.registry import UnknownName, unknown
from farout.rng import seed_of

if TYPE_CHECKING:
    from farout.training.classifier import History, train

__all__ = [
    "NETWORKS",
    "Ensemble",
    "Head",
    "History",
    "Mode",
    "Network",
    "accuracy",
    "create",
    "load_weights",
    "names",
    "restrict",
    "save_weights",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in ("History", "train"):  # a network does not know how it is trained
        return getattr(importlib.import_module("farout.training.classifier"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


SMALLEST = 16
"""Smallest image side that all networks support."""
MOST_CHANNELS = 1024
"""Largest width of a built-in network, in channels of its first stage; more are probably a mistake."""
HEADS: Mapping[type[nn.Module], str] = {transformer.VisionTransformer: "head"}
"""Names of the last linear layers of built-in networks, which are not run to find them; by default "linear"."""
GIVEN = ("classes", "side", "channels")
"""Arguments that are passed to a network's builder if it accepts them."""


def names() -> list[str]:
    """Return the names of all registered networks."""
    return NETWORKS.names()


def create(
    name: str,
    classes: int,
    side: int,
    channels: int = 3,
    *,
    pretrained: bool = False,
    fine_tune: bool = False,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    seed: int = 0,
    **params: Any,
) -> Network:
    """Create a network by name for images of this side, in eval mode; its weights depend only on `seed`.

    name: one of `names()`, or "timm:" and any name of timm's, with the tag of its weights or without.
        Below 96 px the small-image form, whose stem keeps the side; from 96 px on, and for pretrained weights, timm's.
    classes: number of classes; 0 for a network of timm that gives features only. Pretrained weights with another
        number of classes give features only too: detectors that read logits raise an error, and so does `train`.
    fine_tune: replace the head of pretrained weights that have other classes; the new head is drawn from `seed`.
    mean, std: normalizer; by default 0.5 for networks of farout and images with one channel, else that of the weights.
    params: further parameters of the network: `width`, the channels of its first stage, where its small-image form has
        one (resnet18 with width=16 has stages of 16, 32, 64 and 128 channels), and those of a user's network.
    """
    if not isinstance(name, str):
        raise unknown("network", name, names())
    if not all(isinstance(number, int | np.integer) for number in (classes, side, channels)):
        raise TypeError(f"classes, side and channels must be whole numbers, got {classes!r}, {side!r}, {channels!r}")
    timms = name.startswith(timm_bridge.PREFIX)
    users = not timms and is_users(NETWORKS[name])
    if pretrained:
        classes = timm_bridge.pretrained_classes(name, classes, channels, fine_tune=fine_tune)
    if (fine_tune or not pretrained) and classes < 2 and not (classes == 0 and timm_bridge.knows(name)):
        raise ValueError(
            f"expected at least 2 classes (or 0, of timm's networks), got classes={classes} for {name}. Images without "
            "labels do not tell how many there are: give classes: 10 with the network in a study, classes=10 in Python"
        )
    if (side < SMALLEST and not users) or channels not in (1, 3):
        raise ValueError(
            f"expected a side of at least {SMALLEST} px and 1 or 3 channels, got side={side} and channels={channels}"
        )
    theirs = timms or pretrained or not classes or timm_bridge.builds(name, side)
    with seeded(seed_of(seed, "network", name)), torch.device("cpu"):
        if theirs:
            check_parameters(name, params)
            _refuse_parameters(name, params)
            module = timm_bridge.build(name, classes, side, channels, pretrained=pretrained)
        else:
            module = _build(name, {"classes": classes, "side": side, "channels": channels}, params)
    if isinstance(module, Network):
        return module.eval() if mean is None and std is None else _normalized(module, mean, std)
    own = timm_bridge.normalizer(module) if theirs and channels == 3 else (0.5, 0.5)
    network = Network(
        module,
        mean=own[0] if mean is None else mean,
        std=own[1] if std is None else std,
        head=(None if theirs or users else HEADS.get(type(module), "linear")) if classes else False,
    )
    network.name = name
    return network


def parameters(name: str) -> list[str] | None:
    """Return the parameters of a network other than classes, side and channels; None if it accepts any."""
    try:
        known = inspect.signature(NETWORKS[name]).parameters.values()
    except UnknownName:
        return []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        return None
    return [parameter.name for parameter in known if parameter.name not in GIVEN]


def check_parameters(name: str, params: Mapping[str, Any]) -> None:
    """Raise an error if a network has no such parameters."""
    known = parameters(name)
    for key in params if known is not None else ():
        if key not in (known or ()):
            raise unknown(f"parameter of network {name!r}:", key, known or ())


def own_identity(name: str, params: Mapping[str, Any]) -> dict[str, Json]:
    """Return the identity of a user's network apart from its weights: the code that builds it and its parameters.

    Empty for built-in networks, which the name identifies.
    """
    maker = _users_maker(name)
    return {} if maker is None else {"code": describe_maker(maker), "params": dict(params)}


def _refuse_parameters(name: str, params: Mapping[str, Any]) -> None:
    """Raise an error if a network that timm builds is given parameters."""
    if params:
        raise ValueError(
            f"{name} is built by timm, without parameters, got {', '.join(params)}: from {timm_bridge.LARGE} px on, "
            "and with pretrained weights, a network has its published widths"
        )


def _users_maker(name: str) -> Callable[..., nn.Module] | None:
    """Return the class or function that builds a user's network; None for other names."""
    try:
        maker = NETWORKS[name]
    except UnknownName:
        return None
    return maker if is_users(maker) else None


def _build(name: str, inputs: dict[str, int], params: dict[str, Any]) -> nn.Module:
    """Build a registered network with those of the inputs that its builder accepts."""
    check_parameters(name, params)
    if not is_users(NETWORKS[name]):
        _check_widths(name, params)
    known = inspect.signature(NETWORKS[name]).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known)
    named = {parameter.name for parameter in known}
    return NETWORKS.create(name, **{key: value for key, value in inputs.items() if takes_any or key in named}, **params)


def _check_widths(name: str, params: Mapping[str, Any]) -> None:
    """Raise an error if the parameters of a built-in network, all of them widths, are no numbers of channels."""
    for key, value in params.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_CHANNELS:
            raise ValueError(f"network {name!r}: expected {key} from 1 to {MOST_CHANNELS}, got {value!r}")


def _normalized(network: Network, mean: Any, std: Any) -> Network:
    """Return the network with another normalizer."""
    return Network(
        network.module,
        mean=network.mean.flatten().tolist() if mean is None else mean,
        std=network.std.flatten().tolist() if std is None else std,
        head=network.head_name or False,
        blocks=network.block_names,
        side=network.side,
    )
