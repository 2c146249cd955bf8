"""How much work is one sequence of a transformer: dense or mixture of experts, decoder, encoder or both?

Closed forms from the shape (layers L, width h, heads, feed-forward width f, vocabulary V, sequence s), after
Narayanan et al. (arXiv:2104.04473, FLOPs) and Korthikanti et al. (arXiv:2205.05198, activations), extended by
grouped-query attention, gated feed-forward layers, experts and adapters. A model of which only the size is known gets
the usual shape of its size (`shape_of`); what is known of it always wins over what is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks_db.errors import UnknownName, WorkloadError
from estimator.terms import Method
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts

DEFAULT_SEQ_LEN = 2048.0
"""Training length where none is stated: common in pretraining and fine-tuning; never the context limit."""

DEFAULT_VOCAB = 50_257.0
KERNELS_A_LAYER = {False: 22.0, True: 28.0}
"""Kernel launches of a forward layer, ungated and gated feed-forward (norms, projections, rotary, residuals)."""

SCAN_TOKENS = 4096.0
"""A state-space layer takes as long as attention over so many tokens: 2,048 at a state of 64 (Dao, Gu,
arXiv:2405.21060, figure 10), twice that at the usual state of 128."""

SCAN_VALUES = 12.0
"""Values that it moves a value of its inner width: convolution 2, scan in and out 4, states 3, gate and norm 3."""

SENT_VALUES = 12.0
"""Values moved a value sent to an expert: sorted by expert, exchanged, sorted by local expert, and all of it back."""

LOGIT_VALUES = 12.0
"""Values moved a logit of 16 bit: write 1, to fp32 1 + 2, maximum 2, exponential 2 + 2, sum 2; backward twice that."""

ADAPTER_KERNELS = 12.0
"""Host time of a layer's adapters, in launches: below the 3 to 6 kernels of each of 7 matrices, as theirs are short."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that the formulas need, none of them missing."""

    layers: float  # decoder layers, or encoder layers of an encoder; both halves together for encoder-decoder
    hidden: float
    heads: float
    kv_heads: float
    head_dim: float
    ffn: float
    gated: bool
    vocab: float
    tied: bool
    experts: float = 0.0
    experts_per_token: float = 0.0
    shared_experts: float = 0.0
    dense_layers: float = 0.0
    dense_ffn: float = 0.0
    value_dim: float = 0.0  # width of a head's values, as `head_dim` unless latent attention cuts it
    expert_hidden: float = 0.0  # width in which tokens meet the routed experts
    attention_layers: float = 0.0  # all but in hybrids, whose other layers carry a state
    recurrent_layers: float = 0.0
    recurrent_width: float = 0.0
    causal: bool = True
    assumed: bool = False  # the shape was derived from the size alone

    @property
    def attention_params(self) -> float:
        """Weights of one attention block: queries, keys, values, output."""
        return self.hidden * self.head_dim * (2.0 * self.heads + 2.0 * self.kv_heads)

    @property
    def ffn_params(self) -> float:
        """Weights of one feed-forward block (of one expert in a mixture)."""
        return (3.0 if self.gated else 2.0) * self.hidden * self.ffn

    @property
    def expert_params(self) -> float:
        """Weights of one routed expert."""
        return (3.0 if self.gated else 2.0) * self.expert_hidden * self.ffn

    @property
    def expert_layers(self) -> float:
        """Layers whose feed-forward block is a mixture."""
        return self.layers - self.dense_layers if self.experts else 0.0


def shape_of(facts: ModelFacts) -> Shape:
    """The shape of a model, completed where the facts have gaps; WorkloadError when not even the size is known.

    From the size alone: params = 12 L h^2 with h / L = 64 (0.1B) to 128 (7B and more), the aspect of the published
    GPT-3, Llama and OPT families; head width 128 (64 below a width of 2048); vocabulary of GPT-2, less where the table
    would hold more than 40% of the parameters.
    """
    params = (facts.params_m or 0.0) * 1e6
    known = facts.layers and facts.hidden
    if not known and params <= 0.0:
        raise WorkloadError("neither shape nor size of the model is known", field="model", value=facts.name)
    moe = facts.kind == "moe" or bool(facts.experts or facts.active_params_m)
    active = (facts.active_params_m or 0.0) * 1e6
    if known:
        layers, hidden = float(facts.layers or 0.0), float(facts.hidden or 0.0)
    else:
        size = active if moe and active else params
        aspect = min(128.0, max(64.0, 64.0 * (size / 1.25e8) ** 0.17))
        hidden = max(128.0, 128.0 * round((size * aspect / 12.0) ** (1.0 / 3.0) / 128.0))
        layers = max(2.0, float(round(size / (12.0 * hidden**2))))
    head_dim = facts.head_dim or (hidden / facts.heads if facts.heads else (128.0 if hidden >= 2048 else 64.0))
    heads = facts.heads or max(1.0, float(round(hidden / head_dim)))
    gated = bool(facts.gated_ffn) if facts.gated_ffn is not None else moe
    shape = Shape(
        layers=layers * (2.0 if facts.kind == "encoder-decoder" else 1.0),
        hidden=hidden,
        heads=heads,
        kv_heads=facts.kv_heads or heads,
        head_dim=head_dim,
        ffn=facts.ffn_hidden or (8.0 / 3.0 if gated else 4.0) * hidden,
        gated=gated,
        vocab=facts.vocab or (DEFAULT_VOCAB if known else min(DEFAULT_VOCAB, 0.4 * params / hidden)),
        tied=True if facts.tied_embeddings is None else bool(facts.tied_embeddings),
        causal=facts.kind != "encoder",
        value_dim=facts.v_head_dim or head_dim,
        expert_hidden=facts.expert_hidden or hidden,
        recurrent_layers=facts.recurrent_layers or 0.0,
        recurrent_width=facts.recurrent_width or hidden,
        attention_layers=facts.attention_layers or layers * (2.0 if facts.kind == "encoder-decoder" else 1.0),
        assumed=not known,
    )
    if not moe:
        return shape
    experts = facts.experts or 64.0
    chosen = facts.experts_per_token or (8.0 if experts > 16 else 2.0)
    shape = replace(
        shape,
        experts=experts,
        experts_per_token=chosen,
        shared_experts=facts.shared_experts or 0.0,
        dense_layers=min(facts.dense_layers or 0.0, layers),
        dense_ffn=facts.dense_ffn or 0.0,
    )
    if not facts.ffn_hidden and params > active > 0.0:
        each = (params - active) / max(1.0, experts - chosen) / layers
        shape = replace(shape, ffn=each / ((3.0 if gated else 2.0) * hidden))
    return shape


@dataclass(frozen=True, slots=True)
class Size:
    """Parameter counts; `linear` excludes embeddings and routed experts."""

    total: float
    active: float
    experts: float  # in routed experts
    active_experts: float  # of them, met by one token
    linear: float  # other layer weights
    embedding: float  # input table
    head: float  # output matrix, whether tied or not


def size_of(shape: Shape, facts: ModelFacts) -> Size:
    """Parameter counts from the shape, brought to the stated size where the two differ by more than 3%.

    Differences come from what the shape does not hold (multi-head latent attention, Mamba layers, shared experts,
    learned positions): the stated total and active counts are then the better guide to the work of a token.
    """
    routed = shape.expert_layers * shape.experts * shape.expert_params
    active_routed = shape.expert_layers * shape.experts_per_token * shape.expert_params
    plain_ffn = (shape.layers - shape.expert_layers) * (
        (3.0 if shape.gated else 2.0) * shape.hidden * (shape.dense_ffn or shape.ffn)
    )
    shared = shape.expert_layers * shape.shared_experts * shape.ffn_params
    cross = 0.5 * shape.layers * shape.attention_params if facts.kind == "encoder-decoder" else 0.0
    linear = shape.layers * shape.attention_params + plain_ffn + shared + cross
    embedding = shape.vocab * shape.hidden
    extra = 0.0 if shape.tied else embedding
    total = linear + routed + embedding + extra
    active = linear + active_routed + embedding + extra
    stated = (facts.params_m or 0.0) * 1e6
    stated_active = (facts.active_params_m or 0.0) * 1e6 if shape.experts else stated
    if stated_active > embedding + extra and abs(stated_active / active - 1.0) > 0.03:
        if shape.experts and stated > 0.0:
            linear = max(0.25 * linear, stated_active - embedding - extra - active_routed)
            active_routed = max(0.0, stated_active - embedding - extra - linear)
        else:
            linear = stated_active - embedding - extra
        active = linear + active_routed + embedding + extra
        total = linear + routed + embedding + extra
    if shape.experts and stated > active and abs(stated / total - 1.0) > 0.03:
        routed = stated - linear - embedding - extra
        total = stated
    return Size(total, active, routed, active_routed, linear, embedding, embedding)


def adapter_params(shape: Shape, *, rank: float, targets: str) -> float:
    """Trainable weights of low-rank adapters: rank x (in + out) of each adapted matrix (Hu et al., arXiv:2106.09685).

    `targets`: `all-linear` (attention and feed-forward), `attention` (q, k, v, o), `qv`, or names of modules as
    training programs write them, separated by commas (`q_proj,v_proj`); raises UnknownName for any other.
    """
    wide, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    h, ffn = shape.hidden, shape.ffn if shape.experts else shape.dense_ffn or shape.ffn
    copies = max(1.0, shape.experts + shape.shared_experts) if shape.experts else 1.0
    forward = copies * (h + ffn)
    sizes = {
        "q": h + wide,
        "k": h + kv,
        "v": h + kv,
        "o": wide + h,
        "qkv": h + wide + 2.0 * kv,
        "gate": forward if shape.gated else 0.0,
        "up": forward,
        "down": forward,
        "gate_up": copies * (h + 2.0 * ffn),
        "head": (h + shape.vocab) / shape.layers,  # once, not in every layer
    }
    matrices = {matrix for name in targets.split(",") for matrix in _adapted(name.strip())}
    return rank * shape.layers * sum(sizes[matrix] for matrix in sorted(matrices))


ATTENTION = ("q", "k", "v", "o")
ATTENTION_INPUT, FFN_INPUT = ("q", "k", "v", "qkv"), ("gate", "up", "gate_up")
"""Matrices that read the output of a layer's first and second norm."""
ADAPTED: Mapping[str, tuple[str, ...]] = {
    "all-linear": (*ATTENTION, "gate", "up", "down"),
    "all": (*ATTENTION, "gate", "up", "down"),
    "attention": ATTENTION,
    "mlp": ("gate", "up", "down"),
    "qv": ("q", "v"),
    **dict.fromkeys(("q_proj", "wq", "query", "q_lin", "q_a_proj", "q_b_proj", "q"), ("q",)),
    **dict.fromkeys(("k_proj", "wk", "key", "k_lin", "k"), ("k",)),
    **dict.fromkeys(("v_proj", "wv", "value", "v_lin", "v"), ("v",)),
    **dict.fromkeys(("kv_a_proj_with_mqa", "kv_b_proj"), ("k", "v")),
    **dict.fromkeys(("o_proj", "wo", "out_proj", "output_proj", "out_lin", "dense", "o"), ("o",)),
    **dict.fromkeys(("qkv_proj", "wqkv", "c_attn", "query_key_value", "w_pack", "qkv"), ("qkv",)),
    **dict.fromkeys(("gate_proj", "w1", "wi_0"), ("gate",)),
    **dict.fromkeys(("up_proj", "w3", "wi_1", "wi", "fc1", "c_fc", "fc_in", "dense_h_to_4h"), ("up",)),
    **dict.fromkeys(("down_proj", "w2", "fc2", "fc_out", "dense_4h_to_h"), ("down",)),
    "c_proj": ("o", "down"),  # GPT-2 calls both so
    "gate_up_proj": ("gate_up",),
    **dict.fromkeys(("lm_head", "embed_tokens", "embed_out", "output"), ("head",)),
}
"""Which matrices of a layer a name of `lora.targets` adapts."""


def _adapted(name: str) -> tuple[str, ...]:
    found = ADAPTED.get(name.casefold())
    if found is None:
        raise UnknownName("adapter target", name, ADAPTED, field="lora.targets")
    return found


def work(
    facts: ModelFacts,
    *,
    seq_len: float | None = None,
    method: Method = Method.PRETRAIN,
    lora_rank: float = 16,
    lora_targets: str = "all-linear",
    attention: str = "flash",
) -> Work:
    """Work of one sequence; `seq_len` defaults to 2,048 (or the model's limit where that is shorter).

    Forward FLOPs of the matrices: 2 x weights met x tokens; attention: 4 s^2 x (heads x head width) a layer, half of
    it where causal. Encoder-decoder models: `seq_len` positions in the encoder and as many in the decoder, each
    meeting half of the layers. Frozen weights (LoRA) need no weight gradients, so their backward costs 1 x forward.
    Layers of hybrids without attention scan a state: linear in the length beyond `SCAN_TOKENS`.
    Elementwise traffic counts each tensor that a norm, rotary embedding, activation, residual sum or loss reads or
    writes; eager attention adds the score matrices (about 8 passes: scale, mask, softmax, dropout).
    """
    shape = shape_of(facts)
    size = size_of(shape, facts)
    s = float(seq_len) if seq_len else min(DEFAULT_SEQ_LEN, facts.max_seq_len or DEFAULT_SEQ_LEN)
    both = facts.kind == "encoder-decoder"
    tokens = 2.0 * s if both else s
    met = 0.5 if both else 1.0  # share of the layers that one token passes
    h, wide, kv = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    eager = attention == "eager"
    peft = method in (Method.LORA, Method.QLORA)
    adapters = adapter_params(shape, rank=lora_rank, targets=lora_targets) if peft else 0.0
    matched = adapters * ((size.active / size.total) if shape.experts else 1.0)

    base = 2.0 * tokens * (size.linear * met + size.head * (0.5 if both else 1.0))
    expert = 2.0 * tokens * size.active_experts
    adapter = 2.0 * tokens * met * matched
    causal = 0.5 if shape.causal and not both else 1.0
    across = shape.heads * 0.5 * (shape.head_dim + shape.value_dim)
    scores = shape.attention_layers * s * s * across * (1.5 * 0.75 if both else 1.0)  # decoder: causal self, full cross
    scan = shape.recurrent_layers * s * min(s, SCAN_TOKENS) * shape.recurrent_width
    attn = 4.0 * (scores + scan) * causal
    ratio = (base + 2.0 * adapter) / (base + adapter) if peft else 2.0

    act = (3.0 if shape.gated else 2.0) * shape.ffn
    used = shape.experts_per_token + shape.shared_experts
    mlp_values = act if not shape.experts else used * act + shape.experts_per_token * SENT_VALUES * shape.expert_hidden
    layer_values = 14.0 * h + 2.0 * (wide + kv) + mlp_values  # read or written outside the matrices, per token
    scanned = SCAN_VALUES * shape.recurrent_layers * shape.recurrent_width
    logits = LOGIT_VALUES * shape.vocab * (0.5 if both else 1.0)
    elementwise = tokens * (met * shape.layers * layer_values + scanned + logits)
    score_traffic = shape.attention_layers * shape.heads * s * s * (1.5 if both else 1.0)
    if eager:
        elementwise += 8.0 * score_traffic

    # Frozen matrices need no inputs again: outputs of norms and of the activation are kept for what is trained alone
    trained = {matrix for name in (lora_targets if peft else "all").split(",") for matrix in _adapted(name.strip())}
    norms = float(not trained.isdisjoint(ATTENTION_INPUT)) + float(not trained.isdisjoint(FFN_INPUT))
    width = shape.ffn * (max(1.0, used) if shape.experts else 1.0)
    outputs = width if "down" in trained else 0.0
    mlp_kept = (2.0 if shape.gated else 1.0) * width + outputs
    kept = (2.0 + norms) * h + 2.0 * wide + 2.0 * kv + mlp_kept + (used * h if shape.experts else 0.0)
    lean = kept - norms * h - outputs
    stored = tokens * met * shape.layers
    extra = (24.0 if shape.experts else 0.0) + (ADAPTER_KERNELS if peft else 0.0)
    kernels = shape.layers * (KERNELS_A_LAYER[shape.gated] + extra)
    return Work(
        params=size.total,
        active_params=size.active,
        expert_params=size.experts,
        embedding_params=size.embedding,
        output_params=0.0 if shape.tied else size.head,
        trainable_params=adapters if peft else size.total,
        layers=shape.layers,
        hidden=h,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        vocab=shape.vocab,
        experts=shape.experts,
        experts_per_token=shape.experts_per_token,
        expert_hidden=shape.expert_hidden,
        tokens=tokens,
        matmul_flops=base + adapter,
        expert_flops=expert,
        attention_flops=attn,
        backward_ratio=ratio,
        elementwise_values=elementwise,
        adapter_values=tokens * met * matched / lora_rank,
        kernels=kernels,
        input_bytes=2.0 * tokens,
        decode_ms=0.0,
        stored_values=stored * kept,
        stored_values_selective=stored * lean,
        stored_values_full=stored * h,
        score_values=2.5 * score_traffic,  # scores, softmax output and dropout mask: 5 bytes (Korthikanti)
        layer_values=tokens * kept,
        single_share=width / kept if shape.gated else 0.0,
        logits_values=tokens * (0.5 if both else 1.0) * shape.vocab,
    )
