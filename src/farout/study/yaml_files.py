"""YAML as studies use it: plain values within limits, 1e-3 read as the number it is, no key given twice."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

LARGEST = 1 << 18
"""Characters of a text."""
VALUES = 20_000
"""Values of a text, what an alias repeats counted each time."""
DEPTH = 50
"""Levels of lists and mappings inside each other."""


def load(text: str) -> Any:
    """Return the value of a YAML text; ValueError where it is none, or larger than a study can be."""
    if len(text) > LARGEST:
        raise ValueError(f"it has {len(text):,} characters, at most {LARGEST:,} are read; is it a study?")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _expanded(node, {})
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"it holds a value that cannot be read ({error})") from error


class _Loader(yaml.SafeLoader):
    """The safe loader with limits, which refuses a key that is given twice."""

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


_Loader.add_implicit_resolver(  # YAML 1.1 wants a point before the exponent and a sign in it, and reads 1e-3 as text
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def _expanded(node: Node, known: dict[int, int]) -> int:
    """Return how many values a node holds when every alias is written out; an error where they are too many."""
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("an alias refers to the value that it is a part of; write the value out")
        return known[id(node)]
    known[id(node)], parts = 0, []
    if isinstance(node, SequenceNode):
        parts = node.value
    elif isinstance(node, MappingNode):
        parts = [part for pair in node.value for part in pair]
    total = 1 + sum(_expanded(part, known) for part in parts)
    if total > VALUES:
        raise _too_many()
    known[id(node)] = total
    return total


def _too_many() -> ValueError:
    return ValueError(f"it holds more than {VALUES:,} values (aliases written out), which no study needs; shorten it")
