"""Training: the one loop, recipes, schedules, optimizers and checkpoints."""
