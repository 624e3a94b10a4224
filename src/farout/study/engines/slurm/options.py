"""Options of the engine "slurm"."""

from __future__ import annotations

from dataclasses import dataclass

from farout.study.engines.executor import EngineOptions


@dataclass(frozen=True)
class SlurmOptions(EngineOptions):
    """Resources of an array task, and its planned length."""

    partition: str | None = None
    """Partition of the cluster; None = its default."""
    time: str | None = None
    """Time limit of an array task as sbatch takes it, such as "2:00:00"; None = that of the partition."""
    gpus: str | None = None
    """GPUs of an array task as sbatch takes them, such as "1" or "a100:1"."""
    task_minutes: float = 30.0
    """Estimated minutes of work that are packed into one array task."""
    sbatch: tuple[str, ...] = ()
    """Further options of sbatch, such as "--account=vision"."""

    def __post_init__(self) -> None:
        if not self.task_minutes > 0:
            raise ValueError(f"task_minutes must be greater than 0, got {self.task_minutes}")
        for option in self.sbatch:
            if not option.startswith("-"):
                raise ValueError(f"a further option of sbatch must start with '-', got {option!r}: --account=vision")
        for value in (self.partition, self.time, self.gpus, *self.sbatch):
            if value is not None and (not value.strip() or not value.isprintable()):
                raise ValueError(f"an option of sbatch must be one line of text, got {value!r}")

    @property
    def machine(self) -> str:
        """Name of the nodes that measurements of time belong to."""
        return " ".join(["slurm", *self.directives])

    @property
    def directives(self) -> list[str]:
        """Options of sbatch."""
        values = {"partition": self.partition, "time": self.time, "gpus": self.gpus}
        return [f"--{name}={value}" for name, value in values.items() if value is not None] + list(self.sbatch)
