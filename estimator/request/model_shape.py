"""How many parameters, multiply-adds and layer outputs has a transformer of this shape?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A transformer's shape; counts of weights follow from it exactly. 0 = does not have it."""

    kind: str
    layers: int  # of each side for encoder-decoders
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int  # inner width; of one expert in a mixture of experts
    gated: bool
    vocab: int
    max_len: int
    tied: bool
    norm_bias: bool = False
    linear_bias: bool = False
    qkv_bias: bool = False
    positions: int = 0  # learned position vectors
    norms: int = 2  # per layer
    qk_norm: bool = False
    pooler: bool = False
    token_types: int = 0
    final_norm: bool = True
    embed_norm: bool = False
    embed_width: int = 0  # where the embedding is narrower than the model
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    q_lora: int = 0  # multi-head latent attention
    kv_lora: int = 0
    rope_dim: int = 0
    v_dim: int = 0
    image_size: int = 0
    patch: int = 16
    classes: int = 0
    channels: int = 3


def parameters(shape: Shape) -> tuple[float, float]:
    """All parameters, and those that one token meets (the same where there are no experts).

    attention = h (heads + 2 kv_heads) d + heads d h; FFN = 2 h f, or 3 h f when gated; embeddings once when tied.
    """
    norm = shape.hidden * (2 if shape.norm_bias else 1)
    attention = _attention(shape)
    fixed = float(_embeddings(shape) + (norm if shape.final_norm else 0))
    layer = attention + shape.norms * norm
    if not shape.experts:
        total = fixed + shape.layers * (layer + _ffn(shape, shape.ffn))
        if shape.kind == "encoder-decoder":  # a second stack, whose layers also attend to the encoder
            total += shape.layers * (layer + attention + norm + _ffn(shape, shape.ffn)) + norm
        return float(total), float(total)
    routed = shape.layers - shape.dense_layers
    expert = _ffn(shape, shape.ffn)
    router = shape.hidden * shape.experts
    everywhere = fixed + shape.layers * layer + shape.dense_layers * _ffn(shape, shape.dense_ffn or shape.ffn)
    everywhere += routed * (router + shape.shared_experts * expert)
    return (
        float(everywhere + routed * shape.experts * expert),
        float(everywhere + routed * shape.experts_per_token * expert),
    )


def _attention(shape: Shape) -> int:
    h, heads, d = shape.hidden, shape.heads, shape.head_dim
    if shape.kv_lora:
        query = h * shape.q_lora + shape.q_lora + shape.q_lora * heads * d if shape.q_lora else h * heads * d
        value = shape.v_dim or d - shape.rope_dim
        key_value = h * (shape.kv_lora + shape.rope_dim) + shape.kv_lora
        key_value += shape.kv_lora * heads * (d - shape.rope_dim + value)
        return query + key_value + heads * value * h
    width = (heads + 2 * shape.kv_heads) * d
    count = h * width + heads * d * h
    if shape.linear_bias or shape.qkv_bias:
        count += width
    if shape.linear_bias:
        count += h
    return count + (2 * d if shape.qk_norm else 0)


def _ffn(shape: Shape, width: int) -> int:
    count = (3 if shape.gated else 2) * shape.hidden * width
    return count + ((2 if shape.gated else 1) * width + shape.hidden if shape.linear_bias else 0)


def _embeddings(shape: Shape) -> int:
    h = shape.hidden
    norm = h * (2 if shape.norm_bias else 1)
    if shape.kind == "vision":
        patches = (shape.image_size // shape.patch) ** 2
        stem = shape.patch**2 * shape.channels * h + h
        return stem + h + (patches + 1) * h + (h * shape.classes + shape.classes)
    width = shape.embed_width or h
    count = shape.vocab * width * (1 if shape.tied else 2)
    if width != h:
        count += 2 * width * h
    count += (shape.positions + shape.token_types) * h + (norm if shape.embed_norm else 0)
    return count + (h * h + h if shape.pooler else 0)


def positions_of_image(shape: Shape) -> int:
    """Patches and the class token."""
    return (shape.image_size // shape.patch) ** 2 + 1


def forward_gmacs(shape: Shape) -> float:
    """Multiply-adds of one image's forward pass, in 1e9: weights x positions, and both attention products."""
    n = positions_of_image(shape)
    d = shape.heads * shape.head_dim
    layer = n * (_attention(shape) + _ffn(shape, shape.ffn)) + 2 * n * n * d
    stem = (n - 1) * shape.patch**2 * shape.channels * shape.hidden
    return (shape.layers * layer + stem + shape.hidden * shape.classes) / 1e9


def kept_outputs_m(shape: Shape) -> float:
    """Outputs of the linear layers and the stem of one image, in 1e6 (timm's "activations")."""
    n = positions_of_image(shape)
    layer = (shape.heads + 2 * shape.kv_heads) * shape.head_dim + 2 * shape.hidden
    layer += shape.ffn * (2 if shape.gated else 1)
    return (n * layer * shape.layers + (n - 1) * shape.hidden + shape.classes) / 1e6
