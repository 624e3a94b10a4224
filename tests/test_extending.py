"""The examples of docs/extending.md are complete: every code block is written to its file, every command runs."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]}
EXAMPLES = [title for title, text in SECTIONS.items() if "```console" in text]


def blocks(text: str) -> dict[str, str]:
    """Return the files of a section by name."""
    return dict(re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', text, flags=re.MULTILINE | re.DOTALL))


def commands(text: str) -> list[list[str]]:
    """Return the commands of a section, with this interpreter in place of `farout` and `python`."""
    (console,) = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    programs = {"farout": [sys.executable, "-m", "farout"], "python": [sys.executable]}
    split = [line.split() for line in console.splitlines()]
    return [programs[words[0]] + words[1:] for words in split]


def run(title: str, folder: Path) -> str:
    """Run the example of a section; return what its commands printed."""
    for name, content in blocks(SECTIONS[title]).items():
        (folder / name).write_text(content, encoding="utf-8")
    printed = ""
    for command in commands(SECTIONS[title]):
        workers = ["--workers", "0"] if "run" in command else []
        done = subprocess.run([*command, *workers], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return printed


def table(folder: Path, study: str, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / "runs" / study / "tables" / f"{name}.csv")


def test_every_kind_of_extension_has_an_example():
    kinds = "post-hoc detector, trained detector, corruption, search, attack, protocol, generator, engine"
    assert {re.sub("^An? ", "", title) for title in EXAMPLES} == set(kinds.split(", "))


def aurocs(title: str, folder: Path) -> pd.Series:
    """Run the example of a section, and return the AUROC of every detector."""
    run(title, folder)
    (study,) = (path.stem for path in folder.glob("*.yaml"))
    found = table(folder, study, "clean").set_index("detector")["auroc"]
    assert len(found) == 2
    assert found.between(0, 1).all()
    return found


@pytest.mark.slow
def test_post_hoc_detector(tmp_path):
    first, second = aurocs("A post-hoc detector", tmp_path)
    assert abs(first - second) < 0.1  # with a linear last layer, the gap ranks nearly as the softmax does


@pytest.mark.slow
def test_trained_detector(tmp_path):
    """Its weights are drawn from torch's global generator, which the study seeds: two runs are equal, byte for byte."""
    title = "A trained detector"
    aurocs(title, tmp_path)
    again = [*commands(SECTIONS[title])[0], "--workers", "0", "--out", "again"]
    subprocess.run(again, cwd=tmp_path, check=True)
    folders = tmp_path / "runs" / "blur", tmp_path / "again"
    first, second = ({file.parent.name: file.read_bytes() for file in path.rglob("*.parquet")} for path in folders)
    assert len(first) > 2
    assert first == second


@pytest.mark.slow
def test_corruption(tmp_path):
    run("A corruption", tmp_path)
    (line,) = table(tmp_path, "stripes", "rood_shifts").to_dict("records")
    assert line["shift"] == "stripes"


@pytest.mark.slow
def test_search(tmp_path):
    run("A search", tmp_path)
    (line,) = table(tmp_path, "halving", "evg").to_dict("records")
    assert line["method"] == "halving"
    assert line["auroc"] <= line["auroc_clean"]


@pytest.mark.slow
def test_attack(tmp_path):
    run("An attack", tmp_path)
    (line,) = table(tmp_path, "salt", "evasion_success").to_dict("records")
    assert line["attack"] == "salt"


@pytest.mark.slow
def test_protocol(tmp_path):
    run("A protocol", tmp_path)
    assert len(table(tmp_path, "halves", "halves")) == 2


@pytest.mark.slow
def test_generator(tmp_path):
    printed = run("A generator", tmp_path)
    assert 0 < float(printed.split("darkest mixture:")[1]) < 1


@pytest.mark.slow
def test_engine(tmp_path):
    printed = run("An engine", tmp_path)
    assert int(re.search(r"(\d+) tasks computed", printed)[1]) > 3
    assert len(table(tmp_path, "counting", "clean")) == 1
