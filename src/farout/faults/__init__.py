"""Faults: a study is killed, stopped, damaged and starved of disk space, continued by the same command, and compared,
byte for byte, with a run that was left alone."""

from farout.faults.bench import Bench
from farout.faults.fault import Fault, Verdict
from farout.faults.series import FAULTS, MACHINE, run_series
from farout.faults.stopped import stopped_worker
from farout.faults.studies import toy_study

__all__ = ["FAULTS", "MACHINE", "Bench", "Fault", "Verdict", "run_series", "stopped_worker", "toy_study"]
