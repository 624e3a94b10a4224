"""YAML loader for study files: plain values, limits on size and depth, 1e-3 read as a number, no duplicate keys."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

LARGEST = 1 << 18
"""Largest number of characters in a text."""
VALUES = 20_000
"""Largest number of values in a text, counting every repetition by an alias."""
_BRACE = "expected ',' or ']', but got '{'"
DEPTH = 50
"""Largest nesting depth of lists and mappings."""


def load(text: str) -> Any:
    """Return the value of a YAML text. Raise ValueError if it is not valid YAML, or too large for a study."""
    if len(text) > LARGEST:
        raise ValueError(f"it has {len(text):,} characters, at most {LARGEST:,} are read; is it a study?")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _count_values(node, {})
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        hint = (
            '\nIn a list, a name with braces needs quotes: ["photos-{0000..0009}.tar"]' if _BRACE in str(error) else ""
        )
        raise ValueError(f"{error}{hint}") from error
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"it holds a value that cannot be read ({error})") from error


class _Loader(yaml.SafeLoader):
    """Safe YAML loader with limits, which refuses duplicate keys."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = self.depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.nodes, self.depth = self.nodes + 1, self.depth + 1
        if self.nodes > VALUES:
            raise _too_many()
        if self.depth > DEPTH:
            raise ValueError(f"its lists and mappings are nested deeper than {DEPTH} levels; write it flatter")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (self.construct_object(key, deep=True) for key, _ in node.value):
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} cannot be a key", node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(  # YAML 1.1 requires a decimal point and a signed exponent, and reads 1e-3 as text
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def _count_values(node: Node, counts: dict[int, int]) -> int:
    """Return the number of values in a node with every alias expanded. Raise if there are too many."""
    if id(node) in counts:
        if not counts[id(node)]:
            raise ValueError("an alias refers to the value that it is a part of; write the value out")
        return counts[id(node)]
    counts[id(node)], parts = 0, []
    if isinstance(node, SequenceNode):
        parts = node.value
    elif isinstance(node, MappingNode):
        parts = [part for pair in node.value for part in pair]
    total = 1 + sum(_count_values(part, counts) for part in parts)
    if total > VALUES:
        raise _too_many()
    counts[id(node)] = total
    return total


def _too_many() -> ValueError:
    return ValueError(f"it holds more than {VALUES:,} values (aliases expanded), which no study needs; shorten it")
