"""Stand-ins for sbatch, squeue, scancel and scontrol that keep their queue in a file.

The commands are real programs on the PATH. `step` runs the next task of the queue in this process, which takes a
fraction of the time of a new one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
PROGRAM = r"""#!{python} -IS
import json, re, sys
from pathlib import Path

folder = Path(__file__).parent.parent
queue = json.loads((folder / "queue.json").read_text())
name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps([name, *arguments]) + "\n")
if name == "sbatch":
    text = Path(arguments[-1]).read_text()
    if "--partition=nowhere" in text:
        sys.exit("sbatch: error: invalid partition specified: nowhere")
    given = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, re.M))
    job = str(1 + len(queue))
    count = 1 + int(given["array"].partition("-")[2])
    after = given.get("dependency", "afterany").split(":")[1:]
    queue[job] = dict(name=given["job-name"], script=arguments[-1], after=after, states=["PENDING"] * count)
    print(job)
elif name == "squeue":
    for job, one in queue.items():
        for index, state in enumerate(one["states"]):
            print(one["name"], index, job, state, "Resources" if state == "PENDING" else "None", sep="|")
elif name == "scancel":
    for job in arguments:
        states = queue[job]["states"]
        queue[job]["states"] = ["CANCELLED" if state in ("PENDING", "RUNNING") else state for state in states]
else:
    job, _, index = arguments[1].partition("_")
    queue[job]["states"][int(index)] = "PENDING"
(folder / "queue.json").write_text(json.dumps(queue))
"""
Run = Callable[[Path, int], int]
"""Runs a task, given the folder of its array and its number; returns the exit code."""

SEEN: list[int] = []
"""Numbers of images that the detector of a test was called with."""
ACTS: list[Callable[[int], object]] = []
"""Functions that it calls first, with the number of its calls."""


def score_probe(images: int) -> None:
    """Record a call of the detector of a test."""
    SEEN.append(images)
    for act in ACTS:
        act(len(SEEN))


class FakeSlurm:
    """Queue in a folder, with the commands in its folder `bin`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        for name in COMMANDS:
            program = folder / "bin" / name
            program.write_text(PROGRAM.replace("{python}", sys.executable))
            program.chmod(0o755)
        self.write({})
        self.order: list[str] = []
        """Tasks in the order in which they began."""

    def read(self) -> dict[str, Any]:
        queue: dict[str, Any] = json.loads((self.folder / "queue.json").read_text())
        return queue

    def write(self, queue: dict[str, Any]) -> None:
        (self.folder / "queue.json").write_text(json.dumps(queue))

    def calls(self, name: str) -> list[list[str]]:
        """Return the arguments of all calls of a command."""
        path = self.folder / "calls.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [arguments for command, *arguments in lines if command == name]

    def set(self, job: str, index: int, state: str) -> None:
        """Set the state of a task."""
        queue = self.read()
        queue[job]["states"][index] = state
        self.write(queue)

    def step(self, run: Run) -> None:
        """Run the first task that may begin."""
        for job, one in self.read().items():
            for index, state in enumerate(one["states"]):
                if state == "PENDING" and all(map(self._ended, one["after"])):
                    self._run(run, job, Path(one["script"]).parent, index)
                    return

    def _run(self, run: Run, job: str, folder: Path, index: int) -> None:
        self.order.append(f"{job}_{index}")
        self.set(job, index, "RUNNING")
        os.environ["SLURM_ARRAY_JOB_ID"] = job
        code = run(folder, index)
        if self.read()[job]["states"][index] == "RUNNING":  # else it was requeued or canceled
            self.set(job, index, "FAILED" if code else "COMPLETED")

    def _ended(self, name: str) -> bool:
        job, _, index = name.partition("_")
        states = self.read()[job]["states"]
        watched = [states[int(index)]] if index else states
        return not {"PENDING", "RUNNING"} & set(watched)
