"""Markdown of tables and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Return text as inline code; nothing for an empty text."""
    return f"`{text}`" if text else ""


def one_line(text: str) -> str:
    """Return text with all white space as single spaces."""
    return " ".join(text.split())


def prose(text: str) -> str:
    """Return plain text so that Markdown shows it as it is, except for `code` in back quotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*<\[\]])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
