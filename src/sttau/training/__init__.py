"""Training: the loop, its checkpoints and its log."""

from sttau.training.distributed import local_device
from sttau.training.interruption import Interrupted
from sttau.training.log import TensorBoard, Update, read_log
from sttau.training.loop import DivergedError, fit

__all__ = ["DivergedError", "Interrupted", "TensorBoard", "Update", "fit", "local_device", "read_log"]
