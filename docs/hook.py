"""Hooks of mkdocs: put generated parts into pages, and bring along the files of the repository that pages link to."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File

from generate import expand
from generate.links import ROOT, copied, outside, redirected


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside of docs that pages link to: examples, studies, sources."""
    pages = files.documentation_pages()
    for path in sorted({path for page in pages for _, path in outside(page.content_string, page.src_uri)}):
        files.append(File.generated(config, copied(path), content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its generated parts, and with links to the copies of files outside of docs."""
    return expand(redirected(markdown, page.file.src_uri))
