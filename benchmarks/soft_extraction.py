"""DFAs extracted from networks that were trained on soft samples: the transition table, and the most faithful method.

    python benchmarks/soft_extraction.py --out benchmarks/soft_extraction.jsonl.gz

Finite-state GRUs of 8 states, trained with 600 updates on each Tomita grammar, five seeds each. "table" is
``extract_dfa``, "chosen" ``extract``. "equal" means proved equal to the grammar. Networks are not selected by accuracy;
"accuracy" is that on the training strings. Seeds from 100; they were run once.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from json_lines import show_and_write
from torch import nn

import sttau
from sttau import automata


def measure(grammar: int, seed: int) -> dict[str, Any]:
    """Train one network, and extract its automaton in both ways."""
    train = sttau.data.load(f"tomita{grammar}", "train")
    truth = automata.tomita(grammar)
    torch.manual_seed(seed)
    layer = sttau.STTauGRU(8, 16, num_states=8, mode="soft")
    model = sttau.SequenceClassifier(layer, 2, nn.Embedding(len(train.vocabulary or ()), 8))
    model.set_metadata(train)
    sttau.training.fit(model, train, updates=600, learning_rate=0.02, seed=seed, progress=False)
    labels = sttau.predict(model, train.inputs, train.lengths).label
    row: dict[str, Any] = {"grammar": grammar, "seed": seed}
    row["accuracy"] = round(float((labels == train.labels).double().mean()), 4)
    row["table"] = bool(automata.compare(automata.extract_dfa(model), truth))
    began = time.perf_counter()
    extracted = automata.extract(model)
    row["chosen"] = bool(automata.compare(extracted, truth))
    row["seconds"] = round(time.perf_counter() - began, 2)
    row["method"] = extracted.chosen.method
    row["strings"] = extracted.strings
    row["fidelity"] = {one.method: round(one.fidelity, 4) for one in extracted.candidates}
    row["equal"] = {one.method: bool(automata.compare(one.dfa, truth)) for one in extracted.candidates}
    return row


def main() -> None:
    """Measure all networks and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for grammar in range(1, 8):
        for number in range(options.each):
            rows.append(measure(grammar, options.seed + number))
            show_and_write(rows, options.out)
    good = [row for row in rows if row["accuracy"] >= 0.99]
    for name, chosen in (("all", rows), ("accuracy of at least 0.99", good)):
        table, extracted = (sum(row[key] for row in chosen) for key in ("table", "chosen"))
        print(f"{name}: {len(chosen)} networks, table {table}, chosen {extracted} proved equal")
    print("largest number of seconds", max(row["seconds"] for row in rows))


if __name__ == "__main__":
    main()
