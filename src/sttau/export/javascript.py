"""Compiled automata as a JavaScript file without dependencies, for pages and Node.js."""

from __future__ import annotations

import json
import os
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from sttau.files import write_atomically
from sttau.inference import entropy

if TYPE_CHECKING:
    from sttau.automata import CompiledModel

_FILE = Template("""\
// A classifier of sequences over $tokens tokens, compiled to tables by sttau $version. No dependencies.
//
// In a page:   <script src="$name"></script>, then sttau.predict(["0", "1"])
// In Node.js:  const sttau = require("./$name")
//
// predict(symbols) returns {probabilities, label, total, aleatoric, epistemic}, entropies in bits.
// new sttau.Stream() reads symbol by symbol: read(symbol), then prediction().
const sttau = (() => {
  "use strict";
  const vocabulary = $vocabulary;
  const start = $start; // symbol that begins every sequence; null for none
  const classNames = $class_names;
  // Distribution of the state after a first token, transition matrix of each further token, classes in each state.
  const first = $first;
  const matrices = $matrices;
  const outcome = $outcome;
  const stateEntropy = $entropy;
  const numbers = new Map(vocabulary.map((symbol, number) => [symbol, number]));

  class Stream {
    constructor() {
      this.state = null;
      if (start !== null) this.read(start);
    }

    read(symbol) {
      const token = numbers.get(symbol);
      if (token === undefined) throw new RangeError("symbol is not in the vocabulary: " + symbol);
      if (this.state === null) {
        this.state = first[token].slice();
        return this;
      }
      const after = outcome.map((_, j) => this.state.reduce((sum, p, i) => sum + p * matrices[token][i][j], 0));
      const total = after.reduce((sum, p) => sum + p, 0);
      this.state = after.map((p) => p / total);
      return this;
    }

    prediction() {
      if (this.state === null) throw new RangeError("nothing has been read yet");
      const probabilities = classNames.map((_, c) => this.state.reduce((sum, p, j) => sum + p * outcome[j][c], 0));
      const total = probabilities.reduce((sum, p) => sum - (p > 0 ? p * Math.log2(p) : 0), 0);
      const aleatoric = this.state.reduce((sum, p, j) => sum + p * stateEntropy[j], 0);
      const label = classNames[probabilities.indexOf(Math.max(...probabilities))];
      return { probabilities, label, total, aleatoric, epistemic: Math.max(0, total - aleatoric) };
    }
  }

  const predict = (symbols) => {
    const stream = new Stream();
    for (const symbol of symbols) stream.read(symbol);
    return stream.prediction();
  };
  return { Stream, predict, vocabulary, classNames };
})();
if (typeof module !== "undefined") module.exports = sttau;
""")


def to_javascript(automaton: CompiledModel, path: str | os.PathLike[str]) -> Path:
    """Write a compiled network as one JavaScript file, for a page or Node.js.

    Args:
        automaton: Result of :func:`sttau.automata.compile`.
        path: File to write.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> from sttau.automata import compile
        >>> network = SequenceClassifier(STTauGRU(4, 8, num_states=3), 2, nn.Embedding(3, 4))
        >>> automaton = compile(network, ("^", "0", "1"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "const predict = " in to_javascript(automaton, f"{folder}/automaton.js").read_text()
        True
    """
    from sttau.version import __version__

    target = Path(path)
    names = automaton.class_names or tuple(map(str, range(automaton.outcome.shape[1])))
    text = _FILE.substitute(
        version=__version__,
        name=target.name,
        tokens=len(automaton.vocabulary),
        vocabulary=_literal(automaton.vocabulary),
        start=_literal(automaton.start),
        class_names=_literal(names),
        first=_literal(automaton.first.tolist()),
        matrices=_literal(automaton.matrices.tolist()),
        outcome=_literal(automaton.outcome.tolist()),
        entropy=_literal(entropy(automaton.outcome).tolist()),
    )
    return write_atomically(target, text.encode())


def _literal(value: object) -> str:
    """A value as JavaScript; ``</`` is escaped, so that the text can stand in a page."""
    return json.dumps(value).replace("</", "<\\/")
