"""Segmentation: U-Nets of two and three dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scripts.inventory_models.task import Task, floats


def _twice(flat: bool, wide: int, out: int, stride: int = 1) -> nn.Sequential:
    """Two convolutions of window 3, each with instance normalisation and an activation."""
    layer: Any = nn.Conv2d if flat else nn.Conv3d
    norm: Any = nn.InstanceNorm2d if flat else nn.InstanceNorm3d
    parts: list[nn.Module] = []
    for a, step in ((wide, stride), (out, 1)):
        parts += [layer(a, out, 3, stride=step, padding=1, bias=False), norm(out, affine=True), nn.LeakyReLU(0.01)]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """nnU-Net's network: strided convolutions down, transposed ones up, skips, Dice and cross-entropy left out."""

    def __init__(self, flat: bool, widths: list[int], channels: int, classes: int) -> None:
        super().__init__()
        up: Any = nn.ConvTranspose2d if flat else nn.ConvTranspose3d
        ins = [channels, *widths[:-1]]
        self.down = nn.ModuleList(
            _twice(flat, a, b, 2 if i else 1) for i, (a, b) in enumerate(zip(ins, widths, strict=True))
        )
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.raise_ = nn.ModuleList(up(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(_twice(flat, 2 * b, b) for _, b in pairs)
        self.out = (nn.Conv2d if flat else nn.Conv3d)(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for raise_, up, skip in zip(self.raise_, self.up, kept[-2::-1], strict=True):
            x = up(torch.cat((raise_(x), skip), 1))
        return functional.log_softmax(self.out(x), 1)


class Valid(nn.Module):
    """Ronneberger's U-Net as published: convolutions without padding, 572 pixels in, 388 out."""

    def __init__(self) -> None:
        super().__init__()

        def twice(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(a, b, 3), nn.ReLU(True), nn.Conv2d(b, b, 3), nn.ReLU(True))

        widths = [64, 128, 256, 512, 1024]
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([1, *widths[:-1]], widths, strict=True))
        self.raise_ = nn.ModuleList(nn.ConvTranspose2d(b, b // 2, 2, stride=2) for b in widths[:0:-1])
        self.up = nn.ModuleList(twice(b, b // 2) for b in widths[:0:-1])
        self.out = nn.Conv2d(64, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for raise_, up, skip in zip(self.raise_, self.up, kept[-2::-1], strict=True):
            x = raise_(x)
            cut = (skip.shape[-1] - x.shape[-1]) // 2
            x = up(torch.cat((x, skip[..., cut : cut + x.shape[-2], cut : cut + x.shape[-1]]), 1))
        return functional.log_softmax(self.out(x), 1)


def tasks() -> Iterator[Task]:
    """U-Nets whose patch and widths are published."""
    examples = "NVIDIA/DeepLearningExamples "
    deep, wide = [32, 64, 128, 256, 320, 320], [32, 64, 128, 256, 512, 512]
    for name, shape, build, definition in (
        ("unet3d", (1, 128, 128, 128), lambda: UNet(False, deep, 1, 3), "mlcommons/training image_segmentation"),
        (
            "nnunet-3d",
            (4, 128, 128, 128),
            lambda: UNet(False, deep, 4, 4),
            examples + "PyTorch/Segmentation/nnUNet, brain tumours",
        ),
        (
            "nnunet-2d",
            (4, 192, 160),
            lambda: UNet(True, wide, 4, 4),
            examples + "PyTorch/Segmentation/nnUNet, brain tumours",
        ),
        ("unet-medical", (1, 572, 572), Valid, examples + "TensorFlow/Segmentation/UNet_Medical; arXiv:1505.04597"),
    ):
        yield Task(
            name=name,
            described="x".join(map(str, shape)),
            build=build,
            inputs=floats(shape),
            packages=("torch",),
            definition=definition,
        )
