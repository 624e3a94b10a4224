"""Engines: a scheduler that decides what is computed next, and executors that compute it.

run.py        what callers use: compute the missing cells of a study
scheduler.py  which chunk of which work comes next, what has failed, what is finished
executor.py   the interface between the two: tasks, and what becomes of them; the registry of engines
inline.py     executor: this process
local.py      engine "local": worker processes of this machine; worker.py is what runs in each of them
performer.py  what any process does with a task: run a chunk, or collect the chunks and write the records
activity.py   which cell a process is computing, readable after it has died
"""
