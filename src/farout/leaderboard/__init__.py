"""Leaderboard of submitted runs: every figure on it is computed from the per-image scores that a submission holds.

submission.py  layout of a submission: a manifest, the plan, the records with the scores, the report
portable.py    the study without paths of the submitter's machine
pack.py        makes a submission of a run
declared.py    image sets and networks that are described, but not on this machine
derive.py      the plan that a study has, worked out again from the study
checks/        what `check` compares, one file per part of a submission
check.py       all checks of a submission
rerun.py       scores of drawn images, computed again from weights and data
build.py       the site
"""

from farout.leaderboard.build import build
from farout.leaderboard.check import Checked, check
from farout.leaderboard.pack import pack
from farout.leaderboard.rerun import Rerun, rerun

__all__ = ["Checked", "Rerun", "build", "check", "pack", "rerun"]
