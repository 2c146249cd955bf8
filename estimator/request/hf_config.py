"""Which model is this? A Hugging Face `config.json` or an `architecture:` of a request as `ModelFacts`.

Parameters are counted from the shape (weights, biases and norms of each family), which agrees with the published
checkpoints to 0.1%; the tests hold the count against them. A `model_type` that is not listed works as long as it has
the usual keys, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts
from estimator.request.model_shape import Shape, forward_gmacs, kept_outputs_m, parameters
from estimator.request.workload import Architecture


def facts_of_architecture(architecture: Architecture, *, name: str = "custom architecture") -> ModelFacts:
    """A model by its shape. Left out: heads of 64 (or 128 from 2,048 hidden on), inner width 4 x hidden, gated FFN for
    decoders, the Llama vocabulary of 32,000; parameters are counted unless they are given.
    """
    a = architecture
    kind = a.kind or ("moe" if a.experts else "vision" if a.image_size else "decoder")
    vision = kind == "vision"
    heads = a.heads or max(1, a.hidden // (a.head_dim or (128 if a.hidden >= 2048 else 64)))
    kv_heads = a.kv_heads or heads
    if heads % kv_heads:
        raise WorkloadError(
            f"{kv_heads} does not divide the {heads} heads",
            field="architecture.kv_heads",
            value=kv_heads,
            nearest=("1", str(heads)),
        )
    if a.head_dim is None and a.hidden % heads:
        raise WorkloadError(
            f"{heads} heads do not divide hidden {a.hidden}; give head_dim", field="architecture.heads", value=heads
        )
    if kind == "moe" and not a.experts:
        raise WorkloadError("a mixture of experts needs experts", field="architecture.experts", nearest=("8",))
    if a.experts and (a.experts_per_token or 2) > a.experts:
        raise WorkloadError(
            f"{a.experts_per_token or 2} is above the {a.experts} experts",
            field="architecture.experts_per_token",
            value=a.experts_per_token,
            nearest=(str(a.experts),),
        )
    gated = a.gated_ffn if a.gated_ffn is not None else kind in ("decoder", "moe")
    shape = Shape(
        kind=kind,
        layers=a.layers,
        hidden=a.hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=a.head_dim or a.hidden // heads,
        ffn=a.ffn_hidden or 4 * a.hidden,
        gated=gated,
        vocab=0 if vision else a.vocab or 32_000,
        max_len=a.max_seq_len or 0,
        tied=bool(a.tied_embeddings) if a.tied_embeddings is not None else kind in ("encoder", "encoder-decoder"),
        norm_bias=not gated,
        experts=a.experts or 0,
        experts_per_token=(a.experts_per_token or 2) if a.experts else 0,
        shared_experts=a.shared_experts or 0,
        dense_layers=a.dense_layers or 0,
        dense_ffn=a.dense_ffn or 0,
        image_size=(a.image_size or 224) if vision else 0,
        patch=16,
        classes=1000,
    )
    facts = facts_of_shape(shape, name=name, source="the request", max_seq_len=a.max_seq_len)
    if a.params_m is None and a.active_params_m is None:
        return facts
    return replace(
        facts, params_m=a.params_m or facts.params_m, active_params_m=a.active_params_m or facts.active_params_m
    )


def facts_of_shape(shape: Shape, *, name: str, source: str, max_seq_len: int | None) -> ModelFacts:
    """`ModelFacts` of a counted shape."""
    total, active = parameters(shape)
    vision = shape.kind == "vision"
    return ModelFacts(
        name=name,
        kind=shape.kind,
        params_m=total / 1e6,
        active_params_m=active / 1e6 if shape.experts else None,
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim if shape.head_dim * shape.heads != shape.hidden else None,
        ffn_hidden=shape.ffn,
        gated_ffn=shape.gated,
        vocab=shape.vocab or None,
        max_seq_len=max_seq_len,
        tied_embeddings=shape.tied,
        experts=shape.experts or None,
        experts_per_token=shape.experts_per_token or None,
        shared_experts=shape.shared_experts or None,
        dense_layers=shape.dense_layers or None,
        dense_ffn=shape.dense_ffn or None,
        q_lora_rank=shape.q_lora or None,
        kv_lora_rank=shape.kv_lora or None,
        rope_head_dim=shape.rope_dim or None,
        v_head_dim=shape.v_dim or None,
        task="" if vision else "language",
        image_size=shape.image_size or None,
        forward_gmacs=forward_gmacs(shape) if vision else None,
        forward_activations_m=kept_outputs_m(shape) if vision else None,
        source=source,
    )


# --- Hugging Face ------------------------------------------------------------------------------------------------

_KEYS: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "n_embed", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_heads_kv",
                 "attn_config.kv_n_heads"),
    "head_dim": ("head_dim", "d_kv", "kv_channels"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size", "encoder_ffn_dim",
            "ffn_config.ffn_hidden_size"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "max_len": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx", "model_max_length",
                "max_sequence_length"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "ffn_config.moe_num_experts",
                "moe_num_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "ffn_config.moe_top_k", "moe_top_k",
                          "moe_k", "num_selected_experts"),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
    "tied": ("tie_word_embeddings",),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a `model_type` means beyond its numbers; None = read from the config or follow the rule in brackets."""

    kind: str = "decoder"
    gated: bool = True
    tied: bool = False  # the family's default when the config is silent
    norm_bias: bool = False  # LayerNorm (weight and bias) instead of RMSNorm
    linear_bias: bool = False  # biases on every linear layer
    qkv_bias: bool = False  # biases on query, key and value alone
    positions: bool = False  # learned positions
    extra_positions: int = 0
    norms: int = 2  # per layer
    qk_norm: bool = False
    ffn_factor: int = 4  # inner width over hidden when the config is silent
    max_len: int | None = None  # context when the config is silent
    multi_query: bool = False
    pooler: bool = False
    token_types: int = 0
    final_norm: bool = True
    embed_norm: bool = False


_LLAMA = Family()
_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(
        ("llama", "mistral", "ministral", "yi", "internlm", "internlm2", "internlm3", "baichuan", "aquila", "smollm3",
         "exaone", "arcee", "seed_oss", "llama4_text", "granite", "deepseek", "minicpm", "xverse"),
        _LLAMA,
    ),
    "qwen2": Family(qkv_bias=True),
    "qwen": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, norms=4),
    "gemma3_text": Family(tied=True, norms=4, qk_norm=True),
    "phi3": Family(),
    "phi": Family(gated=False, norm_bias=True, linear_bias=True, norms=1),
    "olmo": Family(norms=0, final_norm=False),
    "olmo2": Family(qk_norm=False),
    "stablelm": Family(norm_bias=True),
    "cohere": Family(tied=True, norms=1),
    "chatglm": Family(qkv_bias=True),
    "glm": Family(qkv_bias=True),
    "glm4": Family(qkv_bias=True, norms=4),
    "gpt2": Family(gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True, max_len=1024),
    "gpt_bigcode": Family(gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True, multi_query=True),
    "gpt_neo": Family(gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True),
    "gptj": Family(gated=False, norm_bias=True, norms=1),
    "gpt_neox": Family(gated=False, norm_bias=True, linear_bias=True),
    "opt": Family(gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True, extra_positions=2),
    "bloom": Family(gated=False, tied=True, norm_bias=True, linear_bias=True, embed_norm=True, max_len=2048),
    "falcon": Family(gated=False, tied=True, norm_bias=True, norms=1, max_len=2048),
    "mpt": Family(gated=False, tied=True, norm_bias=False),
    "starcoder2": Family(gated=False, norm_bias=True, linear_bias=True, tied=True),
    "persimmon": Family(gated=False, norm_bias=True, linear_bias=True),
    "nemotron": Family(gated=False, norm_bias=True),
    "mixtral": Family(kind="moe"),
    "qwen2_moe": Family(kind="moe", qkv_bias=True),
    "qwen3_moe": Family(kind="moe", qk_norm=True),
    "phimoe": Family(kind="moe", norm_bias=True),
    "olmoe": Family(kind="moe", qk_norm=True),
    "dbrx": Family(kind="moe"),
    "grok-1": Family(kind="moe", norms=4),
    "deepseek_v2": Family(kind="moe"),
    "deepseek_v3": Family(kind="moe"),
    "kimi_k2": Family(kind="moe"),
    "gpt_oss": Family(kind="moe", linear_bias=True),
    "glm4_moe": Family(kind="moe", qkv_bias=True),
    "ernie4_5_moe": Family(kind="moe", tied=True),
    **dict.fromkeys(
        ("bert", "electra", "ernie"),
        Family(kind="encoder", gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True, pooler=True,
               token_types=2, final_norm=False, embed_norm=True, max_len=512),
    ),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert"),
        Family(kind="encoder", gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True, pooler=True,
               token_types=1, final_norm=False, embed_norm=True, max_len=514),
    ),
    **dict.fromkeys(
        ("deberta", "deberta-v2"),  # positions are relative, 512 of them, shared by the layers
        Family(kind="encoder", gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True,
               final_norm=False, embed_norm=True, max_len=512),
    ),
    "distilbert": Family(kind="encoder", gated=False, tied=True, norm_bias=True, linear_bias=True, positions=True,
                         final_norm=False, embed_norm=True, max_len=512),
    "modernbert": Family(kind="encoder", tied=True, embed_norm=True, max_len=8192),
    "t5": Family(kind="encoder-decoder", gated=False, tied=True, max_len=512),
    "mt5": Family(kind="encoder-decoder", gated=True, max_len=512),
    "umt5": Family(kind="encoder-decoder", gated=True, max_len=512),
    "bart": Family(kind="encoder-decoder", gated=False, tied=True, norm_bias=True, linear_bias=True, max_len=1024),
    **dict.fromkeys(
        ("vit", "deit", "dinov2", "dinov2_with_registers", "vit_mae", "vit_msn", "ijepa", "beit", "data2vec-vision",
         "clip_vision_model", "siglip_vision_model"),
        Family(kind="vision", gated=False, norm_bias=True, linear_bias=True),
    ),
}  # fmt: skip
# Not transformers that a forward pass of attention and FFN describes; a guess would be worse than a refusal.
_REFUSED: Mapping[str, str] = {
    "mamba": "a state-space model", "mamba2": "a state-space model", "falcon_mamba": "a state-space model",
    "rwkv": "a recurrent model", "jamba": "a Mamba hybrid", "bamba": "a Mamba hybrid", "zamba": "a Mamba hybrid",
    "nemotron_h": "a Mamba hybrid", "granitemoehybrid": "a Mamba hybrid", "whisper": "a speech model",
    "swin": "a windowed vision model", "convnext": "a convolutional model", "resnet": "a convolutional model",
    **dict.fromkeys(("clip", "siglip", "siglip2", "chinese_clip", "align"), "a two-tower model"),
    **dict.fromkeys(("wav2vec2", "wav2vec2-bert", "hubert", "wavlm", "data2vec-audio", "speecht5"), "a speech model"),
    "albert": "a model whose layers share their weights", "xlnet": "a two-stream model",
    **dict.fromkeys(("nemotron-nas", "openelm"), "a model whose layers differ"),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), "a model with embeddings of every layer"),
    **dict.fromkeys(("lfm2", "lfm2_moe"), "a convolution hybrid"),
}  # fmt: skip
_OTHER_FILES = (
    ("peft_type", "is PEFT's adapter_config.json; name the model below it"),
    ("_class_name", "is the config of a diffusers pipeline or a part of one; use model: or custom:"),
    ("tokenizer_class", "is a tokenizer's config; the model's is config.json beside it"),
    ("weight_map", "is an index of weights; the model's config is config.json beside it"),
    ("zero_optimization", "is a DeepSpeed config; pass it as the request itself"),
)
"""A key of JSON files that lie beside a `config.json` -> what the file is."""


def facts_of_config(config: Mapping[str, Any], *, name: str | None = None) -> tuple[ModelFacts, tuple[str, ...]]:
    """The model of a `config.json`, and what the reader should know; WorkloadError names the key that does not hold."""
    notes: list[str] = []
    model_type = str(config.get("model_type") or "").strip()
    text = next(
        (config[key] for key in ("text_config", "llm_config", "language_config") if isinstance(config.get(key), dict)),
        None,
    )
    if text is not None and not _first(config, "layers"):
        notes.append(f"{model_type or 'this model'}: only the language part is counted, not the image or audio tower")
        config = {"architectures": config.get("architectures"), **text}
        model_type = str(config.get("model_type") or model_type.removesuffix("_vl") or "")
    for key, what in _OTHER_FILES:
        if key in config and (key.startswith(("_", "peft")) or not _first(config, "layers")):
            base = str(config.get("base_model_name_or_path") or "")
            raise WorkloadError(f"this {what}", field="hf_config", nearest=(f"model: {base}",) if base else ())
    if model_type in _REFUSED:
        raise WorkloadError(
            f"{model_type} is {_REFUSED[model_type]}, which a config does not describe; use model: or custom:",
            field="hf_config.model_type",
            value=model_type,
        )
    family = _FAMILIES.get(model_type.removesuffix("_text")) or _FAMILIES.get(model_type)
    if family is None:
        family = _likely(config, model_type)
        like = "BERT-like encoder" if family.kind == "encoder" else "Llama-like transformer"
        notes.append(f"model_type {model_type or '(none)'} is not known; its keys are read as a {like}")
    shape = _shape(config, family, model_type)
    limit = shape.max_len or family.max_len
    label = (
        name
        or str(config.get("_name_or_path") or config.get("name_or_path") or "").strip()
        or model_type
        or "hf_config"
    )
    facts = facts_of_shape(
        shape, name=label, source=f"config.json ({model_type or 'no model_type'})", max_seq_len=limit
    )
    return facts, tuple(notes)


def _likely(config: Mapping[str, Any], model_type: str) -> Family:
    """The family of a `model_type` that no table knows: an encoder where its heads or its name say so."""
    heads = config.get("architectures")
    masked = any("ForMaskedLM" in str(head) for head in heads) if isinstance(heads, list) else False
    if config.get("is_encoder_decoder"):
        return Family(kind="encoder-decoder")
    if _first(config, "experts"):
        return Family(kind="moe")
    return _FAMILIES["bert"] if masked or "bert" in model_type else Family()


def _shape(config: Mapping[str, Any], family: Family, model_type: str) -> Shape:
    layers, hidden = _need(config, "layers"), _need(config, "hidden")
    heads = _need(config, "heads")
    kv_heads = _kv_heads(config, family, heads)
    head_dim = _number(config, "head_dim")
    if head_dim is None:
        if hidden % heads:
            raise _wrong("heads", config, f"{heads} heads do not divide the hidden size {hidden}")
        head_dim = hidden // heads
    if heads % kv_heads:
        raise _wrong("kv_heads", config, f"{kv_heads} key-value heads do not divide {heads} heads")
    ffn = _number(config, "ffn") or _default_ffn(config, family, hidden)
    vision = family.kind == "vision"
    experts = (_number(config, "experts") or 0) if not vision else 0
    if experts == 1:
        experts = 0
    kind = "moe" if experts and family.kind == "decoder" else family.kind
    if kind == "moe" and not experts:
        kind = "decoder"
    per_token = (_number(config, "experts_per_token") or 2) if experts else 0
    if per_token > experts:
        raise _wrong("experts_per_token", config, f"{per_token} experts a token are above the {experts} experts")
    expert_ffn = _number(config, "expert_ffn") if experts else None
    expert_width = expert_ffn or ffn
    dense_layers = min(_dense_layers(config, layers), layers) if experts else 0
    mla = config.get("kv_lora_rank") is not None
    gated = _gated(config, family, model_type)
    positions = (_number(config, "max_len") or family.max_len or 0) + family.extra_positions if family.positions else 0
    return Shape(
        kind=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if mla else kv_heads,
        head_dim=(_plain(config, "qk_nope_head_dim") + _plain(config, "qk_rope_head_dim")) if mla else head_dim,
        ffn=expert_width if experts else ffn,
        gated=gated,
        vocab=0 if vision else _need(config, "vocab"),
        max_len=_number(config, "max_len") or 0,
        tied=_tied(config, family),
        norm_bias=family.norm_bias,
        linear_bias=family.linear_bias,
        qkv_bias=family.qkv_bias or bool(config.get("attention_bias")) or bool(config.get("use_qkv_bias")),
        positions=positions,
        norms=_norms(config, family, model_type),
        qk_norm=family.qk_norm,
        pooler=family.pooler,
        token_types=(_plain(config, "type_vocab_size") or family.token_types) if family.token_types else 0,
        final_norm=family.final_norm,
        embed_norm=family.embed_norm,
        embed_width=_embed_width(config, hidden),
        experts=experts,
        experts_per_token=per_token,
        shared_experts=_shared(config, expert_width) if experts else 0,
        dense_layers=dense_layers,
        dense_ffn=(_plain(config, "intermediate_size_mlp") or ffn) if dense_layers else 0,
        q_lora=_plain(config, "q_lora_rank") if mla else 0,
        kv_lora=_plain(config, "kv_lora_rank") if mla else 0,
        rope_dim=_plain(config, "qk_rope_head_dim") if mla else 0,
        v_dim=_plain(config, "v_head_dim") if mla else 0,
        image_size=_plain(config, "image_size") or 224 if vision else 0,
        patch=_plain(config, "patch_size") or 16 if vision else 16,
        classes=_classes(config) if vision else 0,
        channels=_plain(config, "num_channels") or 3,
    )


def _lookup(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _first(config: Mapping[str, Any], what: str) -> tuple[str, Any] | None:
    return next(((key, value) for key in _KEYS[what] if (value := _lookup(config, key)) is not None), None)


def _number(config: Mapping[str, Any], what: str) -> int | None:
    found = _first(config, what)
    if found is None:
        return None
    key, value = found
    if isinstance(value, list) and value:  # one for every layer
        if any(one != value[0] for one in value):
            raise WorkloadError("differs from layer to layer, which is not read; use custom:", field=f"hf_config.{key}")
        value = value[0]
    return _checked(key, value, low=0 if what in ("shared_experts", "dense_layers", "experts") else 1)


def _plain(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    return 0 if value is None else _checked(key, value[0] if isinstance(value, list) and value else value, low=0)


def _checked(key: str, value: Any, *, low: int) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) < 1e9
    if not whole or value != int(value) or value < low:
        raise WorkloadError(
            f"{value!r} is not a whole number of at least {low}"[:200], field=f"hf_config.{key}", value=value
        )
    return int(value)


def _need(config: Mapping[str, Any], what: str) -> int:
    value = _number(config, what)
    if value is None:
        keys = _KEYS[what]
        raise WorkloadError(f"is needed and missing (or {', '.join(keys[1:4])})", field=f"hf_config.{keys[0]}")
    return value


def _wrong(what: str, config: Mapping[str, Any], reason: str) -> WorkloadError:
    found = _first(config, what)
    return WorkloadError(
        reason, field=f"hf_config.{found[0] if found else _KEYS[what][0]}", value=found[1] if found else None
    )


def _kv_heads(config: Mapping[str, Any], family: Family, heads: int) -> int:
    if config.get("model_type") == "falcon" and not config.get("new_decoder_architecture"):
        return 1 if config.get("multi_query", True) else heads
    if config.get("multi_query") or (family.multi_query and config.get("multi_query") is not False):
        return 1
    return _number(config, "kv_heads") or heads


def _default_ffn(config: Mapping[str, Any], family: Family, hidden: int) -> int:
    ratio = config.get("expansion_ratio", config.get("mlp_ratio"))
    if isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 < ratio < 100:
        return round(ratio * hidden)
    return family.ffn_factor * hidden


def _gated(config: Mapping[str, Any], family: Family, model_type: str) -> bool:
    if model_type in ("t5", "umt5", "mt5"):
        projection = str(config.get("feed_forward_proj") or ("gated-gelu" if family.gated else "relu"))
        return projection.startswith("gated")
    return family.gated


def _tied(config: Mapping[str, Any], family: Family) -> bool:
    found = _first(config, "tied")
    return bool(found[1]) if found else family.tied


def _norms(config: Mapping[str, Any], family: Family, model_type: str) -> int:
    if model_type == "falcon" and config.get("new_decoder_architecture"):
        return 2
    if model_type == "falcon" and not config.get("parallel_attn", True):
        return 2
    return family.norms


def _dense_layers(config: Mapping[str, Any], layers: int) -> int:
    """Layers of a mixture of experts whose FFN is dense: the first k, or those an interval or a list names."""
    listed = config.get("mlp_only_layers")
    count = len(listed) if isinstance(listed, list) else 0
    step = config.get("decoder_sparse_step", config.get("moe_layer_freq", config.get("interleave_moe_layer_step", 1)))
    if isinstance(step, int) and not isinstance(step, bool) and step > 1:
        count += layers - layers // step
    return count + (_number(config, "dense_layers") or 0)


def _shared(config: Mapping[str, Any], expert_width: int) -> int:
    width = _plain(config, "shared_expert_intermediate_size")
    if width:
        return max(1, round(width / expert_width))
    if str(config.get("model_type", "")).startswith("llama4"):
        return 1  # always there, in no key
    return _number(config, "shared_experts") or 0


def _embed_width(config: Mapping[str, Any], hidden: int) -> int:
    width = _plain(config, "word_embed_proj_dim") or _plain(config, "embedding_size")
    return width if width and width != hidden else 0


def _classes(config: Mapping[str, Any]) -> int:
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, dict) and labels else _plain(config, "num_labels") or 1000
