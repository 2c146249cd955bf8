"""CLIP: an image and a text tower that are trained together on pairs, shapes of open_clip's model configurations."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from scripts.inventory_models.task import Task

SOURCE = "mlfoundations/open_clip src/open_clip/model_configs"
TEXT = (77, 49408)  # longest caption, vocabulary

TOWERS = {
    "clip-vit-b32-laion400m": (224, 32, 768, 12, 12, 3072, 512, 12, 8, 512),
    "clip-vit-b16-laion400m": (224, 16, 768, 12, 12, 3072, 512, 12, 8, 512),
    "clip-vit-b16plus-240-laion400m": (240, 16, 896, 12, 14, 3584, 640, 12, 10, 640),
    "clip-vit-l14": (224, 14, 1024, 24, 16, 4096, 768, 12, 12, 768),
    "clip-vit-l14-laion400m": (224, 14, 1024, 24, 16, 4096, 768, 12, 12, 768),
    "clip-vit-h14": (224, 14, 1280, 32, 16, 5120, 1024, 24, 16, 1024),
    "clip-vit-g14": (224, 14, 1408, 40, 16, 6144, 1024, 24, 16, 1024),
    "clip-vit-bigg14": (224, 14, 1664, 48, 16, 8192, 1280, 32, 20, 1280),
}
"""Image size, patch, width, layers, heads and inner width of the image tower; width, layers and heads of the text
tower, whose inner width is four times its width; width of the shared space."""


def tasks() -> Iterator[Task]:
    """Image-text pairs of a full caption each."""
    for name, shape in TOWERS.items():
        yield _task(name, *shape)


def _task(
    name: str,
    size: int,
    patch: int,
    width: int,
    layers: int,
    heads: int,
    inner: int,
    text_width: int,
    text_layers: int,
    text_heads: int,
    shared: int,
) -> Task:
    length, vocab = TEXT

    def build() -> Any:
        library = import_module("transformers")
        image = {"image_size": size, "patch_size": patch, "hidden_size": width, "num_hidden_layers": layers}
        image |= {"num_attention_heads": heads, "intermediate_size": inner}
        text = {"hidden_size": text_width, "num_hidden_layers": text_layers, "num_attention_heads": text_heads}
        text |= {"intermediate_size": 4 * text_width, "vocab_size": vocab, "max_position_embeddings": length}
        config = library.CLIPConfig(vision_config=image, text_config=text, projection_dim=shared)
        config._attn_implementation = "eager"
        return library.CLIPModel(config)

    def inputs(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch = import_module("torch")
        words = torch.zeros(batch, length, dtype=torch.long, device="meta")
        return (words, torch.empty(batch, 3, size, size, device="meta")), {}

    return Task(
        name=name,
        described=f"3x{size}x{size}",
        build=build,
        inputs=inputs,
        packages=("transformers", "torch"),
        definition=SOURCE,
    )
