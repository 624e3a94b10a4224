"""Tables as LaTeX (booktabs)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from farout.report.content import BEST, TIED, Column, Table
from farout.report.readable import legend, marks_of, readable

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$",
    "→": r"$\to$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\ldots{}", "·": r"\textperiodcentered{}",
    "†": r"\textdagger{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
}  # fmt: skip
"""Characters that have a special meaning in LaTeX, or that it does not know."""

_FITS = 85
"""Number of characters of a line of print; wider tables are shrunk to it."""
_SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
"""Start of a box that is as wide as its content, and at most as the line."""


def latex(table: Table) -> str:
    """Return a booktabs table: the best in bold, those tied with it underlined, small p-values as powers of ten.

    A table wider than a line of print is shrunk to the line.
    """
    columns = readable(table)
    names = [table.columns[column] for column in columns]
    cells = [
        [_cell(column, *cell) for cell in zip(values, marks_of(table, column), strict=True)]
        for column, values in columns.items()
    ]
    lines = [list(line) for line in zip(*cells, strict=True)]
    rows = [_row(line) for line in [[_escape(name) for name in names], *lines]]
    body = [rf"\begin{{tabular}}{{{'l' * len(names)}}}", r"\toprule", rows[0], r"\midrule", *rows[1:]]
    body += [r"\bottomrule", r"\end{tabular}"]
    if sum(_width(name, values) for name, values in zip(names, columns.values(), strict=True)) > _FITS:
        body = [_SHRUNK + body[0], *body[1:-1], body[-1] + "}"]
    caption = filter(None, (f"{table.title}.", table.caption, legend(table)))
    head = [r"\begin{table}", r"\centering", rf"\caption{{{_escape(' '.join(caption))}}}"]
    head += [rf"\label{{tab:{re.sub('[^A-Za-z0-9_-]+', '-', table.name)}}}"]
    return "\n".join([*head, *body, r"\end{table}", ""])


def _width(name: str, values: Sequence[str]) -> int:
    """Return the number of characters of the widest cell of a column, and of the gap beside it."""
    return max(map(len, (name, *values))) + 2


def _row(cells: list[str]) -> str:
    """Return a row; LaTeX would take a bracket at its start for an argument of the line break before it."""
    line = " & ".join(cells) + r" \\"
    return f"{{}}{line}" if line.startswith("[") else line


def _cell(column: Column, value: str, mark: str) -> str:
    """Return one cell as LaTeX; of a value with an interval only the value is marked."""
    if column.powers and (power := re.fullmatch(r"(\d)e-0*(\d+)", value)):
        digit, exponent = power.groups()
        factor = "" if digit == "1" else rf"{digit}\times "
        return rf"${factor}10^{{-{exponent}}}$"
    first, space, rest = value.partition(" ") if mark else (value, "", "")
    command = {BEST: r"\textbf", TIED: r"\underline"}.get(mark)
    return (rf"{command}{{{_escape(first)}}}" if command else _escape(first)) + _escape(space + rest)


def _escape(value: object) -> str:
    text = " ".join(str(value).splitlines())  # an empty line would end the paragraph, and the table with it
    return "".join(map(_character, text, [*text[1:], ""]))


def _character(one: str, after: str) -> str:
    """Return a character as LaTeX; two hyphens would become a dash, and control characters are not allowed."""
    if one in "&%$#_{}":
        return f"\\{one}"
    if unicodedata.category(one) in ("Cc", "Cs"):
        return "?"
    return "-{}" if one == after == "-" else _SPECIAL.get(one, one)
