"""Out-of-distribution detection: does the model notice input it has never seen the like of?"""

from sttau.ood.metrics import Detection, detection

__all__ = ["Detection", "detection"]
