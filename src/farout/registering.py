"""Making classes and functions of your own known by name, so that studies and the command line find them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, get_args, overload

from torch import nn

from farout.attacks.attack import Attack
from farout.attacks.catalog import ATTACKS
from farout.core import Detector, ImageSet, PostHoc, Shift
from farout.data.catalog import DATASETS
from farout.detectors.catalog import catalog as detectors
from farout.networks.base import NETWORKS
from farout.registry import Registry, unknown
from farout.search.catalog import SEARCHES
from farout.search.search import Search
from farout.shifts.catalog import catalog as shifts
from farout.variations.catalog import VARIATIONS
from farout.variations.variation import Variation

Kind = Literal["detector", "network", "dataset", "shift", "attack", "variation", "search", "protocol"]
T = TypeVar("T", bound=Callable[..., Any])


class _Family(NamedTuple):
    """Things of one kind: what their classes derive, and where they are known."""

    base: type | tuple[type, ...]
    registry: Registry[Any]


@overload
def register(thing: T, /) -> T: ...
@overload
def register(*, kind: Kind | None = None, name: str | None = None) -> Callable[[T], T]: ...
def register(thing: Any = None, /, *, kind: Kind | None = None, name: str | None = None) -> Any:
    """Decorator: make a class or function known by name, for studies, `farout list` and the command line.

    >>> @farout.register
    ... class Mine(farout.PostHoc): ...
    >>> @farout.register(kind="network", name="mine")
    ... def build(classes, side, channels, width=16): ...

    A class says by what it derives what it is: a `Detector`, `PostHoc`, `Shift`, `Attack`, `Variation`, `ImageSet`,
    `farout.search.Search`, `farout.protocols.Protocol`, or an `nn.Module` (a network). Of a function `kind` says what
    it makes; it is called with the parameters that a study gives.
    kind: "detector", "network", "dataset", "shift", "attack", "variation", "search" or "protocol". A network's maker
        gets those of classes, side and channels that it names, and returns an `nn.Module` from normalized images to
        logits, or a `farout.Network`; a data set's maker gets split, and returns an `ImageSet`.
    name: by default the class's `name`, else the name of the class or function.
    """
    if thing is None:
        return lambda found: register_as(found, kind, name)
    return register_as(thing, None, None)


def register_as(thing: T, kind: Kind | None, name: str | None) -> T:
    """Make a class or function known under its kind and name."""
    kind = kind or _kind_of(thing)
    if kind not in get_args(Kind):
        raise unknown("kind of thing to register:", kind, get_args(Kind))
    family = FAMILIES[kind] if kind in FAMILIES else _protocols()
    if isinstance(thing, type) and not issubclass(thing, family.base):
        bases = family.base if isinstance(family.base, tuple) else (family.base,)
        raise TypeError(f"a {kind} derives {' or '.join(base.__name__ for base in bases)}, got the class {thing!r}")
    if kind == "dataset":
        _check_split(thing)
    family.registry.register(_name_of(thing, name))(thing)
    return thing


FAMILIES: dict[Kind, _Family] = {
    "detector": _Family((Detector, PostHoc), detectors),
    "shift": _Family(Shift, shifts),
    "attack": _Family(Attack, ATTACKS),
    "variation": _Family(Variation, VARIATIONS),
    "search": _Family(Search, SEARCHES),
    "dataset": _Family(ImageSet, DATASETS),
    "network": _Family(nn.Module, NETWORKS),
}


def _protocols() -> _Family:
    from farout.protocols.base import PROTOCOLS, Protocol

    return _Family(Protocol, PROTOCOLS)


def _kind_of(thing: object) -> Kind:
    """Return the kind of a class by what it derives."""
    for kind, family in FAMILIES.items():
        if isinstance(thing, type) and issubclass(thing, family.base):
            return kind
    if isinstance(thing, type) and issubclass(thing, _protocols().base):
        return "protocol"
    kinds = ", ".join(get_args(Kind))
    if inspect.isfunction(thing):
        raise TypeError(f"say what {thing.__name__} makes: @farout.register(kind=…), one of {kinds}")
    raise TypeError(
        "expected a class that derives farout.Detector, farout.PostHoc, farout.Shift, farout.Attack, farout.Variation, "
        f"farout.ImageSet, farout.search.Search, farout.protocols.Protocol or nn.Module, got {thing!r}"
    )


def _name_of(thing: Any, name: str | None) -> str:
    """The name to know it by; a class that has a `name` of its own takes over the given one."""
    own = getattr(thing, "name", None) if isinstance(thing, type) else None
    if name is not None and isinstance(own, str):
        thing.name = name
    return name or (own if isinstance(own, str) else thing.__name__)


def _check_split(maker: Callable[..., Any]) -> None:
    known = inspect.signature(maker).parameters.values()
    if not any(parameter.name == "split" or parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        raise TypeError(f"a data set is asked for its splits: give {maker.__name__} a parameter split, such as 'test'")
