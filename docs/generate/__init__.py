"""Parts of the documentation that are generated from the code: study keys, commands, components, budgets, API.

A page names such a part in a line of its own, `{{ part }}` or `{{ part argument }}`; `docs/hook.py` puts the generated
Markdown in its place when the site is built (`make docs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from generate import api, budgets, commands, components, studies

PARTS: dict[str, Callable[..., str]] = {
    "study": studies.study,
    "protocol": studies.protocol,
    "commands": commands.commands,
    "components": components.components,
    "budgets": budgets.budgets,
    "api": api.api,
}
"""Functions that return the Markdown of a part, by name."""
LINE = re.compile(r"^\{\{ (\w+)((?: [\w.]+)*) \}\}$", re.MULTILINE)


def expand(text: str) -> str:
    """Return the text of a page with all generated parts in place."""
    return LINE.sub(lambda match: PARTS[match[1]](*match[2].split()), text)
