"""Networks that are declared as changes of others: one thing at a time, and ensembles of networks that stand alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sttau_reproduction.classification.networks import Network

_WORDS = {2: "two", 5: "five"}
#: Members of the ensembles of two and five that are compared by cost, and their names in titles.
MEMBERS = {
    "st-tau-best": "ST-τ, mixed states",
    "lstm-best": "LSTMs, matched training",
    "dropout-best": "VD, matched training",
    "automaton-memory": "automata, k = 64, memory",
    "automata-memory": "mixtures of four automata, k = 16, memory",
}
#: Ensembles of these sizes; those that have a name already are left out.
ENSEMBLES = {
    f"{member}-ensemble-{size}": (member, size)
    for member in MEMBERS
    for size in _WORDS
    if (member, size) not in {("st-tau-best", 5), ("lstm-best", 5)}
}

#: What each variant of ``st-tau-best`` on reviews changes, and its title.
ABLATION = {
    "st-tau-best-gain": "gain 1 instead of 4",
    "st-tau-best-path": "one path instead of four",
    "st-tau-best-memory": "no memory at the start",
    "st-tau-best-average": "no averaging of weights",
}

_SEEDS = 2  # of each of them

TITLES = {
    "dropout-best": "VD, matched training",
    "dropout-paths": "VD, matched training, 4 paths",
    "st-tau-64": "ST-τ, mixed states, k = 64",
    **{name: f"ST-τ, mixed states, {change}" for name, change in ABLATION.items()},
    **{name: f"ensemble of {_WORDS[size]} {MEMBERS[member]}" for name, (member, size) in ENSEMBLES.items()},
}


def variants_of(networks: Sequence[Network]) -> list[Network]:
    """The networks of one data set that are declared by those there are already.

    Example:
        >>> from sttau_reproduction.classification.networks import find
        >>> find("imdb", "st-tau-best-gain").settings["gain"], find("imdb", "st-tau-best").settings["gain"]
        (1.0, 4.0)
    """
    known = {network.name: network for network in networks}
    if "dropout-tuned" not in known:  # nothing is tuned there
        return []
    best, plain = known["st-tau-best"], known["lstm-best"]
    dropout = known["dropout-tuned"].settings
    rates = {name: dropout[name] for name in ("dropout", "input_dropout") if name in dropout}
    made = [replace(plain, name="dropout-best", method="dropout", settings={**plain.settings, **rates})]
    if best.data == "bih":
        made.append(_many_states(best))
    if best.data == "imdb":
        model = {**plain.settings["model"], "paths": best.settings["model"]["paths"]}
        paths = replace(made[0], name="dropout-paths", seeds=1, settings={**made[0].settings, "model": model})
        made += [*_ablation(best), paths]
    known |= {network.name: network for network in made}
    return [*made, *(_ensemble(known[of], name, size) for name, (of, size) in ENSEMBLES.items() if of in known)]


def _many_states(best: Network) -> Network:
    """64 states, by the rule of reproduction/docs/log.md among all trials on heartbeats."""
    changed = {"num_states": 64, "temperature": 16.0, "gain": 1.0, "model": {**best.settings["model"], "paths": 1}}
    training = {**best.training, "updates": 10_000, "validate_every": 500}
    return replace(best, name="st-tau-64", settings={**best.settings, **changed}, training=training)


def _ablation(best: Network) -> list[Network]:
    settings: Mapping[str, Any] = best.settings
    best = replace(best, seeds=_SEEDS)
    one_path = {**settings, "model": {**settings["model"], "paths": 1}}
    forgetful = {name: value for name, value in settings.items() if name != "memory"}
    unaveraged = {name: value for name, value in best.training.items() if name != "average"}
    return [
        replace(best, name="st-tau-best-gain", settings={**settings, "gain": 1.0}),
        replace(best, name="st-tau-best-path", settings=one_path),
        replace(best, name="st-tau-best-memory", settings=forgetful),
        replace(best, name="st-tau-best-average", training=unaveraged),
    ]


def _ensemble(member: Network, name: str, size: int) -> Network:
    """A cell that needs no training but that of its members."""
    settings = {**member.settings, "member": member.method, "size": size}
    if "size" in member.settings:  # networks that are trained together are one member
        settings["member_size"] = member.settings["size"]
    return replace(member, name=name, method="ensemble", settings=settings, seeds=1)
