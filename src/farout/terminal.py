"""Text of others in a terminal: names and messages in a stranger's run cannot move the cursor or add lines."""

from __future__ import annotations

JOINERS = "\u200c\u200d"
"""Invisible characters that emoji and several scripts are written with; they move nothing."""


def one_line(text: str) -> str:
    r"""Return the text with control characters, line breaks and marks of direction as escapes, such as \x1b."""
    return "".join(
        one if one.isprintable() or one in JOINERS else one.encode("unicode_escape").decode() for one in text
    )
