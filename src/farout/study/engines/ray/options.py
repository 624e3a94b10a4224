"""Options of the engine "ray"."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from farout.memory import parse_size
from farout.study.engines.executor import EngineOptions


@dataclass(frozen=True)
class RayOptions(EngineOptions):
    """Address of the cluster, and the resources that each task reserves."""

    address: str | None = None
    """Address of the cluster: "host:6379", "auto" for the one on this machine, "local" to start one; None = that of
    RAY_ADDRESS, or the one on this machine, or one that is started for the run."""
    cpus: float = 1.0
    """CPUs of a task. A task computes on one thread; more CPUs mean fewer tasks per node."""
    gpus: str | float | None = None
    """GPUs of a task, such as 1 or 0.25; None = 1 if the device is cuda, else 0."""
    memory: str | None = None
    """Memory of a task, such as "4GiB"; None = not reserved."""

    def __post_init__(self) -> None:
        if find_spec("ray") is None:
            raise ImportError('the engine "ray" needs Ray: pip install "farout[ray]"')
        if self.address is not None and self.address.startswith("ray://"):
            raise ValueError(
                f"address {self.address!r} is that of a Ray client, which cannot report progress: run farout on a node "
                'of the cluster with the address "auto", or submit it with `ray job submit`'
            )
        if not self.cpus > 0:
            raise ValueError(f"cpus must be greater than 0, got {self.cpus}")
        _ = self.gpu_count, self.memory_bytes  # raise for values that cannot be read

    @property
    def gpu_count(self) -> float | None:
        """GPUs of a task; None = by the device."""
        if self.gpus is None:
            return None
        try:
            count = float(self.gpus)
        except ValueError:
            count = -1.0
        if count < 0 or (count > 1 and count % 1):
            raise ValueError(f"gpus must be a whole number or a fraction of one, such as 1 or 0.25, got {self.gpus!r}")
        return count

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of memory of a task; None = not reserved."""
        if self.memory is None:
            return None
        return parse_size(self.memory)

    @property
    def machine(self) -> str:
        """Name of the nodes that measurements of time belong to."""
        resources = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
        return " ".join(["ray", *(f"{name}={value}" for name, value in resources.items() if value is not None)])

    def resources(self, device: str) -> dict[str, float]:
        """Return what each task reserves on its node, by Ray's names. device: type of the device."""
        gpus = self.gpu_count if self.gpu_count is not None else float(device == "cuda")
        needed = {"CPU": self.cpus, "GPU": gpus, "memory": self.memory_bytes or 0}
        return {name: amount for name, amount in needed.items() if amount}
