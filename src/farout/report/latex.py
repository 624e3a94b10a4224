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
_MATH_CHARACTERS = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ∞≈≠√∈∪∂∇←"
_MATH_COMMANDS = (
    r"\alpha\beta\gamma\delta\varepsilon\zeta\eta\theta\iota\kappa\lambda\mu\nu\xi\pi\rho\sigma\tau\upsilon\varphi\chi"
    r"\psi\omega\Gamma\Delta\Theta\Lambda\Xi\Pi\Sigma\Upsilon\Phi\Psi\Omega\infty\approx\neq\surd\in\cup\partial\nabla\gets"
)
_MATH = dict(zip(_MATH_CHARACTERS, re.findall(r"\\[A-Za-z]+", _MATH_COMMANDS), strict=True))
"""Commands of mathematical characters."""

_FITS = 85
"""Number of characters of a line of print; wider tables are shrunk to it."""
_ROWS = 30
"""Number of rows that fit on a page below a long caption."""
_CONTINUED = r"\addtocounter{table}{-1}\caption[]{TITLE, continued.}"
"""Caption of the parts after the first, which have the same number."""
_SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
"""Start of a box that is as wide as its content, and at most as the line."""


def latex(table: Table) -> str:
    """Return a booktabs table: the best in bold, those tied with it underlined, small p-values as powers of ten.

    A table wider than a line of print is shrunk to the line, one longer than a page is continued on the next.
    """
    columns = readable(table)
    names = [table.columns[column] for column in columns]
    cells = [
        [_cell(column, *cell) for cell in zip(values, marks_of(table, column), strict=True)]
        for column, values in columns.items()
    ]
    rows = [_row(list(line)) for line in zip(*cells, strict=True)]
    wide = sum(_width(name, values) for name, values in zip(names, columns.values(), strict=True)) > _FITS
    head = [
        rf"\begin{{tabular}}{{{'l' * len(names)}}}",
        r"\toprule",
        _row([_escape(name) for name in names]),
        r"\midrule",
    ]
    starts = range(0, max(len(rows), 1), _ROWS)
    bodies = [[*head, *rows[start : start + _ROWS], r"\bottomrule", r"\end{tabular}"] for start in starts]
    shown = [_shrunk(body) if wide else body for body in bodies]
    captions = [_caption(table), *[_CONTINUED.replace("TITLE", _escape(table.title))] * (len(shown) - 1)]
    parts = [_float(caption, body) for caption, body in zip(captions, shown, strict=True)]
    return "\n".join([*(line for part in parts for line in part), ""])


def _caption(table: Table) -> str:
    """Return the caption and the label, whose command must follow it."""
    text = " ".join(filter(None, (f"{table.title}.", table.caption, legend(table))))
    return f"\\caption{{{_escape(text)}}}\n\\label{{tab:{re.sub('[^A-Za-z0-9_-]+', '-', table.name)}}}"


def _float(caption: str, body: list[str]) -> list[str]:
    return [r"\begin{table}", r"\centering", caption, *body, r"\end{table}"]


def _shrunk(body: list[str]) -> list[str]:
    return [_SHRUNK + body[0], *body[1:-1], body[-1] + "}"]


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
    if one in _MATH:
        return f"${_MATH[one]}$"
    return "-{}" if one == after == "-" else _SPECIAL.get(one, one)
