"""Networks for the pictures of CIFAR, 32 pixels a side: DAWNBench's nine layers."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn import functional

from scripts.inventory_models.task import Task, floats

SIDE = 32


def _layer(wide: int, out: int) -> nn.Sequential:
    """A convolution of window 3, its normalisation and its activation."""
    return nn.Sequential(nn.Conv2d(wide, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class Nine(nn.Module):
    """64 to 512 channels, pooled after each widening; two residual pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _layer(3, 64)
        self.widen = nn.ModuleList(_layer(a, b) for a, b in ((64, 128), (128, 256), (256, 512)))
        self.pairs = nn.ModuleList(nn.Sequential(_layer(c, c), _layer(c, c)) for c in (128, 512))
        self.head = nn.Linear(512, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.widen[0](self.stem(x)), 2)
        x = x + self.pairs[0](x)
        x = functional.max_pool2d(self.widen[1](x), 2)
        x = functional.max_pool2d(self.widen[2](x), 2)
        x = x + self.pairs[1](x)
        return self.head(functional.max_pool2d(x, 4).flatten(1))


def tasks() -> Iterator[Task]:
    """One picture."""
    yield Task(
        name="resnet9",
        described=f"3x{SIDE}x{SIDE}",
        build=Nine,
        inputs=floats((3, SIDE, SIDE)),
        packages=("torch",),
        params_m=6.57,
        definition="davidcpage/cifar10-fast",
    )
