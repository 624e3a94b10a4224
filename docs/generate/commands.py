"""Command line reference: usage, arguments and options of every verb, from the functions that run them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import typer
from rich.text import Text
from typer.models import OptionInfo

from farout.cli import app
from generate.markdown import code, one_line, prose, table

WORDS = {str: "TEXT", int: "INTEGER", float: "FLOAT", Path: "PATH"}
"""Words for the values of options."""
EXAMPLE = re.compile(r"Example: |;\s+(?=farout )")


class Parameter(NamedTuple):
    """Argument or option of a verb."""

    name: str
    kind: Any
    info: Any
    default: Any

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def usage(self) -> str:
        """Return how it is written on the command line."""
        if not self.is_option:
            return self.info.metavar or self.name.upper()
        first = self.info.default  # where typer keeps the first name that is given in `Annotated`
        names = [*([first] if str(first).startswith("-") else []), *(self.info.param_decls or ())]
        word = _word(self.kind)
        return ", ".join(names or [f"--{self.name.replace('_', '-')}"]) + (f" {word}" if word else "")

    @property
    def meaning(self) -> str:
        """Return its help, with the default."""
        told = self.info.show_default
        default = told if isinstance(told, str) else _default(self.default)
        required = self.is_option and self.default is inspect.Parameter.empty
        about = prose(one_line(self.info.help or ""))
        return about + (f" Default: `{default}`." if default else " Required." if required else "")


def commands() -> str:
    """Return a section per verb: usage, what it does, arguments and options."""
    return f"{_plain(app.info.help)}\n\n" + "\n".join(_section(path, verb) for path, verb in verbs())


def verbs(group: typer.Typer = app, path: str = "farout") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of all verbs with the words that call them; verbs may have verbs of their own."""
    for command in group.registered_commands:
        if command.callback:
            yield f"{path} {command.name or command.callback.__name__.replace('_', '-')}", command.callback
    for inner in group.registered_groups:
        if inner.typer_instance:
            yield from verbs(inner.typer_instance, f"{path} {inner.name or inner.typer_instance.info.name}")


def parameters(verb: Callable[..., Any]) -> list[Parameter]:
    """Return the arguments and options of a verb."""
    hints, known = get_type_hints(verb, include_extras=True), inspect.signature(verb).parameters
    return [Parameter(name, *_annotation(hints[name]), one.default) for name, one in known.items()]


def _section(path: str, verb: Callable[..., Any]) -> str:
    known = parameters(verb)
    arguments, options = ([one for one in known if one.is_option == is_option] for is_option in (False, True))
    words = (one.usage if one.default is inspect.Parameter.empty else f"[{one.usage}]" for one in arguments)
    about, *examples = EXAMPLE.split(_plain(verb.__doc__))
    parts = [f"## {path}", f"```console\n{' '.join([path, *words])} [OPTIONS]\n```", prose(about.strip())]
    lines = "\n".join(map(one_line, examples))
    parts += [f"Example:\n\n```console\n{lines}\n```"] if examples else []
    for title, part in (("argument", arguments), ("option", options)):
        parts += [table((title, "meaning"), ([code(one.usage), one.meaning] for one in part))] if part else []
    return "\n\n".join(parts) + "\n"


def _plain(text: str | None) -> str:
    """Return a help text without rich's markup."""
    return Text.from_markup(inspect.cleandoc(text or "")).plain


def _annotation(hint: Any) -> tuple[Any, Any]:
    """Return the type of a parameter and typer's description of it."""
    kind, info = get_args(hint)
    return kind, info


def _word(kind: Any) -> str:
    """Return the word, or the choices, that stand for a value; nothing for a flag."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    if parts:  # X | None, list[X]
        return _word(parts[0])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return WORDS.get(kind, "")


def _default(value: Any) -> str:
    if value is None or value is False or value is inspect.Parameter.empty:
        return ""
    return str(value.value if isinstance(value, Enum) else value)
