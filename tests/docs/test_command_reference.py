"""The reference of the command line has every verb, argument and option that the program has."""

from __future__ import annotations

import re

import pytest
import typer

from farout.cli import app
from generate.commands import commands, verbs

SECTIONS = {part.split("\n", 1)[0]: part for part in commands().split("## ")[1:]}
GROUP = typer.main.get_group(app)


def test_every_verb_has_a_section() -> None:
    assert set(SECTIONS) == {path for path, _ in verbs()}
    assert {path.split()[1] for path in SECTIONS} == set(GROUP.commands)


@pytest.mark.parametrize("name", [name for name, verb in GROUP.commands.items() if not hasattr(verb, "commands")])
def test_every_option_is_that_of_the_program(name: str) -> None:
    options = {option for one in GROUP.commands[name].params for option in one.opts if option.startswith("--")}
    assert set(re.findall(r"^\| `(--[\w-]+)", SECTIONS[f"farout {name}"], re.MULTILINE)) == options


def test_values_choices_and_defaults() -> None:
    run = SECTIONS["farout run"]
    assert "```console\nfarout run STUDY [OPTIONS]\n```" in run
    assert "| `STUDY` | The study, a YAML file. |" in run
    assert "| `--budget quick\\|standard\\|full` |" in run
    assert "Worker processes of one core each; 0 = none. Default: `one per core or GPU`. |" in run
    assert "| `--quiet` | Show no progress. |" in run
    assert "| `--out PATH` | Folder for the shifted images. Required. |" in SECTIONS["farout corrupt"]
    assert "```console\nfarout list FAMILY [NAME] [OPTIONS]\n```" in SECTIONS["farout list"]


def test_the_examples_are_one_command_per_line() -> None:
    corrupt = re.findall(r"^farout corrupt .*", SECTIONS["farout corrupt"], re.MULTILINE)[1:]
    assert len(corrupt) == 3
    assert not [line for line in corrupt if ";" in line]


def test_the_markup_of_help_texts_is_gone() -> None:
    assert "[bold]" not in commands()
    assert "Start with farout demo;" in commands()
