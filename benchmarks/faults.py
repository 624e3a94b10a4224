"""All faults on a study that trains networks and a detector, fits, scores, searches and attacks: `make faults`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from farout.faults import FAULTS, MACHINE, Bench, Fault, run_series, stopped_worker
from farout.faults.report import JSON, TABLE, write_figures
from farout.faults.series import sentences
from farout.progress import shown

STUDY = """\
name: faults
budget: quick
inliers:
  train: {name: toy, split: train, limit: 200}
  val: {name: toy, split: val, limit: 60}
  test: {name: toy, limit: 100}
outliers: [{name: toy, split: test/ood_cls, limit: 100}]
networks: [{name: lenet, train: {epochs: 3, lr: 0.02}}, {name: resnet20, train: {epochs: 1, lr: 0.02}}]
detectors: [msp, knn, mds, gram, {name: ae, width: 4, training: {epochs: 3, batch: 32}}]
protocols:
- clean
- {name: evg, variations: [affine], chains: 32, steps: 20, control: false}
- {name: rood, images: 60, setups: {turned: [rot90]}}
- {name: evasion, attacks: [{name: pgd, steps: 3}], images: 60, adaptive_images: 8}
"""
EVERY = {**FAULTS, "stopped worker": Fault(stopped_worker(60), 0), **MACHINE}
COUNTS = {
    "kills": 102, "full disks": 20, "changed bytes": 204, "files cut off": 24, "stopped worker": 1, "two runs": 2,
    "clock set back": 2, "read-only store": 2,
}  # fmt: skip
"""Number of times that each fault is caused."""


def main() -> int:
    """Run the series; return 1 if something was lost, wrong or not named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/faults"), help="folder of the figures")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments, files and bytes")
    parser.add_argument("--only", nargs="*", default=list(COUNTS), choices=list(COUNTS), help="some of the faults")
    parser.add_argument("--times", type=int, help="how often each fault is caused, instead of the usual numbers")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="farout-faults-") as folder, shown():
        study = Path(folder) / "study.yaml"
        study.write_text(STUDY)
        times = {name: options.times or COUNTS[name] for name in options.only}
        for verdict in run_series(Bench(Path(folder), study), times, options.seed, EVERY):
            write_figures(options.out, [verdict], seed=options.seed)
            print("\n".join(sentences(verdict)), flush=True)
    print(f"wrote {options.out / TABLE} and {options.out / JSON}")
    return int(any(one["problems"] for one in json.loads((options.out / JSON).read_text())["faults"]))


if __name__ == "__main__":
    sys.exit(main())
