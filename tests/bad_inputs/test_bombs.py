"""Small inputs do not take gigabytes or minutes; each error says the limit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.bombs import BOMBS

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limits on memory here")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Outcome of every bomb, in a process of limited memory."""
    script = Path(__file__).parents[1] / "helpers" / "bombs.py"
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path_factory.mktemp("bombs"))],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_one_clear_error(said: dict[str, str], bomb: str) -> None:
    kind, _, text = said[bomb].partition(": ")
    assert kind in ("ValueError", "Unreadable", "UnsafePath"), said[bomb][:500]
    assert re.search(BOMBS[bomb][1], text, re.DOTALL), text[:500]
