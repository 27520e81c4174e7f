"""The models that are served, by name: found in folders, and loaded again when their files change."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sttau.data import SequenceDataset, read
from sttau.errors import SttauError
from sttau.files import EXAMPLES_FILE, MODEL_FILE
from sttau.inference import predict
from sttau.models import Predictor, load

Signature = tuple[int, int, int]


@dataclass
class Served:
    """A model that is served.

    Attributes:
        name: Name of the model.
        model: The model.
        version: First digits of the SHA-256 of its file.
        loaded: Time when it was loaded, in seconds since 1970.
        examples_path: Path of its examples; None where there are none.
        error: Why the present file is not served; empty if it is.
    """

    name: str
    model: Predictor
    version: str
    loaded: float
    examples_path: Path | None = None
    error: str = ""
    _examples: SequenceDataset | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def examples(self) -> SequenceDataset:
        """Return the labeled examples of the model."""
        if self.examples_path is None:
            raise LookupError(f"the model {self.name} has no examples: there is no {EXAMPLES_FILE} next to it")
        with self._lock:
            if self._examples is None:
                self._examples = read(self.examples_path, like=self.model)
            return self._examples


class Registry:
    """Models by name.

    Args:
        paths: Model files, folders with a model, or folders of those.
        warmup: Whether a model predicts once when it is loaded.

    Example:
        >>> import tempfile
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = SequenceClassifier(STTauLSTM(2, 8, num_states=4), 2).save(f"{folder}/small.safetensors")
        ...     Registry([folder], warmup=False).names
        ['small']
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], warmup: bool = True) -> None:
        self._roots = [Path(path) for path in paths]
        self._warmup = warmup
        self._served: dict[str, Served] = {}
        self._seen: dict[str, tuple[Path, Signature]] = {}
        self.reloads = self.failures = 0
        found = dict(_find(self._roots))
        if not found:
            where = ", ".join(map(str, self._roots)) or "no folder"
            raise FileNotFoundError(f"no model found in {where}: expected .safetensors files or folders of sttau train")
        for name, path in found.items():
            self._seen[name] = (path, _signature(path))
            self._served[name] = self._load(name, path)

    @property
    def names(self) -> list[str]:
        """Names of the models, in alphabetical order."""
        return sorted(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def __iter__(self) -> Iterator[Served]:
        return iter([self._served[name] for name in self.names])

    def get(self, name: str | None) -> Served:
        """Return a model by its name, which may be left out where there is only one.

        Raises:
            LookupError: If there is no such model.
        """
        if name is None and len(self._served) == 1:
            return next(iter(self))
        if name is None or name not in self._served:
            what = "name a model" if name is None else "there is no model of this name"
            raise LookupError(f"{what}; the models are {', '.join(self.names)}")
        return self._served[name]

    def refresh(self) -> list[str]:
        """Load models whose files have changed, and new ones; return their names.

        A file that cannot be loaded changes nothing but ``error``: the model that was loaded before stays.
        """
        changed = []
        for name, path in dict(_find(self._roots)).items():
            try:
                signature = _signature(path)
                if self._seen.get(name) == (path, signature):
                    continue
                self._seen[name] = (path, signature)
                self._served[name] = self._load(name, path)
            except (OSError, SttauError) as error:
                self.failures += 1
                if name in self._served:
                    kind = "damaged" if isinstance(error, SttauError) else "not readable"
                    self._served[name].error = f"the file has changed and is {kind}; the model before is served"
                continue
            self.reloads += 1
            changed.append(name)
        return changed

    def _load(self, name: str, path: Path) -> Served:
        model: Predictor = load(path)
        if self._warmup:
            _predict_once(model)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        examples = path.parent / EXAMPLES_FILE
        own = examples if path.name == MODEL_FILE and examples.is_file() else None
        return Served(name, model, digest, time.time(), own)


def _find(roots: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield name and path of every model; a later one of the same name has a number appended."""
    taken: set[str] = set()
    for root in roots:
        for name, path in _in_root(root):
            own, number = name, 2
            while own in taken:
                own, number = f"{name}-{number}", number + 1
            taken.add(own)
            yield own, path


def _in_root(root: Path) -> Iterator[tuple[str, Path]]:
    if root.is_file():
        yield root.stem, root
    elif (root / MODEL_FILE).is_file():
        yield root.resolve().name, root / MODEL_FILE
    elif root.is_dir():
        for entry in sorted(root.iterdir()):
            if (entry / MODEL_FILE).is_file():
                yield entry.name, entry / MODEL_FILE
            elif entry.suffix == ".safetensors" and entry.is_file():
                yield entry.stem, entry


def _signature(path: Path) -> Signature:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _predict_once(model: Predictor) -> None:
    """Compile the kernels that predictions need."""
    import torch

    shape = (4, 2) if model.reads_tokens else (4, 2, model.num_features or 1)
    dtype = torch.int64 if model.reads_tokens else model.dtype
    predict(model, torch.zeros(shape, dtype=dtype), torch.full((4,), 2), samples=4)
