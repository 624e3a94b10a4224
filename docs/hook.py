"""Hooks of mkdocs: put generated parts into pages, and bring along the files of the repository that pages link to."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from generate import expand
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(\.\.?/[^)#\s]+)(?=[)#])")
"""Relative link that goes up or down from the page's folder."""


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside of docs that pages link to: examples, studies, sources."""
    pages = files.documentation_pages()
    for path in sorted({path for page in pages for _, path in _outside(page.content_string, page.src_uri)}):
        files.append(File.generated(config, _copy(path), content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its generated parts, and with links to the copies of files outside of docs."""
    for link, path in _outside(markdown, page.file.src_uri):
        here = posixpath.dirname(page.file.src_uri)
        markdown = markdown.replace(f"]({link}", f"]({posixpath.relpath(_copy(path), here or '.')}")
    return expand(markdown)


def _outside(text: str, page: str) -> Iterator[tuple[str, str]]:
    """Yield the links of a page that lead out of docs, and the paths that they lead to from the repository's root."""
    for link in dict.fromkeys(LINK.findall(text)):
        path = os.path.normpath(PurePosixPath("docs", page).parent / link)
        if not path.startswith("docs"):
            yield link, Path(path).as_posix()


def _copy(path: str) -> str:
    """Return the path of a file's copy in the site; as .txt, which every browser shows."""
    return f"files/{path}.txt"
