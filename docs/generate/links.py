"""Links from pages to files of the repository outside of docs: examples, studies and sources, which the site copies."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()(\.\.?/[^)#\s]+)(?=[)#])")


def outside(text: str, page: str) -> Iterator[tuple[str, str]]:
    """Yield the links of a page that lead out of docs, and the paths that they lead to from the repository's root.

    page: its path from docs.
    """
    for link in dict.fromkeys(LINK.findall(text)):
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
        if not path.startswith("docs/"):
            yield link, path


def copied(path: str) -> str:
    """Return the path of a file's copy in the site: as .txt, which every browser shows."""
    return f"files/{path}.txt"


def redirected(text: str, page: str) -> str:
    """Return the text of a page with links to the copies of files outside of docs."""
    for link, path in outside(text, page):
        text = text.replace(f"]({link}", f"]({os.path.relpath(copied(path), posixpath.dirname(page) or '.')}")
    return text
