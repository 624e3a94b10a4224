"""Registries: names -> classes and functions, one registry per kind; `register` adds the user's own.

A registry is listed in `REGISTRIES` once its package is imported; `registry_of` imports it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args, overload

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
Kind = Literal[
    "detector", "shift", "attack", "variation", "search", "generator", "dataset", "network", "protocol", "engine",
    "adapter",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
_HOMES: dict[str, str] = {
    "detector": "detectors", "shift": "shifts", "attack": "attacks", "variation": "variations", "search": "search",
    "generator": "generators", "dataset": "data", "network": "networks", "protocol": "protocols",
    "engine": "study.engines.run", "adapter": "adapters",
}  # fmt: skip
"""Modules whose import fills the registry of a kind with everything that farout provides."""
Named = str | Mapping[str, Any]
"""Name of a component, or a mapping with settings: {name: affine, interpolation: bilinear}."""
_NONE: Mapping[str, str] = MappingProxyType({})

REGISTRIES: dict[str, Registry[Any]] = {}
"""By kind, the registries of the packages that have been imported."""


class UnknownName(KeyError, ValueError):
    """Name that is not registered; the message suggests the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


def unknown(kind: str, name: object, known: Iterable[str], aliases: Mapping[str, str] = _NONE) -> UnknownName:
    """Return the error for an unknown name, with the nearest known name and all known names.

    aliases: alias -> known name.
    """
    known = sorted(known)
    alias = aliases.get(str(name).lower().replace("-", "_").replace(" ", "_"))
    text, lower = str(name).lower(), {one.lower(): one for one in known}
    completions = [one for one in lower if len(text) > 1 and one.startswith(text)]
    matches = completions or difflib.get_close_matches(text, lower, n=1, cutoff=0.5)
    nearest = [alias] if alias in known else [lower[match] for match in matches]
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return UnknownName(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known) or 'none'}.")


def split_settings(what: str, item: Named) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a component; `what` says in errors where they were given."""
    settings = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    if not isinstance(settings.get("name"), str):
        raise ValueError(f"{what}: expected a name, or a mapping with a name and settings, got {item!r}")
    return settings.pop("name"), settings


class Registry(Generic[T]):
    """Classes and factory functions of one kind, by name.

    base: the class or classes from which classes of this kind must derive.
    aliases: other common names; an error suggests the registered name, and no alias is accepted.
    title: name of the kind in errors. check: function that raises for a class or function that cannot be registered.
    functions: False if only classes can be registered.
    """

    def __init__(
        self,
        kind: str,
        base: type | tuple[type, ...] = object,
        aliases: Mapping[str, str] = _NONE,
        *,
        title: str = "",
        check: Callable[[Callable[..., Any]], None] | None = None,
        functions: bool = True,
    ) -> None:
        self.kind, self.title, self.aliases, self._check = kind, title or kind, aliases, check
        self._functions = functions
        self.bases = base if isinstance(base, tuple) else (base,)
        self._makers: dict[str, Callable[..., T]] = {}
        REGISTRIES[kind] = self

    def add(self, maker: M, name: str | None = None) -> M:
        """Register a class or function, by default under the class's `name` or the name of the function."""
        self._check_maker(maker)
        if self._check:
            self._check(maker)
        name = _choose_name(maker, name)
        known = self._makers.get(name)
        if known is not None and _location(known) != _location(maker):
            raise ValueError(f"{self.title} name {name!r} is taken by {known.__qualname__}; choose another name")
        self._makers[name] = maker
        return maker

    def _check_maker(self, maker: Any) -> None:
        if isinstance(maker, type):
            if not issubclass(maker, self.bases):
                raise TypeError(f"a {self.title} must derive from {self._base_names}, got the class {maker!r}")
        elif not inspect.isroutine(maker):
            raise TypeError(f"a {self.title} must be registered as a class or function, got {maker!r}")
        elif not self._functions:
            raise TypeError(
                f"a {self.title} must be a class that derives from {self._base_names}, got the function "
                f"{maker.__qualname__}"
            )
        elif maker.__name__ == "<lambda>":
            raise TypeError(
                f"a lambda cannot be registered as a {self.title}, since it has no name: use def or a class"
            )

    @property
    def _base_names(self) -> str:
        return " or ".join(base.__name__ for base in self.bases)

    def register(self, name: str) -> Callable[[M], M]:
        """Return a decorator that registers a class or function under this name."""
        return lambda maker: self.add(maker, name)

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self:
            raise unknown(self.title, name, self._makers, self.aliases)
        return self._makers[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._makers:
            load_entry_points()
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """Return all registered names, sorted, those of installed plugins included."""
        load_entry_points()
        return sorted(self._makers)

    def create(self, name: str, /, **params: Any) -> T:
        """Create the object registered as `name` with these parameters. Raise for unknown or missing parameters."""
        maker = self[name]
        known = inspect.signature(maker).parameters
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
        for key in params:
            if key not in known and not takes_any:
                raise unknown(f"parameter of {self.title} {name!r}:", key, known)
        missing = [key for key, p in known.items() if _required(p) and key not in params]
        if missing:
            raise TypeError(f"{self.title} {name!r} needs more parameters: give {', '.join(missing)} too")
        try:
            created = maker(**params)
        except (TypeError, AttributeError, OverflowError) as error:
            values = ", ".join(f"{key}={value!r}" for key, value in params.items() if key != "headers")  # secrets
            reason = _mistyped(known, params) or str(error)
            raise TypeError(
                f"{self.title} {name!r} cannot be created with {values or 'its defaults'}: {reason}"
            ) from error
        if not isinstance(created, self.bases):
            raise TypeError(
                f"{self.title} {name!r}: expected {self._base_names}, but {maker.__qualname__} returned "
                f"{created if created is None else f'an object of type {type(created).__name__}'}"
            )
        return created


def _choose_name(maker: Any, name: str | None) -> str:
    """Return the name to register under; an explicit one also replaces the `name` attribute of a class."""
    own = getattr(maker, "name", None) if isinstance(maker, type) else None
    selected = name if name is not None else own if isinstance(own, str) else maker.__name__
    if not isinstance(selected, str) or not selected.strip():
        raise ValueError(f"expected a name that is not empty for {maker.__qualname__}, got {selected!r}")
    if name is not None and isinstance(own, str):
        maker.name = name
    return selected


def _location(maker: Callable[..., Any]) -> tuple[str, str]:
    """Return the file and name of a class or function, which are the same if its file is imported again."""
    module = sys.modules.get(maker.__module__)
    return str(getattr(module, "__file__", None) or maker.__module__), maker.__qualname__


def _required(parameter: inspect.Parameter) -> bool:
    by_name = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return by_name and parameter.default is inspect.Parameter.empty


def _mistyped(known: Mapping[str, inspect.Parameter], params: Mapping[str, Any]) -> str:
    """Return which parameters are no numbers although their defaults are; empty if none."""
    numbers = {
        key: known[key].default for key in params if key in known and isinstance(known[key].default, int | float)
    }
    return "; ".join(
        f"{key} must be a number, such as {default}, got {params[key]!r}"
        for key, default in numbers.items()
        if not isinstance(params[key], int | float)
    )


@overload
def register(thing: M, /) -> M: ...
@overload
def register(*, kind: Kind | None = None, name: str | None = None) -> Callable[[M], M]: ...
def register(thing: Any = None, /, *, kind: Kind | None = None, name: str | None = None) -> Any:
    """Register a class or function by name, for studies, `farout list` and the command line (decorator).

    >>> @farout.register
    ... class Mine(farout.PostHoc): ...
    >>> @farout.register(kind="network", name="mine")
    ... def build(classes, side, channels, width=16): ...

    The kind of a class follows from its base: `Detector`, `PostHoc`, `Shift`, `Attack`, `Variation`, `ImageSet`,
    `farout.search.Search`, `farout.generators.Generator`, `farout.protocols.Protocol`, `nn.Module` (a network), or
    `farout.study.engines.executor.Executor`. A function needs `kind`; it is called with the parameters of the study,
    and must return an object of the kind's base. Protocols and engines must be classes.
    kind: "detector", "shift", "attack", "variation", "search", "generator", "dataset", "network", "protocol" or
        "engine". A network's function gets those of the arguments classes, side and channels that it names, and
        returns an `nn.Module` from normalized images to logits, or a `farout.Network`; a data set's function gets
        split, and returns an `ImageSet`.
    name: by default the class's `name`, else the name of the class or function.
    """
    if thing is None:
        return lambda maker: (registry_of(kind) if kind else _registry_for(maker)).add(maker, name)
    return _registry_for(thing).add(thing)


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of a kind, with everything that farout provides."""
    if kind not in KINDS:
        raise unknown("kind of component:", kind, KINDS)
    importlib.import_module(f"farout.{_HOMES[kind]}")
    return REGISTRIES[kind]


def _registry_for(thing: object) -> Registry[Any]:
    """Return the registry whose base a class derives from, importing packages until one matches.

    The registry of networks comes last, since a detector or any other component may be an `nn.Module` too.
    """
    loaded = (REGISTRIES[kind] for kind in KINDS if kind in REGISTRIES and kind != "network")
    for registry in itertools.chain(loaded, map(registry_of, KINDS)) if isinstance(thing, type) else ():
        if issubclass(thing, registry.bases):  # type: ignore[arg-type]
            return registry
    if inspect.isfunction(thing):
        raise TypeError(
            f"the kind of the function {thing.__name__} is missing: @farout.register(kind=…), one of {', '.join(KINDS)}"
        )
    raise TypeError(
        "expected a class that derives from farout.Detector, farout.PostHoc, farout.Shift, farout.Attack, "
        "farout.Variation, farout.ImageSet, farout.search.Search, farout.generators.Generator, "
        f"farout.protocols.Protocol, an Executor or nn.Module, got {thing!r}"
    )


_loaded_entry_points = False


def load_entry_points() -> None:
    """Import the plugins that installed packages declare under the entry-point group `farout`."""
    global _loaded_entry_points
    if not _loaded_entry_points:
        _loaded_entry_points = True
        for entry in entry_points(group="farout"):
            try:
                entry.load()
            except Exception as error:
                error.add_note(f"while loading the farout plugin {entry.name} = {entry.value}")
                raise
