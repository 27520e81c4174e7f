"""Training: ``fit`` for one model, ``fit_many`` for several at once."""

from sttau.models import focal_loss
from sttau.training.callbacks import ProgressBar, TensorBoard
from sttau.training.distributed import ProcessLostError, local_device
from sttau.training.interruption import Interrupted
from sttau.training.laplace import laplace
from sttau.training.log import Callback, Update, read_log
from sttau.training.many import FitJob, FitResult, fit_many
from sttau.training.options import TrainOptions
from sttau.training.run import DivergedError
from sttau.training.swag import swag
from sttau.training.trainer import fit
from sttau.training.validation import validation

__all__ = [
    "Callback",
    "DivergedError",
    "FitJob",
    "FitResult",
    "Interrupted",
    "ProcessLostError",
    "ProgressBar",
    "TensorBoard",
    "TrainOptions",
    "Update",
    "fit",
    "fit_many",
    "focal_loss",
    "laplace",
    "local_device",
    "read_log",
    "swag",
    "validation",
]
