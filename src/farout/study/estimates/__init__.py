"""Estimates of what a run will take: hours, memory and disk, from trying out its parts on synthetic images.

parts.py        the parts that the time of a run consists of: a pass of a network, one detector's own share, a step of a
                training, …; each can be tried out
trainings.py    trainings among them: a few steps of the training loop
demands.py      how much of each part a piece of work needs
calibration.py  seconds and bytes of the parts, measured within a time limit
estimate.py     the sums
"""
