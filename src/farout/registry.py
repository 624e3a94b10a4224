"""Names -> things. One registry per family; an unknown name is answered with the nearest known one."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_NONE: Mapping[str, str] = MappingProxyType({})


class UnknownName(KeyError, ValueError):
    """A name that no registry knows; the message offers the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


def unknown(kind: str, name: object, known: Iterable[str], aliases: Mapping[str, str] = _NONE) -> UnknownName:
    """The error for an unknown name: what was got, the nearest known name, all known names.

    aliases: what else the field calls known names.
    """
    known = sorted(known)
    alias = aliases.get(str(name).lower().replace("-", "_").replace(" ", "_"))
    begun = [one for one in known if len(str(name)) > 1 and one.startswith(str(name))]
    called = [alias] if alias in known else begun
    nearest = called or difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return UnknownName(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known) or 'none'}.")


class Registry(Generic[T]):
    """The things of one family by name: classes or functions that make them.

    aliases: what else the field calls them; an error suggests the name, and no alias is one.
    """

    def __init__(self, kind: str, aliases: Mapping[str, str] = _NONE) -> None:
        self.kind, self.aliases = kind, aliases
        self._makers: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator: from now on `name` makes this."""

        def add(maker: Callable[..., T]) -> Callable[..., T]:
            known = self._makers.get(name)
            if known is not None and _place(known) != _place(maker):
                raise ValueError(f"{self.kind} name {name!r} is taken by {known.__qualname__}; choose another name")
            self._makers[name] = maker
            return maker

        return add

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self._makers:
            load_entry_points()
        if name not in self._makers:
            raise unknown(self.kind, name, self._makers, self.aliases)
        return self._makers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """All known names, sorted."""
        return sorted(self._makers)

    def create(self, name: str, /, **params: Any) -> T:
        """Make `name` with these parameters; an unknown parameter is answered like an unknown name."""
        maker = self[name]
        known = inspect.signature(maker).parameters
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
        for key in params:
            if key not in known and not takes_any:
                raise unknown(f"parameter of {self.kind} {name!r}:", key, known)
        missing = [key for key, p in known.items() if _required(p) and key not in params]
        if missing:
            raise TypeError(f"{self.kind} {name!r} cannot be had by its name alone: give {', '.join(missing)} too")
        try:
            return maker(**params)
        except (TypeError, AttributeError, OverflowError) as error:
            values = ", ".join(f"{key}={value!r}" for key, value in params.items() if key != "headers")  # secrets
            raise TypeError(f"{self.kind} {name!r} cannot be had with {values or 'its defaults'}: {error}") from error


def _place(maker: Callable[..., Any]) -> tuple[str, str]:
    """Return the place where a class or function is defined: the same file imported again defines the same."""
    module = sys.modules.get(maker.__module__)
    return str(getattr(module, "__file__", None) or maker.__module__), maker.__qualname__


def _required(parameter: inspect.Parameter) -> bool:
    given_by_name = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return given_by_name and parameter.default is inspect.Parameter.empty


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
