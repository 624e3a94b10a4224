"""Generators: models that are trained on images and generate new ones. None is built in; `farout.register` adds one."""

from __future__ import annotations

from typing import Any

from farout.generators.generator import GENERATORS, Generator

__all__ = ["GENERATORS", "Generator", "create", "names"]

names = GENERATORS.names


def create(name: str, side: int, channels: int = 3, **params: Any) -> Generator:
    """Return an untrained generator by name, for images of this side."""
    return GENERATORS.create(name, side=side, channels=channels, **params)
