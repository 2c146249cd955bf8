"""Diffusion models from diffusers: the network that is trained, on latents and text states made beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from scripts.inventory_models.task import Inputs, Task

WIDTHS = (320, 640, 1280, 1280)
FIRST = {"cross_attention_dim": 768, "attention_head_dim": 8}
SECOND = {"cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}


def unet(**settings: Any) -> Callable[[], Any]:
    """A U-Net of Stable Diffusion 1 or 2."""
    return lambda: import_module("diffusers").UNet2DConditionModel(
        sample_size=64, block_out_channels=WIDTHS, **settings
    )


def sdxl() -> Any:
    """The U-Net of Stable Diffusion XL."""
    return import_module("diffusers").UNet2DConditionModel(
        sample_size=128,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=[1, 2, 10],
        attention_head_dim=[5, 10, 20],
        cross_attention_dim=2048,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )


class Controlled(nn.Module):
    """A ControlNet of Stable Diffusion 1.5 in training: its copy of the encoder learns, the U-Net is frozen."""

    def __init__(self) -> None:
        super().__init__()
        diffusers = import_module("diffusers")
        self.control = diffusers.ControlNetModel(block_out_channels=WIDTHS, **FIRST)
        self.unet = unet(**FIRST)()
        self.unet.requires_grad_(False)

    def forward(self, latents: Tensor, step: Tensor, text: Tensor) -> Tensor:
        picture = torch.empty(len(latents), 3, 512, 512, device="meta")
        down, middle = self.control(latents, step, text, controlnet_cond=picture, return_dict=False)
        return self.unet(
            latents,
            step,
            text,
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
            return_dict=False,
        )


def latents(width: int, side: int = 64, conditions: dict[str, tuple[int, ...]] | None = None) -> Inputs:
    """Latents, a time step and 77 text states of `width`; `conditions` of SDXL beside them."""

    def inputs(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        image = torch.empty(batch, 4, side, side, device="meta")
        step = torch.empty(batch, device="meta", dtype=torch.long)
        more: dict[str, Any] = {"return_dict": False}
        if conditions:
            told = {name: torch.empty(batch, *shape, device="meta") for name, shape in conditions.items()}
            more["added_cond_kwargs"] = told
        return (image, step, torch.empty(batch, 77, width, device="meta")), more

    return inputs


def controlled(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of `Controlled`."""
    return latents(768)(batch)[0], {}


def tasks() -> Iterator[Task]:
    """The diffusion models of the measurements."""

    def task(name: str, build: Callable[[], Any], inputs: Inputs, side: int = 64, what: str = "UNet alone") -> Task:
        described = f"4x{side}x{side} latents, {what}"
        return Task(name=name, described=described, build=build, inputs=inputs, packages=("diffusers", "torch"))

    yield task("stable-diffusion-2", unet(**SECOND), latents(1024))
    yield task("stable-diffusion-1.5", unet(**FIRST), latents(768))
    yield task("sdxl", sdxl, latents(2048, 128, {"text_embeds": (1280,), "time_ids": (6,)}), 128)
    yield task("controlnet-sd-1", Controlled, controlled, what="ControlNet and frozen UNet")
