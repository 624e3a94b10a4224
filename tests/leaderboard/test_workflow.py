"""The example workflow: it can be read, asks for few rights, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from helpers.command_line import farout

FOLDER = Path(__file__).parents[2] / "examples" / "leaderboard"
TEXT = (FOLDER / ".github" / "workflows" / "leaderboard.yml").read_text()


def test_a_pull_request_gets_no_rights() -> None:
    workflow = yaml.safe_load(TEXT)
    triggers = workflow[True]  # YAML 1.1 reads the key on: as a boolean
    assert set(triggers) == {"pull_request", "push"}
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["check"]
    for job in workflow["jobs"].values():
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout")]
        assert [step["with"]["persist-credentials"] for step in checkouts] == [False]
        assert all("${{" not in step.get("run", "") for step in job["steps"])  # no name of a branch or folder in code


def test_commands_and_options_exist() -> None:
    commands = re.findall(r"farout leaderboard (\w+)((?:\\\n|[^\n])*)", TEXT)
    assert {verb for verb, _ in commands} == {"check", "build"}
    for verb, rest in commands:
        page = farout("leaderboard", verb, "--help").out
        options = re.findall(r"--[a-z]+", rest)
        assert options
        assert all(option in page for option in options)


def test_help_gives_examples() -> None:
    for verb in ("pack", "check", "rerun", "build"):
        assert f"Example: farout leaderboard {verb}" in " ".join(farout("leaderboard", verb, "--help").out.split())
