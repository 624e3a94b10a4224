"""Export for the Hugging Face Hub: evaluation results for model repositories, and the card of a score data set.

Results are entries of `.eval_results/*.yaml` as the Hub documents them in docs/hub/eval-results.md (June 2026):
`dataset` with `id` and `task_id`, `value`, `date`, `source` and `notes`. Nothing is sent anywhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from farout.files import make_folder, write_text
from farout.report.content import Condition, Document, Mean, Overview, Subject
from farout.report.content.numbers import with_interval

OWN = "own_network"
"""Folder of detectors that read images themselves."""
SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B")
"""The Hub's size categories, by powers of ten from a thousand on."""


def check_repository(name: str) -> str:
    """Return the name of a data set repository. Raise ValueError unless it has the form OWNER/NAME."""
    part = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
    if not re.fullmatch(rf"{part}/{part}", name) or "--" in name or ".." in name:
        raise ValueError(
            f"--hub-dataset takes OWNER/NAME as on the Hugging Face Hub, such as me/cifar10-stress, got {name!r}"
        )
    return name


def write_results(document: Document, folder: Path, repository: str, date: str) -> list[Path]:
    """Write the AUROC of every detector to `folder/NETWORK/.eval_results/DETECTOR.yaml`; return the paths.

    A network's folder has the layout of its model repository. repository: OWNER/NAME of the score data set, which the
    results link to. date: day of the evaluation, YYYY-MM-DD.
    """
    overview, paths = document.overview, []
    tasks = unique(f"{one.protocol}_{one.name}" for one in overview.conditions)
    networks = dict(zip(overview.networks, unique(name or OWN for name in overview.networks), strict=True))
    names = unique(f"{subject.network}/{subject.detector}" for subject in overview.subjects)
    for subject, name in zip(overview.subjects, names, strict=True):
        entries = [
            _entry(document, subject, condition, mean, repository, tasks[overview.conditions.index(condition)], date)
            for condition, mean in overview.of(subject)
        ]
        results = make_folder(folder / networks[subject.network] / ".eval_results", folder)
        paths.append(results / f"{name}.yaml")
        write_text(paths[-1], _yaml(entries), folder)
    return paths


def _entry(
    document: Document, subject: Subject, condition: Condition, mean: Mean, repository: str, task: str, date: str
) -> dict[str, Any]:
    network = f" on {subject.network}" if subject.network else ""
    return {
        "dataset": {"id": repository, "task_id": task},
        "value": mean.value,
        "date": date,
        "source": {"url": f"https://huggingface.co/datasets/{repository}", "name": "per-image scores"},
        "notes": f"AUROC {with_interval(*mean.interval)} of the detector {subject.detector}{network} "
        f"{condition.stress.about}; farout, budget {document.budget}",
    }


def write_card(document: Document, folder: Path, configs: Mapping[str, tuple[str, int]]) -> Path:
    """Write README.md with the data card of a score data set and return its path.

    configs: path within the folder and number of lines of every Parquet file, by name; the first is shown first.
    """
    lines = sum(number for _, number in configs.values())
    head = {
        "pretty_name": f"farout scores: {document.name}",
        "tags": ["out-of-distribution-detection", "farout"],
        "size_categories": [SIZES[min(max(len(str(lines)) - 3, 0), len(SIZES) - 1)]],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": path}]}
            | ({"default": True} if first else {})
            for first, (name, (path, _)) in zip([True, *[False] * len(configs)], configs.items(), strict=False)
        ],
    }
    rows = "\n".join(f"| {name} | {path} | {number:,} |" for name, (path, number) in configs.items())
    text = CARD.format(
        head=_yaml(head), name=_markdown(document.name), budget=_markdown(document.budget), rows=rows,
        table=_overview(document.overview),
    )  # fmt: skip
    write_text(folder / "README.md", text, folder)
    return folder / "README.md"


CARD = """---
{head}---

# Scores of {name}

Per-image scores of out-of-distribution detectors, and the tables computed from them, written by farout (budget
{budget}). A larger score means a more outlying image.

| configuration | file | lines |
|---|---|---|
{rows}

In `scores_…`, a line is one image scored by one detector: `network`, `seed`, `detector`, the tags of the stress,
`index` (the image's place in its own set), `score`, `label` and known attributes of the image. An empty `outliers`
marks inliers, unless a column such as `shift`, `attack` or `variation` says what was done to them.

## AUROC of all detectors under all stresses

{table}
"""


def _overview(overview: Overview) -> str:
    names = ["detector", *(f"{one.protocol}: {one.name}" for one in overview.conditions)]
    lines = [names, ["---"] * len(names)]
    for subject in overview.subjects:
        means = (one.means.get(subject) for one in overview.conditions)
        lines.append([overview.label(subject), *(with_interval(*mean.interval) if mean else "–" for mean in means)])
    escaped = [lines[0], *lines[2:]]
    rows = [[_markdown(cell) for cell in line] for line in escaped]
    return "\n".join(f"| {' | '.join(line)} |" for line in [rows[0], lines[1], *rows[1:]])


def _markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    line = re.sub(r"([\\`*_{}\[\]()#+!|~$:@])", r"\\\1", " ".join(text.split()))
    return html.escape(line, quote=False)


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return text


def unique(names: Iterable[str]) -> list[str]:
    """Return a plain name for every name, of letters, digits, '-' and '_', no two of which are equal."""
    taken: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:80] or "unnamed"
        several = (f"{plain}-{number}" for number in count(2))
        lower = [one.lower() for one in taken]  # some file systems do not tell capitals from small letters
        taken.append(plain if plain.lower() not in lower else next(one for one in several if one.lower() not in lower))
    return taken
