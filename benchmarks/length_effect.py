"""What detectors that read no network find: the length of texts, and the share of unknown words.

IMDB reviews are in-distribution; customer reviews and single sentences of film reviews are OOD. Run from the
repository, with ``STTAU_DATA`` naming the folder of the data:

    python benchmarks/length_effect.py            # writes benchmarks/detection/length_effect.jsonl
"""

from __future__ import annotations

import time
from pathlib import Path

from torch import nn

from sttau import SequenceClassifier
from sttau.data import load
from sttau.jobs import Result, write_results
from sttau.metrics import detection
from sttau.ood import make_detector

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure both detectors on both OOD data sets."""
    train, test = (load("imdb", split) for split in ("train", "test"))
    model = SequenceClassifier(nn.GRU(1, 1), 2, nn.Embedding(len(train.vocabulary or ()), 1))  # only its kind is read
    results = []
    for name in ("length", "unknown-tokens"):
        detector = make_detector(name).fit(model, train)
        inside = detector.score(model, test)
        for ood in ("customer_reviews", "movie_reviews"):
            began = time.perf_counter()
            outside = load(ood, "test")
            found = detection(inside, detector.score(model, outside))
            metrics = {"auroc": 100 * found.auroc, "aupr": 100 * found.aupr}
            settings = {"in_distribution": len(test), "ood": ood, "ood_sequences": len(outside)}
            took = round(time.perf_counter() - began, 2)
            results.append(
                Result("length effect", f"imdb against {ood}", name, None, 0, metrics, settings, seconds=took)
            )
    write_results(results, ROOT / "benchmarks/detection/length_effect.jsonl")


if __name__ == "__main__":
    main()
