"""Training: one loop for classifiers, detectors and generators.

task.py        `Task`, to be subclassed: modules, players, losses and validation of a training
recipe.py      all settings of a training; presets.py: those of papers; schedules.py: learning rates, ramps, decays
loop.py        `fit`: trains a task, with checkpoints and progress; stage.py: one stage of it, step by step
feed.py        the batches of every step; augment.py: augmentation of images
players.py     optimizers, clipping, loss scaling; lars.py: LARS; weights.py: copies and moving averages
checkpoint.py  the state of a training in a file; files.py: finished models in files
classifier.py  the task of a classifier; exposure.py: the same with outlier exposure
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
