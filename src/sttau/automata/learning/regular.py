"""Learning of regular languages: training that ends when an automaton can be extracted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from automata.fa.dfa import DFA

from sttau.automata.extraction import extract_dfa
from sttau.automata.learning.attempt import IN_A_ROW, Deadline, train_on_batches, train_on_tree
from sttau.automata.learning.network import new_network
from sttau.automata.learning.prefix_tree import PrefixTree, check_same_alphabet, string_vocabulary
from sttau.automata.learning.start import Start, start_of
from sttau.automata.learning.verdict import Verdict, consistent_verdict, count_wrong_by, growth, nothing_fits
from sttau.checks import as_integer
from sttau.data.dataset import SequenceDataset
from sttau.inference import predict
from sttau.layers import LayerMode
from sttau.models import Head, SequenceClassifier
from sttau.seeds import derive_seed
from sttau.training import Update

_log = logging.getLogger(__name__)

_TRAINING = 0.95  # share of the time limit for all attempts; the rest is for the verdict

#: Called with the number of the attempt, from 1, every update and the model.
Callback = Callable[[int, Update, SequenceClassifier], None]


@dataclass(frozen=True)
class Learned:
    """A network trained for extraction, and the result of its training.

    Attributes:
        model: Network in eval mode, with the vocabulary of its data.
        log: Updates of the best attempt: loss and τ.
        attempts: Number of attempts made.
        best_attempt: Number of the attempt that was kept, from 1.
        loss: Mean negative log-likelihood of the training labels, in nats.
        wrong: Number of training and validation strings that the network or its extracted automaton labels wrongly.
        reached: Whether the loss reached the target and no label is wrong or, where some labels must be wrong, whether
            the network is the automaton that the labels make likely. It does not prove that the true language was
            found.
        merged: Automaton from which the first attempt started: that of state merging, or the most probable one if some
            labels are wrong; None without one.
        reason: Why the goal was not reached and what to try; empty if it was reached.
        verdict: What the labels prove, make likely or leave open, with the evidence.
    """

    model: SequenceClassifier
    log: list[Update]
    attempts: int
    best_attempt: int
    loss: float
    wrong: int
    reached: bool
    merged: DFA | None = None
    reason: str = ""
    verdict: Verdict = field(default_factory=lambda: Verdict("failed", "the labels were not judged"))

    @property
    def automaton(self) -> DFA:
        """The automaton of the network, so that all functions of automata accept the result."""
        return extract_dfa(self.model, start=start_of(self.model)).dfa


def learn(
    train: SequenceDataset,
    validation: SequenceDataset | None = None,
    *,
    num_states: int = 10,
    hidden_size: int = 32,
    embedding_size: int = 16,
    mode: LayerMode = "exact",
    head: Head = "dense",
    batch_size: int | None = None,
    learning_rate: float = 0.02,
    updates: int = 2000,
    attempts: int = 40,
    target_loss: float = 1e-4,
    warm_start: bool = True,
    seconds: float | None = None,
    seed: int = 0,
    callbacks: Callback | Iterable[Callback] = (),
) -> Learned:
    """Train a GRU-form network on the labeled strings of a regular language until an automaton can be extracted.

    Exact training uses the whole training set in every update, as a tree of prefixes. The first attempt starts from the
    automaton that state merging finds in the training strings (:func:`learn_by_merging`), if the network has enough
    states for it; the others start from random weights. Training converges within a few hundred updates or not at all,
    so an attempt without progress is ended and a new one starts from other weights. Every second attempt begins with
    the shortest strings and adds longer ones as the loss falls: languages whose strings can only be distinguished by
    counting several symbols, such as Tomita 5, need it.

    An attempt succeeds if the loss reaches the target and both the network and its extracted automaton label all
    training and validation strings correctly.

    If no automaton of at most k states does, some labels may be wrong: the first attempt then starts from the most
    probable automaton (:func:`learn_with_noise`) and succeeds if the network is proved equal to it and the labels make
    it likely. Automata of later attempts, from random weights, are candidates too.

    If no attempt succeeds, or the labels do not determine the language, a warning is logged, and the result and the
    saved model hold the reason and the verdict. The true language is not used.

    Args:
        train: Labeled strings with the start token.
        validation: Strings that a successful attempt must label correctly too, up to the estimated rate of wrong
            labels; preferably longer ones. Without it, a fifth of the training strings checks an automaton for labels
            of which some are wrong, which is then learned from all.
        num_states: Number of states k.
        hidden_size: Hidden size d.
        embedding_size: Size of the embedding.
        mode: ``exact``; ``soft`` and ``hard`` train on batches of samples.
        head: ``dense``, or ``halves`` (the paper's Algorithm 2).
        batch_size: Strings per update; if None, all of them for exact training, and 64 otherwise.
        learning_rate: Learning rate of Adam.
        updates: Largest number of updates per attempt.
        attempts: Largest number of attempts. The one with the smallest loss is returned if none succeeds.
        target_loss: Training loss, in nats per string, at which training ends.
        warm_start: Whether the first attempt of exact training on all strings starts from the automaton that state
            merging finds.
        seconds: Time limit; None for no limit. The search of an automaton has the first 70 % of it, attempts end at
            95 %; one step that is begun, such as an update, is finished.
        seed: Seed of all randomness.
        callbacks: Functions called with the number of the attempt, from 1, the update and the model.

    Example:
        >>> from sttau.automata import extract_dfa, tomita
        >>> from sttau.data import load
        >>> learned = learn(load("tomita1", "train"), load("tomita1", "validation"))
        >>> learned.reached, extract_dfa(learned.model, learned.model.vocabulary).equivalent_to(tomita(1))
        (True, Equivalence(equal=True, counterexample=None))
    """
    for name, value in (("updates", updates), ("attempts", attempts), ("hidden_size", hidden_size)):
        as_integer(name, value, 1)
    if batch_size is not None:
        as_integer("batch_size", batch_size, 1)
    if not target_loss > 0:
        raise ValueError(f"target_loss must be positive, got {target_loss}")
    if mode not in ("exact", "soft", "hard"):
        raise ValueError(f"mode must be 'exact', 'soft' or 'hard', got {mode!r}")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds must be positive, or None for no limit, got {seconds}")
    callbacks = (callbacks,) if callable(callbacks) else tuple(callbacks)
    tree = PrefixTree(train)
    if validation is not None:
        check_same_alphabet(train, validation)
    whole = mode == "exact" and batch_size is None
    deadline = Deadline(seconds).part(_TRAINING)
    start = Start.find(train, validation, num_states, seed, deadline) if warm_start and whole else Start()
    if start.problem or not (warm_start and whole):
        _check_one_label_each(tree, start.problem)
    best: Learned | None = None
    for attempt in range(attempts):
        model = new_network(
            train, num_states, hidden_size, embedding_size, mode, head, derive_seed(seed, "start", attempt)
        )

        def report(update: Update, number: int = attempt + 1, model: SequenceClassifier = model) -> None:
            for callback in callbacks:
                callback(number, update, model)

        warm = attempt == 0 and start.dfa is not None and start.imitated_by(model, tree.start, deadline)
        if warm and start.is_noisy:  # training on wrong labels would only change what is right
            log = [_first_update(model, tree, report)]
        elif whole:
            grows = attempt % 2 == 1 and not warm
            log = train_on_tree(model, tree, updates, learning_rate, target_loss, grows, report, deadline)
        else:
            log = train_on_batches(
                model, train, updates, batch_size or 64, learning_rate, target_loss, seed + attempt, report, deadline
            )
        with torch.no_grad():
            batches = [update.loss for update in log[-IN_A_ROW:]]
            loss = float(tree.loss(model)) if whole else sum(batches) / len(batches)
        model.eval()
        wrong = sum(_count_wrong(model, data) for data in (train, validation) if data is not None)
        if start.is_noisy:
            start = start.improved_by(model, train, validation, num_states, seed, deadline)
            reached = start.is_likely and start.is_that_of(model, train, validation)
        else:
            reached = loss <= target_loss and wrong == 0
        if best is None or (reached, -loss) > (best.reached, -best.loss):
            best = Learned(model, log, attempt + 1, attempt + 1, loss, wrong, reached, start.dfa)
        if reached or deadline.passed():
            break
    assert best is not None
    best = replace(best, attempts=attempt + 1)
    best = _judged(best, start, train, validation, num_states, target_loss, warm_start and whole, deadline)
    if not best.verdict:
        _log.warning("learn did not reach its goal: %s", best.reason or best.verdict)
    note = {"reached": best.reached, "reason": best.reason, "verdict": best.verdict.kind}
    best.model.set_note("learned", note | {"evidence": best.verdict.evidence, "noise": best.verdict.noise})
    return best


def _judged(
    best: Learned,
    start: Start,
    train: SequenceDataset,
    validation: SequenceDataset | None,
    num_states: int,
    target_loss: float,
    merged: bool,
    deadline: Deadline,
) -> Learned:
    """The result with its verdict and, if it failed, the reason."""
    if not best.reached:
        reason = _reason(best, start, train, validation, num_states, target_loss, merged, deadline)
        verdict = Verdict("failed", reason)
        if start.noisy is not None:
            verdict = replace(start.noisy.verdict(), kind="failed", evidence=reason)
        return replace(best, reason=reason, verdict=verdict)
    if start.noisy is not None:
        return replace(best, verdict=start.noisy.verdict())
    if len(train.class_names) != 2:
        return replace(best, verdict=Verdict("proved on the data", "all labels are right"))
    return replace(best, verdict=consistent_verdict(best.automaton, train, validation))


def _check_one_label_each(tree: PrefixTree, problem: str) -> None:
    """Raise an error if a string has several labels, which no network with these settings can learn."""
    if bool((tree.counts > 0).all(-1).any()):
        why = problem or "a stochastic language, or wrong labels that only exact training on all strings can recognize"
        raise ValueError(
            f"train has strings with several labels; use learn_stochastic for a stochastic language: {why}"
        )


def _first_update(model: SequenceClassifier, tree: PrefixTree, report: Callable[[Update], None]) -> Update:
    """The log entry of a network that needs no training."""
    with torch.no_grad():
        update = Update(
            1, 1, float(tree.loss(model)), (float(model.finite_state_layer.temperature),), gradient_norm=0.0
        )
    report(update)
    return update


def _reason(
    best: Learned,
    start: Start,
    train: SequenceDataset,
    validation: SequenceDataset | None,
    num_states: int,
    target_loss: float,
    merged: bool,
    deadline: Deadline,
) -> str:
    """Return why the goal was not reached, and what to try."""
    size = None if best.merged is None else len(best.merged.states)
    missed = count_wrong_by(best.merged, validation) if best.merged is not None else 0
    count = f"{best.attempts} attempt{'s' if best.attempts > 1 else ''}"
    parts = [f"after {count} the loss is {best.loss:.2g} (target {target_loss:g}) and {best.wrong} labels are wrong"]
    if deadline.passed():
        parts.append(f"the time limit of {deadline.seconds:g} seconds is over")
    if start.problem:
        parts.append(start.problem)
    elif merged and size is None:
        parts.append(nothing_fits(num_states) + _not_regular(train, None, 2 * num_states))
    elif size is not None and size > num_states:
        parts.append(
            f"state merging finds {size} states, more than num_states = {num_states}: raise num_states"
            + _not_regular(train, best.merged, 2 * num_states)
        )
    elif size is not None and missed:
        parts.append(
            f"the automaton of {size} states that fits the training strings labels {missed} validation strings "
            "wrongly, so the training strings do not determine the language: add strings, above all short ones"
        )
    else:
        parts.append("try more attempts or updates, another seed, or more states")
    return "; ".join(parts)


def _not_regular(train: SequenceDataset, dfa: DFA | None, largest: int) -> str:
    grown = growth(train, dfa, largest)
    return f". The language is probably not regular: {grown}" if grown else ""


def _count_wrong(model: SequenceClassifier, data: SequenceDataset) -> int:
    """Number of strings that the network or its extracted automaton labels wrongly."""
    vocabulary = string_vocabulary(data)
    by_network = predict(model, data.inputs, data.lengths).label == data.labels
    extracted = extract_dfa(model, vocabulary, start=vocabulary[int(data.inputs[0, 0])])
    by_automaton = extracted.accepts(data.inputs, data.lengths) == (data.labels == 1)
    return int((~(by_network & by_automaton)).sum())
