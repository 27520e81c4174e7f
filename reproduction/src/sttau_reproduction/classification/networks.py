"""All networks of the paper's experiments: a method with all its settings on one data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

from sttau_reproduction.classification import variants

#: The paper's grids: rates of variational dropout, and (μ, ρ) that Bayes by Backprop begins with.
RATES = (0.05, 0.1, 0.15)
PRIORS = tuple(product((0.0, 0.01), (-1, -2, -3, -4)))
#: ρ that are also tried under a narrower prior, N(0, 0.1²): the paper does not say what its prior is.
NARROW = (-3, -4)

#: What networks are called in tables.
TITLES: dict[str, str] = {
    "lstm": "LSTM",
    "ensemble": "deep ensemble of 10",
    "bayes": "BBB",
    "bayes-tuned": "BBB, tuned here",
    "dropout": "VD",
    "dropout-tuned": "VD, tuned here",
    "state-regularized": "state-regularized",
    "st-tau-classes": "ST-τ, k = classes",
    "st-tau-10": "ST-τ, k = 10",
    "st-tau-100": "ST-τ, k = 100",
    "st-tau-classes-plain": "ST-τ, k = classes, no peepholes",
    "st-tau-10-plain": "ST-τ, k = 10, no peepholes",
    "st-tau-best": "ST-τ, mixed states",
    "lstm-best": "LSTM, matched training",
    "st-tau-ensemble": "ensemble of five ST-τ, mixed states",
    "lstm-best-ensemble": "ensemble of five LSTMs, matched training",
    "laplace": "LSTM, matched training, Laplace",
    "sp-gru": "SP-GRU, 128 units",
    "lstm-patches": "LSTM, patches of 8",
    "laplace-patches": "LSTM, patches of 8, Laplace",
    "sp-gru-patches": "SP-GRU, patches of 8",
    "automaton": "one automaton, k = 32",
    "automaton-memory": "one automaton, k = 64, memory",
    "automata": "mixture of four automata, k = 16",
    "automata-memory": "mixture of four automata, k = 16, memory",
    "automata-distilled": "mixture of four automata, k = 16, distilled",
    **{f"st-tau-{k}-learned": f"ST-τ, k = {k}" for k in (20, 50)},
    **{f"st-tau-{k}-fixed": f"ST-τ, k = {k}, τ = 1" for k in (2, 10, 20, 50)},
    **{f"dropout-{rate}": f"VD, rate {rate}" for rate in RATES},
    **{f"bayes-{mean}{rho}": f"BBB, μ = {mean}, ρ = {rho}" for mean, rho in PRIORS},
    **{f"bayes-narrow{rho}": f"BBB, ρ = {rho}, narrow prior" for rho in NARROW},
    **variants.TITLES,
}
#: Networks that are tried with a part of the updates, to choose by validation error.
TRIED = (
    *(f"dropout-{rate}" for rate in RATES),
    *(f"bayes-{mean}{rho}" for mean, rho in PRIORS),
    *(f"bayes-narrow{rho}" for rho in NARROW),
)

MEMBERS = 10  # of the ensemble: the networks ``lstm`` of seeds 0, 1 …

_CLASSES = {"bih": 5, "imdb": 2, "bih_inter_patient": 5}
_HIDDEN = {"bih": 128, "imdb": 256, "bih_inter_patient": 128}
#: What the paper chose on its grids.
_CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "bih": {
        "dropout": {"dropout": 0.05, "input_dropout": 0.0},  # one feature: without it nothing could be read
        "bayes": {"mean": 0.01, "rho": -3.0, "prior_scale": 1.0},
    },
    "imdb": {"dropout": {"dropout": 0.1}, "bayes": {"mean": 0.0, "rho": -3.0, "prior_scale": 1.0}},
}
#: And what is chosen here, by the lowest validation error among ``TRIED``, where it is another.
_TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "bih": {"dropout": {"dropout": 0.1}, "bayes": {"rho": -4.0}},
    "imdb": {"dropout": {"dropout": 0.05}, "bayes": {"rho": -4.0}},
}
_BIH = {"updates": 50_000, "batch_size": 256, "learning_rate": 0.001, "validate_every": 1000, "selection": "error"}

#: How the paper trains.
_TRAINING: dict[str, dict[str, Any]] = {
    "bih": _BIH,
    "imdb": _BIH | {"updates": 20_000, "batch_size": 8, "bucket_batches": 50},
    "bih_inter_patient": _BIH | {"updates": 10_000},
}


#: And where it only tries.
_TRIAL: dict[str, dict[str, Any]] = {
    "bih": {"updates": 10_000, "validate_every": 2000},
    "imdb": {"updates": 8000, "validate_every": 2000},
}


class Recipe(NamedTuple):
    """Our own configuration for a data set, chosen on validation data."""

    layer: Mapping[str, Any]  # of the finite-state network alone
    paths: int  # that it is trained on together
    shared: Mapping[str, Any]  # settings that the LSTM with matched training has too
    training: Mapping[str, Any]


#: ``st-tau-best``, and ``lstm-best``, which is trained in the same way; reproduction/docs/log.md tells how they were
#: chosen.
_BEST_BIH = Recipe(
    layer={"num_states": 16, "readout": "cell", "peephole": True, "temperature": 64.0, "gain": 2.0},
    paths=2,
    shared={"hidden_size": 256, "memory": 187, "model": {"dropout": 0.1, "input_noise": 0.05}},
    training={
        "updates": 20_000, "batch_size": 256, "learning_rate": 0.01, "schedule": "cosine", "average": 0.999,
        "validate_every": 1000, "selection": "nll",
    },
)  # fmt: skip
BEST: dict[str, Recipe] = {
    "bih": _BEST_BIH,
    "imdb": Recipe(
        layer={"num_states": 16, "readout": "state", "peephole": True, "temperature": 64.0, "gain": 4.0},
        paths=4,
        shared={"memory": 300, "embedding_scale": 0.1, "model": {"dropout": 0.5, "word_dropout": 0.3}},
        training={
            "updates": 2800, "batch_size": 32, "bucket_batches": 50, "learning_rate": 0.002, "schedule": "constant",
            "weight_decay": 0.1, "average": 0.999, "validate_every": 100, "selection": "nll",
        },
    ),
    "bih_inter_patient": _BEST_BIH._replace(training={**_BEST_BIH.training, "updates": 10_000}),
}  # fmt: skip

#: How many are trained, seeds 0, 1 …; one where nothing is said.
SEEDS = {
    "lstm": MEMBERS,
    "st-tau-best": 5,
    "lstm-best": 5,
    "automaton": 3,
    "automata": 3,
    "automaton-memory": 5,
    "automata-memory": 5,
    "automata-distilled": 5,
    "lstm-patches": 5,
    "laplace-patches": 5,
} | {f"st-tau-{states}{cell}": 5 for states in ("classes", "10") for cell in ("", "-plain")}
#: And on one data set alone.
_SEEDS_ON = {"bih": dict.fromkeys(("dropout", "bayes", "dropout-tuned", "bayes-tuned"), 5)}


#: Probabilistic automata: ST-τ GRUs that are trained and read exactly, one or several that are trained together;
#: reproduction/docs/log.md tells how they were chosen.
_JOINT: dict[str, Any] = {"embedding_scale": 0.1, "num_states": 16, "size": 4, "joint": 0.5}
_AUTOMATA: dict[str, dict[str, dict[str, Any]]] = {
    "bih": {
        "automaton": {"hidden_size": 256, "num_states": 32, "patch_size": 8},
        "automaton-memory": {"hidden_size": 256, "num_states": 64, "patch_size": 16, "memory": 12},
    },
    "imdb": {
        "automata": {**_JOINT, "model": {"word_dropout": 0.3}},
        "automata-memory": {**_JOINT, "model": {"word_dropout": 0.4}, "memory": 100},
        "automata-distilled": {**_JOINT, "model": {"word_dropout": 0.4}, "memory": 100},
    },
}
_AUTOMATA_TRAINING: dict[str, dict[str, Any]] = {
    "automaton": {**BEST["bih"].training, "updates": 14_000},
    "automaton-memory": {**BEST["bih"].training, "updates": 14_000},
    "automata": {**BEST["imdb"].training, "updates": 5000, "validate_every": 500},
    "automata-memory": {**BEST["imdb"].training, "updates": 6000, "validate_every": 500, "weight_decay": 0.05},
    "automata-distilled": {**BEST["imdb"].training, "updates": 10_000, "validate_every": 500, "weight_decay": 0.05},
}
#: Networks that learn from the mean prediction of LSTMs with matched training, and how many of those there are.
_DISTILLED = {"automata-distilled": 5}


@dataclass(frozen=True)
class Network:
    """A method with all its settings on one data set, to be trained under several seeds.

    Attributes:
        name: Name of the network, the same on every data set; a key of :data:`TITLES`.
        data: ``bih``, ``imdb`` or ``bih_inter_patient``.
        method: Name of the method in ``sttau.methods``.
        settings: Settings for ``sttau.methods.build``. ``size`` of an ensemble counts members, which are the networks
            of other cells with otherwise equal settings; ``member`` is their method, if its name is not that of its
            cell.
        training: Arguments of ``fit``, and ``selection``, the validation metric that chooses the weights: ``error`` or
            ``nll``.
        seeds: Number of seeds.
        part: Part of the data that is used, as ``splits.load_splits`` takes it; all of it if empty.

    Example:
        >>> find("imdb", "st-tau-classes").settings["num_states"]
        2
    """

    name: str
    data: str
    method: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    seeds: int
    part: Mapping[str, int] = field(default_factory=dict)


def _declare(data: str) -> list[Network]:
    sizes: dict[str, Any] = {"cell": "lstm", "hidden_size": _HIDDEN[data]}
    if data == "imdb":
        sizes["embedding_size"] = _HIDDEN[data]
    kind = "imdb" if data == "imdb" else "bih"
    chosen = _CHOSEN[kind]
    tuned = {method: chosen[method] | changed for method, changed in _TUNED[kind].items()}
    if data not in _TRIAL:  # what the paper does not have follows our own choice
        chosen, tuned = chosen | tuned, {}

    def states(number: int, learned: bool = True) -> dict[str, Any]:
        """As the paper's results were obtained: the head reads u_t, and gates see the cell through peepholes."""
        return {
            "num_states": number, "readout": "cell", "temperature": 1.0, "learn_temperature": learned, "peephole": True
        }  # fmt: skip

    def plain(number: int) -> dict[str, Any]:
        return {name: value for name, value in states(number).items() if name != "peephole"}

    found: dict[str, tuple[str, dict[str, Any]]] = {
        "lstm": ("lstm", {}),
        "ensemble": ("ensemble", {"size": MEMBERS}),
        **{method: (method, settings) for method, settings in chosen.items()},
        **{f"{method}-tuned": (method, settings) for method, settings in tuned.items()},
        "state-regularized": ("state-regularized", {"num_states": 10, "readout": "cell", "peephole": True}),
        "st-tau-classes": ("st-tau", states(_CLASSES[data])),
        "st-tau-10": ("st-tau", states(10)),
    }
    if data in _TRIAL:
        found["st-tau-classes-plain"] = ("st-tau", plain(_CLASSES[data]))
        found["st-tau-10-plain"] = ("st-tau", plain(10))
    if data == "imdb":
        found["st-tau-100"] = ("st-tau", states(100))
        found |= {f"st-tau-{k}-learned": ("st-tau", states(k)) for k in (20, 50)}
        found |= {f"st-tau-{k}-fixed": ("st-tau", states(k, learned=False)) for k in (2, 10, 20, 50)}
    networks = [
        Network(name, data, method, sizes | settings, _TRAINING[data], _seeds(data, name))
        for name, (method, settings) in found.items()
    ]
    if data in _TRIAL:
        tried: dict[str, tuple[str, dict[str, Any]]] = {
            **{f"dropout-{rate}": ("dropout", chosen["dropout"] | {"dropout": rate}) for rate in RATES},
            **{
                f"bayes-{mean}{rho}": ("bayes", chosen["bayes"] | {"mean": mean, "rho": float(rho)})
                for mean, rho in PRIORS
            },
            **{
                f"bayes-narrow{rho}": ("bayes", chosen["bayes"] | {"rho": float(rho), "prior_scale": 0.1})
                for rho in NARROW
            },
        }
        shorter = _TRAINING[data] | _TRIAL[data]
        networks += [
            Network(name, data, method, sizes | settings, shorter, 1) for name, (method, settings) in tried.items()
        ]
    best = BEST[data]
    drawn = {**best.layer, "model": {**best.shared["model"], "paths": best.paths}}
    for name, method, settings in (("st-tau-best", "st-tau", drawn), ("lstm-best", "lstm", {})):
        networks.append(Network(name, data, method, {**sizes, **best.shared, **settings}, best.training, SEEDS[name]))
    for name, member in (("st-tau-ensemble", networks[-2]), ("lstm-best-ensemble", networks[-1])):
        together = {**member.settings, "member": member.method, "size": member.seeds}
        networks.append(replace(member, name=name, method="ensemble", settings=together, seeds=1))
    if data in _TRIAL:
        matched = next(network for network in networks if network.name == "lstm-best")
        networks += _laplace_and_sampling_free(matched)
        for name, own in _AUTOMATA[data].items():
            settings = {**sizes, "cell": "gru", "mode": "exact", **own}
            method = "mixture" if "size" in own else "st-tau"
            training = dict(_AUTOMATA_TRAINING[name])
            if name in _DISTILLED:
                taught = {"method": matched.method, "settings": matched.settings, "training": matched.training}
                training["teacher"] = taught | {"members": _DISTILLED[name]}
            networks.append(Network(name, data, method, settings, training, SEEDS[name]))
    return [*networks, *variants.variants_of(networks)]


def _laplace_and_sampling_free(matched: Network) -> list[Network]:
    """Both in the matched training, and the LSTM they compare with where that is another one.

    SP-GRU has no fused kernel: its time is that of its steps, whatever the batch. It is smaller so that it can be
    trained on a CPU. Heartbeats are read in patches of 8 samples, in half as many updates; reviews in batches four
    times as large, with twice the learning rate, in a quarter of the updates.
    """
    small = {**matched.settings, "hidden_size": 128}
    suffix, plain, training = "", matched, {**matched.training}
    if matched.data == "bih":
        small |= {"patch_size": 8, "memory": 24}
        suffix = "-patches"
        training |= {"updates": 10_000}
        plain = replace(matched, name=f"lstm{suffix}", settings=small, training=training)
    else:
        small["embedding_size"] = 128
        training |= {"updates": 700, "batch_size": 128, "learning_rate": 0.004, "average": 0.996, "validate_every": 50}
    gaussian = {**small, "cell": "gru", "rho": -5.0, "prior_scale": 0.5}
    found = [
        replace(plain, name=f"laplace{suffix}", method="laplace", settings={**plain.settings, "size": 10}),
        replace(plain, name=f"sp-gru{suffix}", method="sp-gru", settings=gaussian, training=training),
    ]
    return [
        replace(network, seeds=_seeds(network.data, network.name))
        for network in ([] if plain is matched else [plain]) + found
    ]


def _seeds(data: str, name: str) -> int:
    return {**SEEDS, **_SEEDS_ON.get(data, {})}.get(name, 1)


#: Every network, data set by data set.
NETWORKS: tuple[Network, ...] = tuple(network for data in _CLASSES for network in _declare(data))


def declared(data: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that there are networks of on a data set.

    Example:
        >>> declared("bih", ["lstm", "st-tau-100"])
        ('lstm',)
    """
    there = {network.name for network in NETWORKS if network.data == data}
    return tuple(name for name in names if name in there)


def find(data: str, name: str) -> Network:
    """Return a network by its data set and its name."""
    for network in NETWORKS:
        if (network.data, network.name) == (data, name):
            return network
    known = ", ".join(network.name for network in NETWORKS if network.data == data)
    raise ValueError(f"there is no network {name!r} on {data!r}; known there: {known or 'none'}")


_QUICK_PART = {"train": 2000, "validation": 500, "test": 1000}
_QUICK_SIZES = {"hidden_size": 16, "embedding_size": 16, "size": 2, "member_size": 2}


def make_quick(network: Network) -> Network:
    """Return the same network much smaller, for a part of the data and a few updates: to see that everything works.

    Example:
        >>> make_quick(find("bih", "ensemble")).settings["size"]
        2
    """
    settings = {**network.settings, **{name: n for name, n in _QUICK_SIZES.items() if name in network.settings}}
    training = {**network.training, "updates": 40, "batch_size": 32, "validate_every": 20}
    if "teacher" in training:
        teacher = training["teacher"]
        taught = make_quick(replace(network, settings=teacher["settings"], training=teacher["training"]))
        training["teacher"] = {**teacher, "settings": taught.settings, "training": taught.training, "members": 2}
    part = _QUICK_PART | ({"time": 60} if network.data == "imdb" else {})
    return replace(network, settings=settings, training=training, seeds=min(network.seeds, 2), part=part)
