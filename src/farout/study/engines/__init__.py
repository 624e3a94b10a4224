"""Engines: a scheduler that selects the next tasks, and executors that compute them.

run.py        entry point: compute the missing cells of a study; imports every module of this folder for its engine
scheduler.py  order of the tasks; bookkeeping of finished chunks and failures
executor.py   interface between scheduler and executors: tasks and their outcomes; the registry of engines
time_limit.py time limit of a task in this process
inline.py     executor that computes in this process
local.py      engine "local": worker processes on this machine; worker.py is the code that runs in each of them
performer.py  computation of one task in any process: run a chunk, or collect the chunks and write the records
activity.py   file that names the cell a process is computing, readable after the process has died
"""
