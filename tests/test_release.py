"""Version, package data, citation, change log and workflow agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import farout

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PACKAGE = ROOT / "src" / "farout"


def test_the_version_is_written_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "farout.__version__"}
    assert CITATION["version"] == farout.__version__


def test_the_change_log_is_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.findall(r"^## (.+)$", text, re.MULTILINE)[0]
    assert first in ("Unreleased", f"{farout.__version__} — {CITATION['date-released'].isoformat()}")


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["farout"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    others = (
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    )
    assert set(others) == packaged
    assert PACKAGE / "report" / "page.css" in packaged


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_citation_has_the_papers_of_the_protocols() -> None:
    papers = {re.search(r"[Pp]rotocol (\w+)", paper["notes"])[1]: paper for paper in CITATION["references"]}  # type: ignore[index]
    assert set(papers) == {"evg", "rood", "raised_bar", "attributes", "evasion"}
    studies = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "studies").glob("*.yaml"))
    words = " ".join(studies.replace("#", " ").split())
    assert [paper["title"] for paper in papers.values() if paper["title"] not in words] == []
    assert all(paper["authors"] and paper["year"] in range(2022, 2025) for paper in papers.values())


def test_the_workflow_runs_the_checks_on_every_python_that_is_promised() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == promised == ["3.11", "3.12", "3.13"]
    assert {"run": ".ci/run"} in jobs["test"]["steps"]
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"
