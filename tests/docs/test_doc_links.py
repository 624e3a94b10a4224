"""Links between pages lead to files and headings that exist, in the repository as in the site."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest
import yaml

from generate import expand
from generate.links import copied, outside, redirected

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@cache
def expanded(page: Path) -> str:
    """Return the text of a page with its generated parts."""
    return expand(page.read_text(encoding="utf-8"))


def link_targets(text: str) -> list[str]:
    """Return the targets of all relative links and pictures, those in code left out."""
    plain = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)
    return [one for one in re.findall(r"\]\(([^)\s]+)\)", plain) if "://" not in one]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, its generated parts included."""
    plain = re.sub(r"^```.*?^```", "", expanded(page), flags=re.MULTILINE | re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", plain, re.MULTILINE)}


def slug(heading: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_resolves(page: Path) -> None:
    for target in link_targets(expanded(page)):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


def test_links_are_found_and_dead_ones_noticed() -> None:
    text = "[a](x.md#y) `[not](code.md)` [b](https://host/z)\n```\n[c](c.md)\n```\n![d](d.png)"
    assert link_targets(text) == ["x.md#y", "d.png"]
    assert slug("evg: the worst case, 95 % (ROC)") == "evg-the-worst-case-95-roc"
    assert "budgets" in anchors(DOCS / "studies.md")
    assert "no-such-heading" not in anchors(DOCS / "studies.md")


def test_every_page_is_in_the_navigation_once() -> None:
    lines = re.findall(
        r"^ +- (?:[^:\n]+: )?([\w/.]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(lines) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_files_outside_of_docs_are_copied_into_the_site() -> None:
    text = "[one](../../studies/evg_fig2.yaml) and [page](../studies.md), [two](../../examples/own_parts.py)"
    page = "protocols/evg.md"
    assert [path for _, path in outside(text, page)] == ["studies/evg_fig2.yaml", "examples/own_parts.py"]
    assert copied("studies/evg_fig2.yaml") == "files/studies/evg_fig2.yaml.txt"
    assert redirected(text, page) == (
        "[one](../files/studies/evg_fig2.yaml.txt) and [page](../studies.md), [two](../files/examples/own_parts.py.txt)"
    )


def test_every_study_is_explained() -> None:
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    studies = {path.name for path in (ROOT / "studies").glob("*.yaml")}
    assert set(re.findall(r"\(\.\./studies/(\w+\.yaml)\)", text)) == studies


def test_every_protocol_has_a_page_with_its_differences() -> None:
    for name in ("evg", "rood", "raised_bar", "attributes", "evasion"):
        text = (DOCS / "protocols" / f"{name}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert {"What the figures mean", "Differences from the paper"} <= set(headings)
        assert f"{{{{ protocol {name} }}}}" in text


def test_the_readme_is_short_and_has_the_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert "make demo " in text
    assert "make test " in text


def test_the_site_asks_no_other_host() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = yaml.safe_load(config)
    assert settings["theme"]["font"] is False
    assert settings["extra"]["polyfills"] == ["iframe-worker.js"]
    assert "http" not in config
