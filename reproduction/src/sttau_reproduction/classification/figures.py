"""The figures: which networks each is drawn of. All is read from results and prediction files."""

from __future__ import annotations

from sttau_reproduction.classification import ablation, dropout_sweep, table1

#: Of which a reading is kept: probabilities after every step of a few sequences.
READING = ("st-tau-best", "st-tau-classes", "st-tau-classes-plain")

#: Read word by word; written for this purpose.
SENTENCES = (
    "the first hour is slow and the jokes are old , but the ending is wonderful and i left the theater happy",
    "a great cast , a beautiful score , and still this is one of the worst films i have seen in years",
    "i wanted to like it . it is not bad , not good , just long",
)

_FINITE = ("st-tau-classes", "st-tau-classes-plain", "st-tau-10", "st-tau-10-plain", "st-tau-best")

#: Networks of each figure, by data set.
FIGURES: dict[str, dict[str, tuple[str, ...]]] = {
    "reliability": dict(table1.NETWORKS),
    "temperature": {"bih": _FINITE, "imdb": _FINITE},
    "reading": {"bih": READING, "imdb": READING},
    "dropout-sweep": dict.fromkeys(("bih", "imdb"), (dropout_sweep.NETWORK, *dropout_sweep.COMPARED)),
    "ablation": dict(ablation.TABLES[0].networks),
}
