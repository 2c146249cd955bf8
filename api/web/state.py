"""What does the form hold? The state of the page, which is its URL, and the request that it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from api.deps import bounded
from benchmarks_db.errors import WorkloadError
from estimator.request.files import read_text
from estimator.request.trainers import trainer_of, translated
from estimator.request.workload import Workload, nested

CLOUDS = ("aws", "gcp", "azure")
MARKETS = ("on-demand", "spot", "reserved", "block")
UNITS = ("tokens", "samples", "images")
MOST_COMPARED = 4
PLANS = 24

TEXTS = (
    "model", "config", "method", "amount", "unit", "epochs", "seq_len", "image_size", "deadline", "budget",
    "confidence", "gpu", "region", "max_nodes", "precision", "global_batch", "micro_batch", "optimizer",
    "activation_checkpointing", "sharding", "software", "sort", "own_gpu", "own_count", "own_usd",
    "measured",
)  # fmt: skip
VIEW = ("order", "pick", "show")
LISTS = ("cloud", "market", "compare")
PLAIN = (
    "method", "epochs", "seq_len", "image_size", "deadline", "budget", "confidence", "max_nodes", "precision",
    "global_batch", "micro_batch", "optimizer", "activation_checkpointing", "sharding", "software", "sort",
)  # fmt: skip
LONGEST = 20_000  # characters of a pasted configuration; it travels in the URL

EXAMPLE = {"model": "llama3-8b", "method": "lora", "amount": "50M", "unit": "tokens", "deadline": "24h"}


@dataclass(frozen=True)
class State:
    """Every field of the form as text, as it was written; an empty one was not given."""

    texts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.texts.get(name, "")

    def has(self, name: str, value: str) -> bool:
        """Is this box ticked? None ticked means all."""
        chosen = self.lists.get(name, ())
        return not chosen or value in chosen

    def with_(self, **changes: str) -> State:
        """The same state with other texts."""
        return replace(self, texts={**self.texts, **changes})

    @property
    def query(self) -> str:
        """The state as a query, without what was not given."""
        return self.url_with()

    def url_with(self, **changes: str) -> str:
        """The query of the state with other texts; an empty one is left out."""
        texts = {**self.texts, **changes}
        pairs = [(name, texts[name]) for name in (*TEXTS, *VIEW) if texts.get(name)]
        pairs += [(name, value) for name in LISTS for value in self.lists.get(name, ())]
        return "?" + urlencode(pairs)


def state_of(pairs: Iterable[tuple[str, str]]) -> State:
    """The state in a query; the last of a repeated text counts. Without any query: an example with its answer."""
    given = [(name, value.strip()) for name, value in pairs]
    if not given:
        return State(texts=EXAMPLE)
    texts = {name: value for name, value in given if name in (*TEXTS, *VIEW)}
    for name, value in given:
        if name in UNITS and value:  # as the API writes it
            texts |= {"amount": value, "unit": name}
    lists = {name: tuple(dict.fromkeys(v for n, v in given if n == name and v)) for name in LISTS}
    for name, every in (("cloud", CLOUDS), ("market", MARKETS)):
        if set(every) <= set(lists[name]):
            lists[name] = ()
    lists["compare"] = lists["compare"][:MOST_COMPARED]
    texts = {name: value for name, value in texts.items() if value}
    return State(texts, {name: values for name, values in lists.items() if values})


@dataclass(frozen=True)
class Pasted:
    """What was pasted, as a part of a request, and what its reader would tell."""

    body: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_config: bool = False  # a model's config.json, not a request


def pasted(state: State) -> Pasted:
    """A config.json, a request, or the config of a trainer; WorkloadError for what is none of them."""
    text = state["config"]
    if len(text) > LONGEST:
        raise WorkloadError(f"at most {LONGEST:,} characters can be pasted here", field="config", value=len(text))
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return Pasted()
    try:
        content = read_text(text, name="what was pasted")
        if "model_type" in content or "architectures" in content:
            return Pasted({"hf_config": content}, is_config=True)
        if trainer_of(content) is None:
            return Pasted(content)
        found = translated(content)
    except WorkloadError as error:
        raise WorkloadError(error.message, field="config", nearest=error.nearest) from None
    lost = [f"not planned: {', '.join(found.unsupported)}"] if found.unsupported else []
    return Pasted(found.request, notes=(f"read as a config of {found.trainer}", *found.notes, *lost))


def body_of(state: State) -> dict[str, Any]:
    """The request body of the state: what was pasted, with the fields of the form laid over it.

    Raises WorkloadError where what was pasted cannot be read.
    """
    found = pasted(state)
    base = dict(found.body)
    flat: dict[str, object] = {}
    if state["model"] and not found.is_config:
        flat["model"] = state["model"]
        base = {key: value for key, value in base.items() if key not in ("architecture", "custom", "hf_config")}
    if state["method"]:
        flat["method"] = state["method"]
    if state["amount"]:
        flat[state["unit"] or "tokens"] = state["amount"]
        base = {key: value for key, value in base.items() if key not in UNITS}
    flat |= {name: state[name] for name in PLAIN if state[name]}
    for name in ("gpu", "region"):
        if state[name]:
            flat[name] = [part.strip() for part in state[name].split(",") if part.strip()]
    own = [_own(state)] if state["own_gpu"] else []
    for name in ("cloud", "market"):
        if chosen := state.lists.get(name):
            flat[name] = [*chosen, "own"] if own or base.get("own") else list(chosen)
    if own:
        flat["own"] = own
    if state["measured"]:
        flat["measured"] = [state["measured"]]
    return nested(flat, base)


def _own(state: State) -> dict[str, Any]:
    machine: dict[str, Any] = {"name": "own", "gpu": state["own_gpu"]}
    if state["own_count"]:
        machine["gpus_per_node"] = state["own_count"]
    if state["own_usd"]:
        machine["usd_per_hour"] = state["own_usd"]
    return machine


def workload_of(state: State) -> Workload:
    """The request of the state as the planner takes it, with the derivation of every plan.

    Raises WorkloadError for what cannot be understood, and for paths, which a server does not open.
    """
    body = body_of(state)
    options = body.get("options")
    chosen = options if isinstance(options, dict) else {}
    return bounded(Workload.model_validate({**body, "options": {**chosen, "top": PLANS, "explain": True}}))


def unfolded(state: State) -> State:
    """A pasted training YAML moved into the fields of the form; what the form has no field for stays pasted."""
    found = pasted(state)
    if found.is_config or not found.body:
        return state.with_(model="") if found.is_config else state
    rest = dict(found.body)
    limits = dict(rest.pop("constraints", None) or {}) if isinstance(rest.get("constraints"), Mapping) else {}
    options = dict(rest.pop("options", None) or {}) if isinstance(rest.get("options"), Mapping) else {}
    texts = {name: "" for name in TEXTS if name not in ("unit", "method")} | {"unit": "tokens", "method": "full"}
    lists: dict[str, tuple[str, ...]] = {}
    for unit in UNITS:
        if isinstance(rest.get(unit), str | int | float):
            texts |= {"amount": _plain(rest.pop(unit)), "unit": unit}
    for holder in (rest, limits, options):
        for name in list(holder):
            value = holder[name]
            if name in (*PLAIN, "model") and isinstance(value, str | int | float) and not isinstance(value, bool):
                texts[name] = _plain(holder.pop(name))
    for plural, name in (("gpus", "gpu"), ("regions", "region"), ("clouds", "cloud"), ("markets", "market")):
        if not isinstance(limits.get(plural), str | list):
            continue
        value = limits.pop(plural)
        names = [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(v) for v in value]
        if name in LISTS:
            lists[name] = tuple(names)
        else:
            texts[name] = ", ".join(names)
    rest |= {key: value for key, value in (("constraints", limits), ("options", options)) if value}
    remarks = "".join(f"# {' '.join(note.split())}\n" for note in found.notes)
    texts["config"] = remarks + (as_yaml(rest) if rest else "")
    return State({name: value for name, value in texts.items() if value}, lists)


def _plain(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def as_yaml(body: Mapping[str, Any]) -> str:
    """A request as the YAML file that the command line reads."""
    import yaml

    text: str = yaml.safe_dump(json.loads(json.dumps(body)), sort_keys=False, allow_unicode=True, width=100)
    return text
