"""Freed memory that a process keeps, so that the next batch does not fault it in again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource
import torch
from farout.processes import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(1 << 24)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_freed_memory()
torch.ones(1 << 24)
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc returns freed memory to the system so early")
def test_later_batches_use_the_memory_of_earlier_ones() -> None:
    found = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    before, after = map(int, found.stdout.split())
    pages = 20 * (64 << 20) // 4096
    assert before > pages / 1024  # huge pages are 2 MiB at most
    assert after < before / 2
