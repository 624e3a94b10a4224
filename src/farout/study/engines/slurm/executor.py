"""The run's side: submits arrays, attaches to those that still run, and reports what they have finished."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence

from farout.files import files_in
from farout.study.cells.cell import Work
from farout.study.engines import activity
from farout.study.engines.executor import ENGINES, Context, Executor, Task
from farout.study.engines.slurm import client
from farout.study.engines.slurm.arrays import ArrayFolder, Piece, Pieces, Progress, find_arrays
from farout.study.engines.slurm.client import SlurmError, State
from farout.study.engines.slurm.options import SlurmOptions
from farout.study.engines.slurm.packing import Packed, PackedArray, pack
from farout.study.engines.slurm.script import job_name, script
from farout.study.engines.slurm.tasks import ArrayTask, array_tasks, dependencies, job_list, last_line, running_tasks
from farout.study.estimates.calibration import Calibration
from farout.study.estimates.estimate import calibrate_works
from farout.study.records import read_verified_json
from farout.study.store import Store

POLL_SECONDS = 5.0
"""Seconds between two looks at the queue and at the progress of the tasks."""
SETTLE_SECONDS = 60.0
"""Seconds that a task may be absent from the queue without having reported its end, until it counts as dead: it may be
about to be requeued, and network file systems show what another machine has written with a delay."""
log = logging.getLogger("farout")


@ENGINES.register("slurm")
class SlurmExecutor(Executor):
    """Job arrays of a Slurm cluster whose nodes share the folder of results."""

    name = "slurm"
    Options = SlurmOptions
    whole, remote = True, True
    slots = sys.maxsize

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert isinstance(context.options, SlurmOptions)
        self._options, self._store, self._listener = context.options, context.store, context.listener
        self._new: list[Task] = []
        self._skipped: deque[int] = deque()
        self._present: deque[int] = deque()
        """Tasks whose results an array task has written since the run began."""
        self._returned: set[str] = set()
        """Works that a task has left out."""
        self._earlier = bool(find_arrays(context.store))
        """True if array tasks may have been computing results when the run began."""
        self._tasks = running_tasks(context.store)
        self._count = len(self._tasks)
        self._held: set[str] = set()
        """Tasks that the user has been told of, since Slurm holds them."""
        self._polled_at = 0.0
        if self._tasks:
            log.warning(f"attached to {len(self._tasks)} array tasks that have not ended: {job_list(self._tasks)}")

    @classmethod
    def occupied(cls, store: Store) -> str:
        if not client.available() or not find_arrays(store):
            return ""
        if not (tasks := running_tasks(store)):
            return ""
        return (
            f"Slurm still computes results of {store.root}: use --engine slurm to attach to its jobs, or cancel them: "
            f"scancel {job_list(tasks)}"
        )

    def submit(self, task: Task) -> None:
        work = task.work
        if self._earlier and all(self._store.has(cell.id) for cell in work.cells):
            self._present.append(task.number)
            return
        for one in self._tasks:
            piece = one.pieces.get(work.id)
            if piece is not None and {cell.id for cell in work.cells} <= set(piece.cells) and not one.closed:
                one.numbers[work.id] = task.number
                return
        self._new.append(task)

    def wait(self, seconds: float) -> None:
        while self._present:
            self._listener.finished(self._present.popleft(), {})
        while self._skipped:
            self._listener.skipped(self._skipped.popleft())
        if self._new:
            self._submit_arrays()
        if time.monotonic() - self._polled_at >= POLL_SECONDS:
            self._poll()
            self._polled_at = time.monotonic()
        elif seconds:
            time.sleep(min(seconds, POLL_SECONDS))

    def cancel(self, numbers: Collection[int]) -> None:
        self._skipped += [task.number for task in self._new if task.number in numbers]
        self._new = [task for task in self._new if task.number not in numbers]

    def close(self, stopped: bool) -> None:
        if self._tasks and stopped:
            log.warning(
                f"Slurm goes on with {job_list(self._tasks)}: the same command attaches to it; to cancel it: scancel "
                f"{job_list(self._tasks)}"
            )

    # Submission

    def _submit_arrays(self) -> None:
        """Pack the new works into arrays, and submit them."""
        numbers = {task.work.id: task.number for task in self._new}
        works, self._new = [task.work for task in self._new], []
        submitted: dict[object, ArrayTask] = {}
        calibration = calibrate_works(works, self.context.device)
        for array in pack_missing(works, self._tasks, self._options.task_minutes, calibration):
            after = [one if isinstance(one, ArrayTask) else submitted[one] for one in array.after]
            folder = self._write(array, [one for one in after if not one.closed])
            folder.job = client.submit(folder.path / "script.sh")
            for packed, task in zip(array.tasks, array_tasks(folder), strict=True):
                task.after, submitted[packed] = after, task
                task.numbers = {work.id: numbers[work.id] for work in packed.works}
                self._tasks.append(task)
        self._count += len(submitted)
        log.warning(f"submitted {len(submitted)} array tasks: {job_list(list(submitted.values()))}")

    def _write(self, array: PackedArray, after: Sequence[ArrayTask]) -> ArrayFolder:
        """Write the files of an array, and remove the failures of earlier attempts at its cells."""
        for packed in array.tasks:
            for work in packed.works:
                for cell in work.cells:
                    self._store.forget_failure(cell.id)
        folder = ArrayFolder.create(self._store, self._pieces(array))
        text = script(folder.path, len(array.tasks), dependencies(after), self.context.workers, self._options)
        folder.write_script(text)
        return folder

    def _pieces(self, array: PackedArray) -> Pieces:
        study = read_verified_json(self._store.root / "plan.json")["spec"]
        if study is None:
            raise ValueError("the engine 'slurm' needs a study file: its nodes cannot reach objects of this process")
        context, options = self.context, self._options
        return Pieces(
            study=study, device=str(context.device), machine=options.machine, workers=context.workers,
            timeout=context.timeout, plugins=list(context.plugins), tasks=[describe(packed) for packed in array.tasks],
        )  # fmt: skip

    # Reports

    def _poll(self) -> None:
        """Report the progress of the tasks, and the works that have ended."""
        try:
            queue = client.read_queue()
        except SlurmError as error:
            self._listener.noted(f"Slurm: {str(error)[:200]}; asking again")
            return
        for task in self._tasks:
            progress = task.folder.progress(task.index)
            self._report_progress(task, progress)
            self._update_state(task, queue, progress)
            if task.closed:
                self._close(task, progress)
        self._tasks = [task for task in self._tasks if not task.closed]
        self._listener.noted(self._summary())

    def _report_progress(self, task: ArrayTask, progress: Progress) -> None:
        for work, number in list(task.numbers.items()):
            images = progress.images.get(work, 0) - task.images[work]
            if images > 0:
                task.images[work] += images
                self._listener.progressed(number, images)
            if work in progress.over:
                self._report_result(task, work)

    def _report_result(self, task: ArrayTask, work: str) -> bool:
        """Report a work if all its cells have a result or a failure in the store; return True if so."""
        failed = {}
        for cell in task.pieces[work].cells:
            if not self._store.has(cell):
                failure = self._store.failure(cell)
                if failure is None:
                    return False
                failed[cell] = failure["traceback"]
        self._listener.finished(task.numbers.pop(work), failed)
        return True

    def _update_state(self, task: ArrayTask, queue: client.Queue, progress: Progress) -> None:
        """Close a task that has reported its end, or that has been absent from the queue for long."""
        task.state = queue.get((job_name(task.folder.path), task.index), State("not in the queue", ""))
        if task.state.held and task.id not in self._held:
            self._held.add(task.id)
            log.warning(f"Slurm holds {task.id} ({task.state.reason}): scontrol release {task.id} lets it begin")
        live = task.state.live and task.state.state != "not in the queue"
        task.absent_since = None if live else task.absent_since or time.monotonic()
        settled = task.absent_since is not None and time.monotonic() - task.absent_since >= SETTLE_SECONDS
        waits = any(not one.closed for one in task.after)  # it is not decided yet if what it requires has failed
        task.closed = settled or (progress.ended and task.absent_since is not None and not waits)

    def _close(self, task: ArrayTask, progress: Progress) -> None:
        """Report the works that a task has not finished."""
        for work, number in list(task.numbers.items()):
            if self._report_result(task, work):
                continue
            if work in progress.left and work not in self._returned:
                self._returned.add(work)
                self._listener.returned(number)
            else:
                self._listener.failed(number, self._why(task))

    def _why(self, task: ArrayTask) -> str:
        """Return why a task has ended before its works."""
        files = (
            files_in(task.folder.notes(task.index), task.folder.root) if task.folder.notes(task.index).is_dir() else []
        )
        notes = [note for path in files if (note := activity.read(path)) and note.cell]
        during = f" while it computed {notes[0].title}" if notes else ""
        last = last_line(task.folder.log(task.index))
        return (
            f"SlurmTaskDied: {task.id} ended ({task.state}){during}; {last + '; ' if last else ''}the same command "
            f"submits it again (its output is in {task.folder.log(task.index)})"
        )

    def _summary(self) -> str:
        states = Counter(
            "running" if task.state.state in ("RUNNING", "COMPLETING") else "waiting" for task in self._tasks
        )
        reasons = Counter(task.state.reason for task in self._tasks if task.state.state == "PENDING")
        reason = f" ({reasons.most_common(1)[0][0]})" if reasons else ""
        ended = self._count - len(self._tasks)
        return (
            f"Slurm: {states['running']} running, {states['waiting']} waiting{reason}, "
            f"{ended} of {self._count} tasks ended"
        )


def pack_missing(
    works: Sequence[Work], running: Sequence[ArrayTask], minutes: float, calibration: Calibration
) -> list[PackedArray]:
    """Return the arrays that compute these works, after those that run already."""
    pieces = [(task, piece) for task in running for piece in task.pieces.values()]
    owners: dict[str, object] = {cell: task for task, piece in pieces for cell in piece.cells}
    locked: dict[str, object] = {piece.work: task for task, piece in pieces}
    return list(pack(works, minutes, calibration, owners, locked))


def describe(packed: Packed) -> list[Piece]:
    """Return the pieces of an array task."""
    return [
        Piece(work=work.id, title=work.cells[0].title, cells=[cell.id for cell in work.cells]) for work in packed.works
    ]
