"""Compiled automata as a C file without dependencies, for microcontrollers."""

from __future__ import annotations

import os
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sttau.files import write_atomically
from sttau.inference import entropy

if TYPE_CHECKING:
    from sttau.automata import CompiledModel

_FILE = Template("""\
/* A classifier of sequences over $tokens tokens, compiled to tables by sttau $version. C99; needs only math.h.
 *
 * Read tokens one by one:      sttau_stream s; sttau_begin(&s); sttau_read(&s, token); sttau_probabilities(&s, p);
 * or a whole sequence:         sttau_predict(tokens, length, p);
 * Define STTAU_REAL as float to halve the memory of the tables.
 * Functions that can fail return 0 for success and -1 for a token that is not in the vocabulary. */
#include <math.h>
#include <string.h>

#ifndef STTAU_REAL
#define STTAU_REAL double
#endif
#define STTAU_TOKENS $tokens
#define STTAU_STATES $states
#define STTAU_CLASSES $classes
#define STTAU_START $start /* token that begins every sequence, read by sttau_begin; -1 for none */

static const char *const sttau_vocabulary[STTAU_TOKENS] = {$vocabulary};
static const char *const sttau_classes[STTAU_CLASSES] = {$class_names};
/* Distribution of the state after a first token, transition matrix of each further token, classes in each state. */
static const STTAU_REAL sttau_first[STTAU_TOKENS][STTAU_STATES] = {
$first};
static const STTAU_REAL sttau_matrices[STTAU_TOKENS][STTAU_STATES][STTAU_STATES] = {
$matrices};
static const STTAU_REAL sttau_outcome[STTAU_STATES][STTAU_CLASSES] = {
$outcome};
static const STTAU_REAL sttau_entropy[STTAU_STATES] = {$entropy}; /* bits, in each state */

typedef struct {
    STTAU_REAL state[STTAU_STATES];
    int begun;
} sttau_stream;

/* The number of a token, or -1. */
int sttau_token(const char *symbol) {
    for (int token = 0; token < STTAU_TOKENS; token++)
        if (strcmp(symbol, sttau_vocabulary[token]) == 0) return token;
    return -1;
}

/* Read one token. */
int sttau_read(sttau_stream *stream, int token) {
    STTAU_REAL after[STTAU_STATES] = {0}, total = 0;
    if (token < 0 || token >= STTAU_TOKENS) return -1;
    for (int i = 0; i < STTAU_STATES; i++)
        for (int j = 0; j < STTAU_STATES; j++)
            if (!stream->begun) after[j] = sttau_first[token][j];
            else after[j] += stream->state[i] * sttau_matrices[token][i][j];
    for (int j = 0; j < STTAU_STATES; j++) total += after[j];
    for (int j = 0; j < STTAU_STATES; j++) stream->state[j] = after[j] / total;
    stream->begun = 1;
    return 0;
}

/* Begin a sequence. */
void sttau_begin(sttau_stream *stream) {
    memset(stream, 0, sizeof *stream);
    if (STTAU_START >= 0) sttau_read(stream, STTAU_START);
}

/* Write the class probabilities after what has been read: STTAU_CLASSES values. */
void sttau_probabilities(const sttau_stream *stream, STTAU_REAL *p) {
    for (int c = 0; c < STTAU_CLASSES; c++) {
        p[c] = 0;
        for (int j = 0; j < STTAU_STATES; j++) p[c] += stream->state[j] * sttau_outcome[j][c];
    }
}

/* Write total and aleatoric uncertainty in bits; their difference is epistemic. */
void sttau_uncertainty(const sttau_stream *stream, STTAU_REAL *total, STTAU_REAL *aleatoric) {
    STTAU_REAL p[STTAU_CLASSES];
    sttau_probabilities(stream, p);
    *total = *aleatoric = 0;
    for (int c = 0; c < STTAU_CLASSES; c++)
        if (p[c] > 0) *total -= p[c] * (STTAU_REAL)(log((double)p[c]) / log(2.0));
    for (int j = 0; j < STTAU_STATES; j++) *aleatoric += stream->state[j] * sttau_entropy[j];
}

/* Write the class probabilities of a sequence of tokens, without the start token. */
int sttau_predict(const int *tokens, int length, STTAU_REAL *p) {
    sttau_stream stream;
    sttau_begin(&stream);
    for (int t = 0; t < length; t++)
        if (sttau_read(&stream, tokens[t]) != 0) return -1;
    sttau_probabilities(&stream, p);
    return 0;
}
""")


def to_c(automaton: CompiledModel, path: str | os.PathLike[str]) -> Path:
    """Write a compiled network as one C99 file: constant tables and a few functions, no allocation.

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
        ...     "int sttau_predict(" in to_c(automaton, f"{folder}/automaton.c").read_text()
        True
    """
    from sttau.version import __version__

    tokens, states = automaton.first.shape
    classes = automaton.outcome.shape[1]
    names = automaton.class_names or tuple(map(str, range(classes)))
    text = _FILE.substitute(
        version=__version__,
        tokens=tokens,
        states=states,
        classes=classes,
        start=-1 if automaton.start is None else automaton.vocabulary.index(automaton.start),
        vocabulary=", ".join(map(_quoted, automaton.vocabulary)),
        class_names=", ".join(map(_quoted, names)),
        first=_rows(automaton.first),
        matrices=",\n".join(f"{{{_rows(matrix)}}}" for matrix in automaton.matrices),
        outcome=_rows(automaton.outcome),
        entropy=", ".join(map(repr, entropy(automaton.outcome).to(torch.float64).tolist())),
    )
    return write_atomically(path, text.encode())


def _rows(table: Tensor) -> str:
    return ",\n".join(f"{{{', '.join(map(repr, row))}}}" for row in table.tolist())


def _quoted(text: str) -> str:
    """A C string of the UTF-8 bytes; every byte that is not a letter or digit is written in octal."""
    return '"' + "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"\\{b:03o}" for b in text.encode()) + '"'
