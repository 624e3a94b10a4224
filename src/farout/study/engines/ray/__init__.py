"""Engine "ray": tasks on the nodes of a Ray cluster, which share the folder of results.

options.py   options of the engine: address of the cluster, resources of a task
cluster.py   connection to the cluster, and the number of tasks that it can run at a time
running.py   a submitted task, and the reasons why one is lost
executor.py  the run's side: submits tasks, reports their progress and outcomes, submits lost ones again
node.py      the node's side: checks the node, computes one task, and yields its progress and its outcome
"""

from farout.study.engines.ray import executor as executor  # registers the engine
