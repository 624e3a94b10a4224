"""Detectors that misbehave in every way we know fail by name; the sound one's results are there all the same."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farout.networks import create, save_weights
from helpers.misbehaving import ENDING, PLUGIN, POST_HOC, REASONS, STUDY, results, run


def children(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == folder.resolve():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
def test_on_two_workers_every_bad_detector_fails_by_name_and_the_sound_one_is_there(tmp_path):
    names = [*REASONS, "thread", "sound"]
    ended = run(tmp_path, names, "--workers", "2", "--timeout", "6")
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"sound": 2, "thread": 2}
    assert failed.keys() == REASONS.keys()
    for name, why in REASONS.items():
        assert re.search(why, failed[name]), failed[name]
        assert name in ended.stdout + ended.stderr
    assert not children(tmp_path)
    assert not list((tmp_path / "run" / "running").iterdir())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_without_workers_the_same_for_all_that_do_not_end_the_process(tmp_path):
    names = [name for name in REASONS if name not in ENDING] + ["thread", "sound"]
    ended = run(tmp_path, names, "--workers", "0", "--timeout", "6")
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"sound": 2, "thread": 2}
    assert failed.keys() == REASONS.keys() - ENDING
    for name in failed:
        assert re.search(REASONS[name], failed[name]), failed[name]
    assert "left by a detector" in ended.stderr  # and yet the process has ended


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
def test_a_detector_that_ends_the_process_is_named_by_the_next_run_and_can_be_left_out(tmp_path):
    first = run(tmp_path, ["quits", "sound"], "--workers", "0")
    assert first.returncode == 0  # the detector's own exit code: nobody was left to say another
    assert "results computed" not in first.stdout
    second = run(tmp_path, ["quits", "sound"], "--workers", "0")
    assert re.search("crashed or was killed while it computed: score toy by quits", second.stderr)
    assert results(tmp_path)[0] == {"sound": 2}  # computed before the suspect is tried again
    third = run(tmp_path, ["quits", "sound"], "--workers", "0", "--without", "quits")
    assert third.returncode == 0, third.stderr
    assert "0 failed" in third.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_post_hoc_detectors_that_misbehave_fail_alone_in_the_pass_they_share(tmp_path, workers):
    save_weights(create("lenet", 4, 32), tmp_path / "lenet.safetensors")
    bad = ["copied", "words", "frames", "locked"]
    (tmp_path / "study.yaml").write_text(
        STUDY.replace("NAMES", ", ".join([*bad, "elsewhere", "msp"]))
        + "networks: [{name: lenet, weights: lenet.safetensors}]\n"
    )
    (tmp_path / "mine.py").write_text(POST_HOC)
    command = [sys.executable, "-m", "farout", "run", "study.yaml", "--out", "run", "--plugin", "mine.py"]
    ended = subprocess.run([*command, "--workers", workers], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    done, failed = results(tmp_path)
    assert done == {"msp": 2, "elsewhere": 2}
    assert failed.keys() == set(bad)
    assert "surrogate" in failed["words"]
    assert "lock" in failed["locked"]


@pytest.mark.parametrize("moment", ["import", "__init__"])
def test_a_file_that_ends_the_program_is_an_error(tmp_path, moment):
    body = "import sys; sys.exit(0)" if moment == "import" else "import farout, sys"
    own = "class Mine(farout.Detector):\n    name = 'sound'\n    def __init__(self):\n        sys.exit(0)\n"
    (tmp_path / "mine.py").write_text(f"{body}\n" + ("" if moment == "import" else f"@farout.register\n{own}"))
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAMES", "sound"))
    command = [sys.executable, "-m", "farout", "plan", "study.yaml", "--plugin", "mine.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert re.match(r"error: .*ends the program with sys.exit\(0\) \(mine.py, line \d\)", ended.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals on this system")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_workers_start_leaves_no_process(tmp_path, number):
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAMES", "sound"))
    (tmp_path / "mine.py").write_text(PLUGIN)
    code = "import signal, farout.cli; signal.signal(signal.SIGINT, signal.default_int_handler); farout.cli.main()"
    options = ["run", "study.yaml", "--out", "run", "--plugin", "mine.py", "--workers", "4"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", code, *options], cwd=tmp_path, stdout=log, stderr=log)
        while len(children(tmp_path)) < 3 and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        assert process.wait(60) == 128 + number, (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()
    deadline = time.monotonic() + 10
    while children(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children(tmp_path)
