"""Training: one loop for everything that is trained, be it a classifier, a detector or a generator.

task.py        what is trained: modules, players, losses, validation (write a subclass of `Task`)
recipe.py      all settings of a training; schedules.py: learning rates, ramps, decays
loop.py        `fit`: trains a task, with checkpoints and progress; stage.py: one stage of it, step by step
feed.py        which images every step sees; augment.py: in which form
players.py     optimizers, clipping, loss scaling; lars.py: LARS; weights.py: copies and moving averages
checkpoint.py  the state of a training in a file
classifier.py  the task of a classifier
"""

from farout.training.classifier import Classifier, History, train
from farout.training.history import StageHistory
from farout.training.loop import fit, resumable
from farout.training.recipe import Recipe
from farout.training.schedules import ramp
from farout.training.task import Batch, Context, Player, Position, Stage, Stream, Task

__all__ = [
    "Batch",
    "Classifier",
    "Context",
    "History",
    "Player",
    "Position",
    "Recipe",
    "Stage",
    "StageHistory",
    "Stream",
    "Task",
    "fit",
    "ramp",
    "resumable",
    "train",
]
