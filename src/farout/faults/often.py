"""Plugin of the studies under test: intermediate states are stored many times a second, so that a kill finds some."""

from farout.study.cells import search
from farout.study.engines import scheduler
from farout.training import loop

loop.CHECKPOINT_SECONDS = 0.1
search.KEEP_SECONDS = 0.1
scheduler.FLUSH_SECONDS = 0.1
