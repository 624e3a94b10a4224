"""Slurm cluster of two nodes on this machine, in a temporary folder: munged, slurmctld, and a slurmd per node.

From a shell: `python tests/helpers/slurm_cluster.py FOLDER` starts one and prints the variable that its commands need;
Ctrl-C stops it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
NODES = ("node1", "node2")
CONF = """
ClusterName=farout
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=1
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
KillWait=10
SlurmdTimeout=30
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def why_not() -> str:
    """Return why no cluster can be started here; empty if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: slurm-wlm and munge)"
    return "" if os.geteuid() == 0 else "needs root, to start jobs as slurmd does"


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start a cluster; yield the environment that the commands of Slurm need."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(exist_ok=True)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname().partition(".")[0], folder=folder, ports=_free_ports(3)))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    env = {**os.environ, "SLURM_CONF": str(conf), "PATH": SEARCHED}
    files = {name: folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
    munge = [f"--{name}{'' if name in ('socket',) else '-file'}={path}" for name, path in files.items()]
    with ExitStack() as stack:
        stack.enter_context(_program(env, "munged", "--foreground", "--force", f"--key-file={key}", *munge))
        _wait_for(files["socket"].exists, folder)
        stack.enter_context(_program(env, "slurmctld", "-D", "-i"))
        for node in NODES:
            stack.enter_context(_program(env, "slurmd", "-D", "-N", node))
        _wait_for(lambda: _idle(env) == len(NODES), folder)
        yield env


def _idle(env: dict[str, str]) -> int:
    done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=env, capture_output=True, text=True, check=False)
    return done.stdout.split().count("idle")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def _program(env: dict[str, str], name: str, *arguments: str) -> Iterator[None]:
    with Path(env["SLURM_CONF"]).with_name(f"{name}.out").open("ab") as out:
        process = subprocess.Popen([name, *arguments], env=env, stdout=out, stderr=out, executable=_path(name))
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _path(name: str) -> str:
    path = shutil.which(name, path=SEARCHED)
    assert path is not None
    return path


def _wait_for(ready: object, folder: Path, seconds: float = 60) -> None:
    assert callable(ready)
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            logs = "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(folder.glob("*.[lo]*")))
            raise RuntimeError(f"the Slurm cluster has not started within {seconds:g} s\n{logs}")
        time.sleep(0.2)


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    with cluster(Path(sys.argv[1]).absolute()) as environment:
        print(f"export SLURM_CONF={environment['SLURM_CONF']}", flush=True)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
