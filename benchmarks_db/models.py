"""How is a model built? Shapes of transformers, size and compute of vision models, and the names people give them.

How a text is resolved, first hit wins:

1. the canonical name or an alias of `model_aliases.csv`, as written but for case;
2. the same after folding case and separators (`names.fold`): "Llama 3 8B" is `llama3-8b`;
3. the same without what never changes the shape: an organisation in front ("meta-llama/"), "Meta-", and the tokens
   -instruct, -chat, -it, -hf, -uncased, -v0.1, a date, a quantisation (-bnb-4bit, -gptq, -awq) and the like;
4. for vision models, the same without a trailing image size or pretraining tag;
5. the spelling without any separator, where only one name fits it ("llama38b").

A text that names no size ("llama3", "bert") goes to the alias table's choice with `loose=True`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.names import same_decimals
from benchmarks_db.pack import Decoded, model_table
from benchmarks_db.tables import flag, number


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model; sizes in millions where the name says so, None = unknown or without meaning."""

    name: str
    kind: str  # decoder | moe | encoder | encoder-decoder | vision | profiled | size-only
    params_m: float | None = None
    active_params_m: float | None = None  # parameters one token meets (mixture of experts)
    layers: float | None = None  # encoder-decoder: of each half
    hidden: float | None = None
    heads: float | None = None
    kv_heads: float | None = None
    head_dim: float | None = None  # stated where it is not hidden / heads
    ffn_hidden: float | None = None  # of one expert in a mixture of experts
    gated_ffn: bool | None = None
    vocab: float | None = None
    max_seq_len: float | None = None  # the context limit, never a training length
    tied_embeddings: bool | None = None
    experts: float | None = None
    experts_per_token: float | None = None
    shared_experts: float | None = None
    dense_layers: float | None = None  # layers without experts
    dense_ffn: float | None = None  # their inner width
    attention_layers: float | None = None  # of hybrids: layers that attend
    recurrent_layers: float | None = None  # of hybrids: layers that carry a state instead (Mamba, linear attention)
    recurrent_width: float | None = None  # their inner width
    expert_hidden: float | None = None  # width in which tokens meet the routed experts, where it is not `hidden`
    q_lora_rank: float | None = None  # multi-head latent attention
    kv_lora_rank: float | None = None
    rope_head_dim: float | None = None  # the part of head_dim that carries positions
    v_head_dim: float | None = None
    image_size: float | None = None
    forward_gmacs: float | None = None  # multiply-adds of one sample's forward pass, in 1e9
    forward_activations_m: float | None = None  # outputs of convolutions and linear layers, one sample, in 1e6
    unit: str = ""  # what its measurements count
    units_per_sample: float | None = None  # of `unit`, where a sample holds several
    task: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ModelMatch:
    """What a person's text meant, and whether it fits several models (`loose`)."""

    model: ModelFacts
    loose: bool


_FLAGS = ("gated_ffn", "tied_embeddings")
_TEXT = ("name", "kind", "task", "source", "unit")
_FIELDS = tuple(ModelFacts.__dataclass_fields__)


def _facts(row: Mapping[str, str]) -> ModelFacts:
    values: dict[str, object] = {}
    for name in _FIELDS:
        if cell := row.get(name, ""):
            values[name] = cell if name in _TEXT else flag(cell) if name in _FLAGS else number(cell)
    return ModelFacts(**values)  # type: ignore[arg-type]


@cache
def _sizes() -> Mapping[str, tuple[ModelFacts, ...]]:
    return Decoded(model_table(), lambda rows: tuple(_facts(row) for row in rows))


@cache
def models() -> Mapping[str, ModelFacts]:
    """All models by canonical name; a vision model at 224 pixels, else at its smallest image size."""

    def chosen(rows: list[dict[str, str]]) -> ModelFacts:
        return _facts(next((row for row in rows if row["image_size"] == "224"), rows[0]))

    return Decoded(model_table(), chosen)


def image_sizes(name: str) -> tuple[ModelFacts, ...]:
    """The same model at every image size that the sources give (one entry for what has no image size)."""
    if name not in _sizes():
        raise UnknownName("model", name, models(), field="model")
    return _sizes()[name]


_VARIANT = re.compile(
    r"[\s\-_.](instruct|chat|hf|it|base|pt|sft|dpo|preview|uncased|cased|unsloth|bnb|[48]bit|gptq|awq|gguf|int[48]|fp8|bf16"
    r"|fp16|nf4|finetuned|v0\.1|v1(\.0)?|v1\.5|2[0-6][01]\d([0-3]\d)?|202\d{3}|text|model|orig|new)(?=$|[\s\-_.])"
)
_TIMM_TAG = re.compile(r"\.[a-z]\w*$")  # resnet50.a1_in1k
_VISION_TAG = re.compile(r"[\-_](\d{3}|in2[12]f?t?\d?k|in12k|in1k|ft|22kft1k|miil|sam|ap|ns|ra|augreg|pretrained)$")


def _stripped(name: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """`name`, then `name` without what `pattern` finds, until nothing is found."""
    yield name
    while (shorter := pattern.sub("", name)) != name:
        yield (name := shorter)


def _spellings(text: str) -> Iterator[str]:
    """Ever shorter spellings of a model's name."""
    name = text.strip().casefold()
    yield name
    name = name.rsplit("/", 1)[-1]
    yield name
    name = re.sub(r"^meta[\s_-]", "", name)
    yield from _stripped(name, _VARIANT)
    yield from _stripped(_TIMM_TAG.sub("", name), _VISION_TAG)


def resolve_model(text: str) -> ModelMatch:
    """The model that a person's text names; UnknownName with near names otherwise.

    >>> resolve_model("meta-llama/Meta-Llama-3-8B").model.name
    'llama3-8b'
    """
    table = model_table()
    for name in _spellings(text):
        if name in table:
            return ModelMatch(models()[name], False)
        if found := table.lookup(name):
            return ModelMatch(models()[found[0]], found[1])
    for name in _spellings(text):
        if (only := table.squeezed(name)) and same_decimals(name, only):
            return ModelMatch(models()[only], False)
    if not text.strip():
        raise WorkloadError("name a model", field="model", value=text)
    raise UnknownName("model", text, table.names, field="model", spellings=table.spellings())
