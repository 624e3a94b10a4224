"""Engine "slurm": job arrays of a Slurm cluster. Slurm schedules; the results are found in the store.

options.py   options of the engine: partition, time limit, GPUs, minutes per task, further options of sbatch
packing.py   estimate of the cost of a work; array tasks and their dependencies
arrays.py    files of a submitted array in the run's folder: its works, its job id, the progress of its tasks
script.py    text of the batch script
client.py    the commands sbatch, squeue, scancel and scontrol
tasks.py     array tasks that have not ended
executor.py  the run's side: submits arrays, attaches to those that still run, reports what they have finished
task.py      the node's side: computes the works of one array task, and reports its progress
"""

from farout.study.engines.slurm import executor as executor  # registers the engine
