"""The API reference names every public name of farout and of the families' packages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import farout
from generate import expand
from generate.docstrings import rewritten

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: expand(page.read_text(encoding="utf-8")) for page in (DOCS / "reference" / "api").glob("*.md")}
FAMILIES = [page for page in PAGES if page != "index"]


def directives(page: str) -> list[str]:
    return re.findall(r"^::: ([\w.]+)$", PAGES[page], re.MULTILINE)


def test_every_public_name_of_farout_is_there() -> None:
    own = {name.removeprefix("farout.") for name in directives("index")}
    assert own | set(FAMILIES) == set(farout.__all__)
    assert not own & set(FAMILIES)
    assert all(f"[{family}]({family}.md)" in PAGES["index"] for family in FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_public_name_of_a_family_is_there(family: str) -> None:
    package = importlib.import_module(f"farout.{family}")
    names = [name.removeprefix(f"farout.{family}.") for name in directives(family)]
    assert names == [f"farout.{family}", *package.__all__]


def test_the_site_has_the_pages() -> None:
    listed = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"reference/api/{page}.md" in listed for page in PAGES)


def test_docstrings_become_lists_and_code() -> None:
    lists = "side, crop: pixels;\n    cut first.\nname: a name.\n\nNote: not a parameter."
    text = f'Return a set.\n\n{lists}\n\n    >>> load("toy")\n    ...'
    assert rewritten(text, {"side", "crop", "name"}).splitlines() == [
        "Return a set.",
        "",
        "",
        "- `side`, `crop`: pixels;",
        "    cut first.",
        "- `name`: a name.",
        "",
        "Note: not a parameter.",
        "",
        "```python",
        '>>> load("toy")',
        "...",
        "```",
    ]
