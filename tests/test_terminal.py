"""Names in a terminal: nothing that moves the cursor, adds lines or turns the direction is passed on."""

from __future__ import annotations

import pytest

from farout.terminal import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mls on near: .912 [.9, .92]", "mls on near: .912 [.9, .92]"),
        ("\x1b[2K\x1b[1Aok", r"\x1b[2K\x1b[1Aok"),
        ("msp\nno damage", r"msp\nno damage"),
        ("msp\rok", r"msp\rok"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("\u202eevil", r"\u202eevil"),
        ("שלום 中文 😀 🏴‍☠️", "שלום 中文 😀 🏴‍☠️"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
