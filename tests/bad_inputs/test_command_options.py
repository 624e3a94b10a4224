"""Commands with wrong, missing or conflicting options: one clear error each, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.command_line import refused
from helpers.written_runs import lenet_weights

OUT = ("--out", "w.safetensors")
STUDY = (
    "inliers: {test: {name: toy, limit: 8}}\noutliers: [noise]\ndetectors: [{name: function, of: 'mine.py:score'}]\n"
)
COMMANDS: dict[str, str] = {
    # Training
    "train": "Missing argument|Missing option",
    "train none --data toy --out w.safetensors": "unknown",
    "train msp --data toy --out w.safetensors": "msp",
    "train ae --data none --out w.safetensors": "unknown data set 'none'",
    "train ae --data toy --out w.pt": ".safetensors",
    "train ae --data toy --out .": ".safetensors|folder",
    "train ae --data toy --out a.txt/w.safetensors": "a.txt",
    "train ae --data toy --out w.safetensors --preset none": "preset",
    "train ae --data toy --out w.safetensors --set width": "--set takes NAME=VALUE",
    "train ae --data toy --out w.safetensors --set width=0": "width",
    "train ae --data toy --out w.safetensors --set width=x": "width",
    "train ae --data toy --out w.safetensors --set none=1": "none",
    "train ae --data toy --out w.safetensors --set epochs=0": "epochs",
    "train ae --data toy --out w.safetensors --set lr=-1": "lr",
    "train ae --data toy --out w.safetensors --set lr=[": "--set",
    "train ae --data toy --out w.safetensors --val none": "none",
    "train ae --data toy --out w.safetensors --limit 0": "limit",
    "train ae --data toy --out w.safetensors --seed -1": "seed",
    "train ae --data toy --out w.safetensors --device none": "none",
    "train ae --data toy --out w.safetensors --option side=9": "ae takes square images",
    "train ae --data toy --out w.safetensors --option none=1": "none",
    "train ae --data toy --out w.safetensors --outliers noise": "outliers",
    "train oe --data toy --out w.safetensors": "outliers",
    "train oe --data toy --out w.safetensors --outliers none": "none",
    "train lenet --data noise --out w.safetensors": "split of 'noise'",
    "train lenet --data toy --out w.safetensors --preset none": "preset|recipe|none",
    # Published checkpoints
    "import oe none.pt --out w.safetensors": "none.pt",
    "import oe a.txt --out w.safetensors": "a.txt",
    "import none a.txt --out w.safetensors": "unknown",
    "import ae lenet.safetensors --out w.safetensors": "no published checkpoint|ae",
    "import oe lenet.safetensors --out w.pt": ".safetensors",
    "import oe lenet.safetensors --out w.safetensors": "oe|lenet.safetensors",
    "import oe lenet.safetensors --out w.safetensors --set none=1": "none",
    # Generated sets
    "generate none --data toy --out g": "is not one of",
    "generate near_ood --data none --out g": "none",
    "generate near_ood --data toy --out a.txt": "a.txt",
    "generate near_ood --data toy --out g --count 0": "count",
    "generate near_ood --data toy --out g --set none=1": "none",
    "generate near_ood --data toy --out g --budget none": "none",
    # Runs and reports
    "run study.yaml --workers -1": "workers",
    "run study.yaml --timeout 0": "timeout",
    "run study.yaml --timeout x": "timeout",
    "run study.yaml --plugin mine.py --without none": "none",
    "run study.yaml --plugin mine.py --engine none": "none",
    "run study.yaml --plugin mine.py --dry-run": "--engine slurm",
    "run study.yaml --plugin mine.py --partition a": "slurm|partition",
    "run study.yaml --plugin mine.py --address a:1": "ray|address",
    "run study.yaml": "--plugin",
    "run study.yaml --plugin mine.py --plugin a.txt": "a.txt",
    "plan study.yaml --budget none": "none",
    "report none": "none",
    "report . --export none": "none|plan.json|no run",
    "report . --export huggingface": "--hub-dataset",
    "report . --hub-dataset a/b": "huggingface",
    "compare none none": "none",
    "compare . .": "plan.json|no run|holds",
    "view none --port 0": "none",
    "view . --port 99999999": "port",
    "view . --port x": "port",
    "work none": "none|Missing",
    # Leaderboard
    "leaderboard none": "none",
    "leaderboard pack none --out s": "none",
    "leaderboard pack . --out s": "plan.json|no run|holds",
    "leaderboard check none": "none",
    "leaderboard check .": "submission|.json",
    "leaderboard rerun none": "none",
    "leaderboard rerun . --sample 0": "sample",
    "leaderboard build none --out site": "none",
    # Checks, lists, rendered and corrupted sets
    "check mine.py": "file.py:Name",
    "check mine.py:none": "none",
    "check mine.py:NUMBER": "expected a farout.Detector",
    "check msp --data none": "none",
    "list detectors none": "unknown detector",
    "list none": "none",
    "list detectors --plugin a.txt": "a.txt",
    "render shapes --out r --side x": "side",
    "corrupt toy --out q --shift fog --set none=1": "none",
    "corrupt toy --out q --severity 0": "severity",
    "corrupt toy --out q --split none": "split",
    "corrupt toy --out q --option side=3": "side",
}
"""Words, one of which the error must hold, by command line."""


@pytest.mark.parametrize("line", COMMANDS)
def test_a_wrong_command_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "mine.py").write_text("NUMBER = 3\ndef score(images): return images.mean((1, 2, 3))\n")
    (tmp_path / "study.yaml").write_text(STUDY)
    lenet_weights(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    said = refused(*line.split())
    assert any(word in said for word in COMMANDS[line].split("|")), said
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == before
