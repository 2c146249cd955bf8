"""Detectors on torchvision's parts: R-CNNs of Detectron2's model zoo, RetinaNet, SSD.

What depends on data is fixed: 512 proposals an image reach the box head and 128 of them the mask or keypoint head, the
numbers that both programs sample. Stem and first stage are frozen and batch norms are constants, as in fine-tuning
from ImageNet. Sorting and suppression of boxes is not counted (small kernels, which the kernel count misses).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scripts.inventory_models.task import Task, floats

PROPOSALS, POSITIVES = 512, 128
"""Regions an image of the box head and, at most, of the mask head (Detectron2's and maskrcnn-benchmark's defaults)."""

PHOTOGRAPH = (3, 800, 1088)
"""Short side 800; COCO's mean ratio of sides is 1.33, padded to 32 pixels."""

ZOO = "facebookresearch/detectron2 MODEL_ZOO and configs"
PARTS = ("torchvision", "torch")


def conv(wide: int, out: int, window: int = 3, norm: bool = False, **how: Any) -> nn.Module:
    """A convolution of odd window that keeps the size, with group normalisation where asked."""
    layer = nn.Conv2d(wide, out, window, padding=how.pop("padding", window // 2), **how)
    return nn.Sequential(layer, nn.GroupNorm(32, out)) if norm else layer


def trunk(name: str, *, frozen: int = 2, dilated: bool = False, norm: bool = False) -> nn.ModuleList:
    """Stages of a ResNet: stem, res2, res3, res4, res5; the first `frozen` are not trained."""
    models, ops = import_module("torchvision.models"), import_module("torchvision.ops")
    layer = (lambda width: nn.GroupNorm(32, width)) if norm else ops.FrozenBatchNorm2d
    steps = [False, False, True] if dilated else None
    net = getattr(models, name)(weights=None, norm_layer=layer, replace_stride_with_dilation=steps)
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    stages = nn.ModuleList([stem, net.layer1, net.layer2, net.layer3, net.layer4])
    for stage in stages[:frozen]:
        stage.requires_grad_(False)
    return stages


class Pyramid(nn.Module):
    """Feature pyramid of width 256; `extra`: max-pooled P6 (R-CNN) or convolved P6 and P7 (RetinaNet)."""

    def __init__(self, widths: list[int], extra: str, norm: bool = False) -> None:
        super().__init__()
        self.across = nn.ModuleList(conv(width, 256, 1, norm) for width in widths)
        self.out = nn.ModuleList(conv(256, 256, 3, norm) for _ in widths)
        self.more = nn.ModuleList(nn.Conv2d(256, 256, 3, stride=2, padding=1) for _ in range(2 * (extra == "conv")))

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        down = [across(feature) for across, feature in zip(self.across, features, strict=True)]
        for i in reversed(range(len(down) - 1)):
            down[i] = down[i] + functional.interpolate(down[i + 1], size=down[i].shape[-2:], mode="nearest")
        levels = [out(feature) for out, feature in zip(self.out, down, strict=True)]
        if not self.more:
            return [*levels, functional.max_pool2d(levels[-1], 1, 2)]
        for layer in self.more:
            levels.append(layer(functional.relu(levels[-1])))
        return levels


class Proposals(nn.Module):
    """Region proposal network: one shared convolution, objectness and boxes of `anchors` a position."""

    def __init__(self, width: int, anchors: int) -> None:
        super().__init__()
        self.shared = nn.Conv2d(width, width, 3, padding=1)
        self.score, self.box = nn.Conv2d(width, anchors, 1), nn.Conv2d(width, 4 * anchors, 1)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        hidden = [functional.relu(self.shared(level)) for level in levels]
        return [head(level) for level in hidden for head in (self.score, self.box)]


SHARES = (0.5, 0.25, 0.125, 0.125)
"""Of the regions, those that each level of a pyramid serves: small objects are many."""


def regions(levels: list[Tensor], an_image: int, size: int) -> Tensor:
    """Features of `an_image` regions an image, `size` x `size`, taken from the levels of a pyramid or the only one."""
    pool = import_module("torchvision.ops").roi_align
    images = levels[0].shape[0]
    if len(levels) == 1:
        return pool(levels[0], torch.empty(images * an_image, 5, device="meta"), size, 1 / 16, 0, True)
    parts = [
        pool(level, torch.empty(int(images * an_image * share), 5, device="meta"), size, 1 / 4 / 2**i, 0, True)
        for i, (level, share) in enumerate(zip(levels, SHARES, strict=False))
    ]
    return torch.cat(parts)


class BoxHead(nn.Module):
    """Two linear layers of 1,024 (with norms: four convolutions and one), classes and boxes."""

    def __init__(self, width: int, classes: int, norm: bool = False, boxes: int | None = None) -> None:
        super().__init__()
        self.convs = nn.Sequential(*(m for _ in range(4 * norm) for m in (conv(256, 256, 3, True), nn.ReLU())))
        layers = [nn.Linear(width * 49, 1024), nn.ReLU()] + [nn.Linear(1024, 1024), nn.ReLU()] * (not norm)
        self.hidden = nn.Sequential(*layers)
        self.classes = nn.Linear(1024, classes + 1)
        self.boxes = nn.Linear(1024, 4 * (boxes or classes))

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.hidden(self.convs(x).flatten(1))
        return [self.classes(x), self.boxes(x)]


def mask_head(width: int, classes: int, convolutions: int = 4, norm: bool = False) -> nn.Module:
    """Convolutions at 14 x 14, one up-sampling, a mask a class."""
    layers: list[nn.Module] = []
    for i in range(convolutions):
        layers += [conv(width if i == 0 else 256, 256, 3, norm), nn.ReLU()]
    up = nn.ConvTranspose2d(256 if convolutions else width, 256, 2, stride=2)
    return nn.Sequential(*layers, up, nn.ReLU(), nn.Conv2d(256, classes, 1))


def keypoint_head() -> nn.Module:
    """Eight convolutions of 512 at 14 x 14, up-sampled four times to a map a keypoint."""
    layers: list[nn.Module] = []
    for i in range(8):
        layers += [nn.Conv2d(256 if i == 0 else 512, 512, 3, padding=1), nn.ReLU()]
    up = nn.ConvTranspose2d(512, 17, 4, stride=2, padding=1)
    return nn.Sequential(*layers, up, nn.UpsamplingBilinear2d(scale_factor=2))


class Semantic(nn.Module):
    """Panoptic FPN's branch: every level to a quarter of the image at width 128, 54 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList()
        for ups in (0, 1, 2, 3):
            layers: list[nn.Module] = []
            for i in range(max(ups, 1)):
                layers += [conv(256 if i == 0 else 128, 128, 3, True), nn.ReLU()]
                layers += [nn.UpsamplingBilinear2d(scale_factor=2)] * (ups > 0)
            self.branches.append(nn.Sequential(*layers))
        self.classes = nn.Conv2d(128, 54, 1)

    def forward(self, levels: list[Tensor]) -> Tensor:
        size = levels[0].shape[-2:]
        parts = [branch(level) for branch, level in zip(self.branches, levels, strict=False)]
        whole = torch.stack([functional.interpolate(part, size=size) for part in parts]).sum(0)
        return functional.interpolate(self.classes(whole), scale_factor=4.0, mode="bilinear")


class RCNN(nn.Module):
    """A two-stage detector; `kind`: fpn, c4 or dc5; `heads`: box, mask, keypoint, semantic."""

    def __init__(
        self, backbone: str, kind: str, heads: tuple[str, ...], *, stages: int = 1, norm: bool = False, rpn: bool = True
    ) -> None:
        super().__init__()
        self.kind, self.heads = kind, heads
        self.trunk = trunk(backbone, frozen=0 if norm else 2, dilated=kind == "dc5", norm=norm)
        self.top = None
        if kind == "fpn":
            self.pyramid = Pyramid([256, 512, 1024, 2048], "pool", norm)
            width, anchors = 256, 3
        else:
            width, anchors = (1024, 15) if kind == "c4" else (2048, 15)
        if kind == "c4":
            self.top = self.trunk[4]
            self.trunk = self.trunk[:4]
        self.rpn = Proposals(width, anchors) if rpn else None
        if "box" in heads and kind == "c4":
            self.linear = nn.ModuleList([nn.Linear(2048, 81), nn.Linear(2048, 320)])
        elif "box" in heads:
            boxes = 1 if stages > 1 else None
            self.box = nn.ModuleList(BoxHead(width, 80, norm, boxes) for _ in range(stages))
        if "mask" in heads:
            self.mask = mask_head(2048 if kind != "fpn" else 256, 80, 0 if kind == "c4" else 4, norm)
        if "keypoint" in heads:
            self.keypoint = keypoint_head()
        if "semantic" in heads:
            self.semantic = Semantic()

    def features(self, image: Tensor) -> list[Tensor]:
        found = []
        for stage in self.trunk:
            image = stage(image)
            found.append(image)
        return self.pyramid(found[1:]) if self.kind == "fpn" else found[-1:]

    def forward(self, image: Tensor) -> list[Tensor]:
        levels = self.features(image)
        out = self.rpn(levels) if self.rpn else []
        pooled = levels[:4]
        if "box" in self.heads and self.top is not None:
            found = self.top(regions(pooled, PROPOSALS, 14))
            mean = found.mean((2, 3))
            out += [layer(mean) for layer in self.linear]
            if "mask" in self.heads:
                out.append(self.mask(found[: image.shape[0] * POSITIVES]))
            return out
        if "box" in self.heads:
            for head in self.box:
                out += head(regions(pooled, PROPOSALS, 7))
        if "mask" in self.heads:
            out.append(self.mask(regions(pooled, POSITIVES, 14)))
        if "keypoint" in self.heads:
            out.append(self.keypoint(regions(pooled, POSITIVES, 14)))
        if "semantic" in self.heads:
            out.append(self.semantic(levels[:4]))
        return out


class RetinaNet(nn.Module):
    """One-stage detector with focal loss over all anchors."""

    def __init__(self, backbone: str, classes: int) -> None:
        super().__init__()
        self.trunk = trunk(backbone)
        self.pyramid = Pyramid([512, 1024, 2048], "conv")

        def tower() -> nn.Sequential:
            return nn.Sequential(*(m for _ in range(4) for m in (nn.Conv2d(256, 256, 3, padding=1), nn.ReLU())))

        self.towers = nn.ModuleList([tower(), tower()])
        self.score, self.box = nn.Conv2d(256, 9 * classes, 3, padding=1), nn.Conv2d(256, 36, 3, padding=1)

    def forward(self, image: Tensor) -> list[Tensor]:
        found = []
        for stage in self.trunk:
            image = stage(image)
            found.append(image)
        levels = self.pyramid(found[2:])
        scores = torch.cat([self.score(self.towers[0](level)).flatten(1) for level in levels], 1)
        boxes = [self.box(self.towers[1](level)) for level in levels]
        loss = import_module("torchvision.ops").sigmoid_focal_loss(scores, torch.empty_like(scores), reduction="sum")
        return [loss, *boxes]


class SSD300(nn.Module):
    """SSD on a ResNet cut after its fourth stage, which keeps the 38 x 38 positions; all of it trained."""

    def __init__(self, backbone: str) -> None:
        super().__init__()
        net = getattr(import_module("torchvision.models"), backbone)(weights=None)
        first = net.layer3[0]
        for layer in (first.conv1, first.conv2, first.downsample[0]):
            layer.stride = (1, 1)
        self.trunk = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2, net.layer3)
        widths = [1024 if backbone == "resnet50" else 256, 512, 512, 256, 256, 256]
        inner = [256, 256, 128, 128, 128]
        self.more = nn.ModuleList()
        for i, (wide, out, between) in enumerate(zip(widths, widths[1:], inner, strict=False)):
            how = {"padding": 1, "stride": 2} if i < 3 else {}
            self.more.append(
                nn.Sequential(
                    nn.Conv2d(wide, between, 1, bias=False), nn.BatchNorm2d(between), nn.ReLU(True),
                    nn.Conv2d(between, out, 3, bias=False, **how), nn.BatchNorm2d(out), nn.ReLU(True),
                )
            )  # fmt: skip
        boxes = [4, 6, 6, 6, 4, 4]
        self.place = nn.ModuleList(nn.Conv2d(w, 4 * n, 3, padding=1) for w, n in zip(widths, boxes, strict=True))
        self.score = nn.ModuleList(nn.Conv2d(w, 81 * n, 3, padding=1) for w, n in zip(widths, boxes, strict=True))

    def forward(self, image: Tensor) -> list[Tensor]:
        levels = [self.trunk(image)]
        for layer in self.more:
            levels.append(layer(levels[-1]))
        scores = torch.cat([s(x).reshape(len(x), 81, -1) for s, x in zip(self.score, levels, strict=True)], 2)
        places = torch.cat([p(x).reshape(len(x), 4, -1) for p, x in zip(self.place, levels, strict=True)], 2)
        labels = torch.empty(scores.shape[0], scores.shape[2], dtype=torch.long, device="meta")
        return [functional.cross_entropy(scores, labels), places]


X101 = "resnext101_32x8d"
RCNNS: dict[str, tuple[str, str, tuple[str, ...], dict[str, Any]]] = {
    "maskrcnn-resnet50-fpn": ("resnet50", "fpn", ("box", "mask"), {}),
    "maskrcnn-resnet101-fpn": ("resnet101", "fpn", ("box", "mask"), {}),
    "maskrcnn-resnext101-32x8d-fpn": (X101, "fpn", ("box", "mask"), {}),
    "maskrcnn-resnet50-c4": ("resnet50", "c4", ("box", "mask"), {}),
    "maskrcnn-resnet101-c4": ("resnet101", "c4", ("box", "mask"), {}),
    "maskrcnn-resnet50-dc5": ("resnet50", "dc5", ("box", "mask"), {}),
    "maskrcnn-resnet101-dc5": ("resnet101", "dc5", ("box", "mask"), {}),
    "maskrcnn-resnet50-fpn-gn": ("resnet50", "fpn", ("box", "mask"), {"norm": True}),
    "fasterrcnn-resnet50-fpn": ("resnet50", "fpn", ("box",), {}),
    "fasterrcnn-resnet101-fpn": ("resnet101", "fpn", ("box",), {}),
    "fasterrcnn-resnext101-32x8d-fpn": (X101, "fpn", ("box",), {}),
    "fasterrcnn-resnet50-c4": ("resnet50", "c4", ("box",), {}),
    "fasterrcnn-resnet50-dc5": ("resnet50", "dc5", ("box",), {}),
    "fasterrcnn-resnet101-dc5": ("resnet101", "dc5", ("box",), {}),
    "fastrcnn-resnet50-fpn": ("resnet50", "fpn", ("box",), {"rpn": False}),
    "rpn-resnet50-fpn": ("resnet50", "fpn", (), {}),
    "rpn-resnet50-c4": ("resnet50", "c4", (), {}),
    "keypointrcnn-resnet50-fpn": ("resnet50", "fpn", ("box", "keypoint"), {}),
    "keypointrcnn-resnext101-32x8d-fpn": (X101, "fpn", ("box", "keypoint"), {}),
    "panoptic-fpn-resnet50": ("resnet50", "fpn", ("box", "mask", "semantic"), {}),
    "panoptic-fpn-resnet101": ("resnet101", "fpn", ("box", "mask", "semantic"), {}),
    "cascade-maskrcnn-resnet50-fpn": ("resnet50", "fpn", ("box", "mask"), {"stages": 3}),
}
"""Detectron2's names as the measurements write them: backbone, features, heads."""


def tasks() -> Iterator[Task]:
    """Detectors of the measurements at the size that their rows are trained at."""

    def task(name: str, shape: tuple[int, ...], build: Any, definition: str) -> Task:
        described = "x".join(map(str, shape))
        return Task(
            name=name, described=described, build=build, inputs=floats(shape), packages=PARTS, definition=definition
        )

    for name, (backbone, kind, heads, how) in RCNNS.items():
        yield task(name, PHOTOGRAPH, lambda b=backbone, k=kind, h=heads, w=how: RCNN(b, k, h, **w), ZOO)
    for name, backbone in (("retinanet-resnet50-fpn", "resnet50"), ("retinanet-resnet101-fpn", "resnet101")):
        yield task(name, PHOTOGRAPH, lambda b=backbone: RetinaNet(b, 80), ZOO)
    mlperf = "mlcommons/training retired_benchmarks/retinanet"
    yield task("retinanet-resnext50", (3, 800, 800), lambda: RetinaNet("resnext50_32x4d", 264), mlperf)
    ssd = "NVIDIA/DeepLearningExamples PyTorch/Detection/SSD"
    for backbone in ("resnet50", "resnet34"):
        yield task(f"ssd300-{backbone}", (3, 300, 300), lambda b=backbone: SSD300(b), ssd)
    tf = "NVIDIA/DeepLearningExamples TensorFlow/Detection/SSD: shared heads over a feature pyramid"
    yield task("ssd320-resnet50-fpn", (3, 320, 320), lambda: RetinaNet("resnet50", 90), tf)
