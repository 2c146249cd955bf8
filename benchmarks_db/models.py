"""How is a model built? Shapes of transformers, size and compute of vision models, and the names people give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from benchmarks_db.errors import UnknownName
from benchmarks_db.names import fold
from benchmarks_db.tables import DATA, flag, number, read


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model; sizes in millions where the name says so, None = unknown or without meaning."""

    name: str
    kind: str  # decoder | moe | encoder | encoder-decoder | vision | profiled | size-only
    params_m: float | None = None
    active_params_m: float | None = None  # parameters one token meets (mixture of experts)
    layers: float | None = None
    hidden: float | None = None
    heads: float | None = None
    kv_heads: float | None = None
    head_dim: float | None = None
    ffn_hidden: float | None = None  # of one expert in a mixture of experts
    gated_ffn: bool | None = None
    vocab: float | None = None
    max_seq_len: float | None = None  # the context limit, never a training length
    tied_embeddings: bool | None = None
    experts: float | None = None
    experts_per_token: float | None = None
    shared_experts: float | None = None
    dense_layers: float | None = None  # first layers without experts
    dense_ffn: float | None = None  # their inner width
    image_size: float | None = None
    forward_gmacs: float | None = None  # multiply-adds of one sample's forward pass, in 1e9
    forward_activations_m: float | None = None  # outputs of convolutions and linear layers, one sample, in 1e6
    task: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ModelMatch:
    """What a person's text meant, and whether it fits several models (`loose`)."""

    model: ModelFacts
    loose: bool


_FLAGS = ("gated_ffn", "tied_embeddings")
_TEXT = ("name", "kind", "task", "source")


def _facts(row: Mapping[str, str]) -> ModelFacts:
    values: dict[str, object] = {}
    for field in fields(ModelFacts):
        cell = row.get(field.name, "")
        values[field.name] = cell if field.name in _TEXT else flag(cell) if field.name in _FLAGS else number(cell)
    return ModelFacts(**values)  # type: ignore[arg-type]


@cache
def _tables() -> tuple[dict[str, ModelFacts], dict[str, tuple[ModelFacts, ...]]]:
    sizes: dict[str, list[ModelFacts]] = {}
    for row in read(DATA / "models.csv"):
        sizes.setdefault(row["name"], []).append(_facts(row))
    chosen = {
        name: next((f for f in found if f.image_size == 224), min(found, key=lambda f: f.image_size or 0))
        for name, found in sizes.items()
    }
    return chosen, {name: tuple(found) for name, found in sizes.items()}


def models() -> Mapping[str, ModelFacts]:
    """All models by canonical name; a vision model at 224 pixels, else at its smallest image size."""
    return _tables()[0]


def image_sizes(name: str) -> tuple[ModelFacts, ...]:
    """The same model at every image size that the sources give (one entry for what has no image size)."""
    return _tables()[1][name]


@cache
def _aliases() -> Mapping[str, tuple[str, bool]]:
    known = {fold(name): (name, False) for name in models()}
    for row in read(DATA / "model_aliases.csv"):
        known.setdefault(fold(row["alias"]), (row["model"], row["loose"] == "yes"))
    return known


_SUFFIX = re.compile(r"(instruct|chat|hf|it|base|v01)$")


def resolve_model(text: str) -> ModelMatch:
    """The model that a person's text names.

    >>> resolve_model("meta-llama/Meta-Llama-3-8B").model.name
    'llama3-8b'
    """
    known = _aliases()
    key = fold(text.strip().rsplit("/", 1)[-1])
    for attempt in (key, key.removeprefix("meta")):
        shorter = attempt
        while True:
            if found := known.get(shorter):
                return ModelMatch(models()[found[0]], found[1])
            stripped = _SUFFIX.sub("", shorter)
            if stripped == shorter:
                break
            shorter = stripped
    raise UnknownName("model", text, models(), field="model")
