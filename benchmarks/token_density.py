"""Can a detector see another source of texts at equal length? N-gram density and unknown words, no network.

IMDB reviews are in-distribution, cut to the lengths of the OOD texts, four for each of them. The settings of the
detector were chosen by the mean AUROC on validation sources (with IMDB's validation reviews); customer reviews and
sentences of film reviews are the test (with IMDB's test reviews), on which only the chosen settings are measured, with
what was the default before and the share of unknown words. The test had been measured with that earlier default before
this choice was made. "later passages" are a control: what follows a sentence of IMDB's own validation reviews, at the
lengths of the film reviews; those of test reviews are also the in-distribution texts of a second comparison, which was
added after the first one had been seen and chose nothing. Run from the repository, with ``STTAU_DATA`` naming the
folder of the data:

    pip download --no-deps vaderSentiment==3.3.2 --no-binary :all:     # its source holds editorials and tweets
    pip install gensim                                                 # its test data holds news
    python benchmarks/token_density.py FOLDER      # FOLDER: unpacked hutto_ICWSM_2014 of vaderSentiment

It writes benchmarks/detection/token_density.jsonl.gz. Python's own documentation is one more validation source.
"""

from __future__ import annotations

import importlib.util
import pydoc_data.topics
import random
import re
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from sttau import SequenceClassifier
from sttau.data import SequenceDataset, encode, load
from sttau.jobs import Result, write_results
from sttau.metrics import bootstrap_interval, detection
from sttau.ood import Detector, make_detector

ROOT = Path(__file__).parents[1]
EARLIER: dict[str, Any] = {"beginning": None, "relative": False, "unknown_words": 1e5}
TESTED = {
    "unknown-tokens": make_detector("unknown-tokens"),
    "token-density, earlier": make_detector("token-density", **EARLIER),
    "token-density": make_detector("token-density"),
}
CANDIDATES = {
    **{f"earlier, order {order}": make_detector("token-density", **EARLIER | {"order": order}) for order in (1, 2)},
    "surprise, beginning 32": make_detector("token-density", **EARLIER | {"beginning": 32}),
    "relative, no beginning": make_detector("token-density", **EARLIER | {"relative": True, "unknown_words": 100}),
    **{f"beginning {first}": make_detector("token-density", beginning=first) for first in (16, 64)},
    **{f"order {order}": make_detector("token-density", order=order) for order in (2, 4)},
    **{f"unknown words {words}": make_detector("token-density", unknown_words=words) for words in (10, 1000, 100000)},
}
CHOSEN_ON = ("news", "editorials", "tweets", "python")
PER_TEXT = 4
TEXTS = 1000
SEED = 0


def sentences(text: str) -> list[str]:
    """Return the sentences of 5 to 60 words."""
    return [part for part in re.split(r"(?<=[.!?])\s+", text) if 5 <= len(part.split()) <= 60]


def third_column(path: Path) -> list[str]:
    """Return the texts of a table of vaderSentiment."""
    lines = path.read_text("utf-8", errors="replace").splitlines()
    texts = [line.split("\t")[2] for line in lines if line.count("\t") >= 2]
    return [text for text in texts if len(text.split()) >= 5]


def validation_sources(folder: Path) -> dict[str, list[str]]:
    """Return texts that are neither customer reviews nor film reviews, at most 1,000 of each source."""
    gensim = importlib.util.find_spec("gensim")
    if gensim is None or gensim.origin is None:
        raise SystemExit("gensim is missing; install it with: pip install gensim")
    news = (Path(gensim.origin).parent / "test/test_data/lee_background.cor").read_text("utf-8", errors="replace")
    python = re.sub(r"[`*:]+", "", " ".join(pydoc_data.topics.topics.values()))
    found = {
        "news": sentences(news.replace("\n", " ")),
        "editorials": third_column(folder / "nytEditorialSnippets_GroundTruth.txt"),
        "tweets": third_column(folder / "tweets_GroundTruth.txt"),
        "python": sentences(python),
    }
    draw = random.Random(SEED)
    return {name: draw.sample(texts, min(TEXTS, len(texts))) for name, texts in found.items()}


def cut(reviews: SequenceDataset, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the beginnings of random reviews, four of each of the given lengths."""
    generator = torch.Generator().manual_seed(SEED)
    wanted = lengths.repeat_interleave(PER_TEXT)
    rows = []
    for length in wanted.tolist():
        row = int(torch.randint(len(reviews), (1,), generator=generator))
        while int(reviews.lengths[row]) < length:
            row = int(torch.randint(len(reviews), (1,), generator=generator))
        rows.append(reviews.inputs[row, :length].long())
    return pad_sequence(rows, batch_first=True), wanted


def passages(reviews: SequenceDataset, lengths: Tensor) -> Tensor:
    """Return what follows the end of some sentence of random reviews, one passage of each of the given lengths."""
    generator = torch.Generator().manual_seed(SEED + 1)
    assert reviews.vocabulary is not None
    end = reviews.vocabulary.index(".")
    rows = []
    for length in lengths.tolist():
        begins = torch.tensor([])
        while not len(begins):
            row = int(torch.randint(len(reviews), (1,), generator=generator))
            begins = (reviews.inputs[row, : max(0, int(reviews.lengths[row]) - length)] == end).nonzero()[:, 0] + 1
        begin = int(begins[int(torch.randint(len(begins), (1,), generator=generator))])
        rows.append(reviews.inputs[row, begin : begin + length].long())
    return pad_sequence(rows, batch_first=True)


def measure(
    detector: Detector, model: SequenceClassifier, inside: tuple[Tensor, Tensor], outside: tuple[Tensor, Tensor]
) -> dict[str, float]:
    """Return AUROC and AUPR in percent, with an interval of the first over texts."""
    scores = [detector.score(model, *part) for part in (inside, outside)]
    found = detection(*scores)
    groups = scores[0].view(-1, PER_TEXT)

    def auroc(rows: Tensor) -> float:
        return detection(groups[rows.long()].flatten(), scores[1][rows.long()]).auroc

    interval = bootstrap_interval(torch.arange(len(scores[1])), metric=auroc, resamples=200, seed=SEED)
    return {
        "auroc": 100 * found.auroc, "aupr": 100 * found.aupr,
        "auroc_low": 100 * interval.low, "auroc_high": 100 * interval.high,
    }  # fmt: skip


def main(folder: Path) -> None:
    """Measure all detectors on all sources."""
    train, validation, test = (load("imdb", split) for split in ("train", "validation", "test"))
    vocabulary = train.vocabulary or ()
    model = SequenceClassifier(nn.GRU(1, 1), 2, nn.Embedding(len(vocabulary), 1))  # only its kind is read
    for detector in (TESTED | CANDIDATES).values():
        detector.fit(model, train)
    sources = {name: (*encode(texts, vocabulary), validation) for name, texts in validation_sources(folder).items()}
    for name in ("customer_reviews", "movie_reviews"):
        data = load(name, "test")
        sources[name] = (data.inputs, data.lengths, test)
    sources["later passages"] = (passages(validation, data.lengths), data.lengths, validation)
    results = []
    for name, (inputs, lengths, reviews) in sources.items():
        known = {"imdb": cut(reviews, lengths)}
        if reviews is test:  # both are from anywhere in a text
            repeated = lengths.repeat_interleave(PER_TEXT)
            known["imdb's later passages"] = passages(reviews, repeated), repeated
        for (kind, inside), (method, detector) in product(
            known.items(), (TESTED | CANDIDATES if name in CHOSEN_ON else TESTED).items()
        ):
            began = time.perf_counter()
            metrics = measure(detector, model, inside, (inputs.long(), lengths))
            settings = {"ood_sequences": len(inputs), "in_distribution": len(inside[0]), "split": reviews.split}
            took = round(time.perf_counter() - began, 2)
            data = f"{kind} against {name}"
            results.append(Result("detection at equal length", data, method, None, SEED, metrics, settings, took))
            print(data, method, {key: round(value, 1) for key, value in metrics.items()}, flush=True)
    for method in TESTED | CANDIDATES:
        names = [f"imdb against {name}" for name in CHOSEN_ON]
        found = [row.metrics["auroc"] for row in results if row.method == method and row.data in names]
        print(method, f"mean of the validation sources {sum(found) / len(found):.2f}")
    write_results(results, ROOT / "benchmarks/detection/token_density.jsonl.gz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
