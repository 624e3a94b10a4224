"""Color scale of values in [0, 1] for the cells of a table: red, white at 0.5, blue, with readable text."""

from __future__ import annotations

SCALE = ((103, 0, 31), (214, 96, 77), (247, 247, 247), (67, 147, 195), (5, 48, 97))
"""Colors at 0, 0.25, 0.5, 0.75 and 1."""
Color = tuple[float, float, float]


def shade(value: float) -> tuple[str, str]:
    """Return the background of a value and the text color, black or white, that has the higher contrast to it."""
    position = min(max(value, 0.0), 1.0) * (len(SCALE) - 1)
    place = min(int(position), len(SCALE) - 2)
    part = position - place
    mixed = [round(a + part * (b - a)) for a, b in zip(SCALE[place], SCALE[place + 1], strict=True)]
    background = (mixed[0], mixed[1], mixed[2])
    ink = max(((0, 0, 0), (255, 255, 255)), key=lambda color: contrast(color, background))
    return _hex(background), _hex(ink)


def contrast(first: Color, second: Color) -> float:
    """Return the contrast ratio of two colors (WCAG 2.1)."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _hex(color: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)
