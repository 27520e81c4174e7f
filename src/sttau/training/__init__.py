"""Training: the loop, its checkpoints and its log."""

from sttau.training.distributed import local_device
from sttau.training.interruption import Interrupted
from sttau.training.log import TensorBoard, Update, read_log
from sttau.training.loop import DivergedError, fit
from sttau.training.together import Finished, Job, fit_together

__all__ = [
    "DivergedError",
    "Finished",
    "Interrupted",
    "Job",
    "TensorBoard",
    "Update",
    "fit",
    "fit_together",
    "local_device",
    "read_log",
]
