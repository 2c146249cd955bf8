"""Networks over sequences: translation, language models with memory, recommendation tables.

Fused LSTM layers are written as if all time steps ran at once: the same products and values, while `Task.steps` says
how many kernels the fused libraries launch one after another (a product and a gate a step and direction).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scripts.inventory_models.task import Task, floats, numbers

EXAMPLES = "NVIDIA/DeepLearningExamples PyTorch/"
STEP_KERNELS = 2.0
"""Kernels of one time step of a fused LSTM layer: the product with the state, and the gates."""


class FusedLSTM(nn.Module):
    """An LSTM layer; every step at once. Shapes (batch, time, in) to (batch, time, directions x width)."""

    def __init__(self, wide: int, width: int, directions: int = 1) -> None:
        super().__init__()
        self.into = nn.ModuleList(nn.Linear(wide, 4 * width) for _ in range(directions))
        self.state = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(directions))

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for into, state in zip(self.into, self.state, strict=True):
            gates = into(x)
            gates = gates + state(gates[..., : gates.shape[-1] // 4])
            start, forget, cell, out = torch.sigmoid(gates).chunk(4, -1)
            cell = forget * cell + start
            found.append(out * torch.tanh(cell))
        return torch.cat(found, -1) if len(found) > 1 else found[0]


class GNMT(nn.Module):
    """Four LSTM layers of 1,024 a side, the first bidirectional; attention after the first decoder layer."""

    def __init__(self, vocab: int = 32320, width: int = 1024) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.encoder = nn.ModuleList(
            [FusedLSTM(width, width, 2), FusedLSTM(2 * width, width), FusedLSTM(width, width), FusedLSTM(width, width)]
        )
        self.first = FusedLSTM(width, width)
        self.decoder = nn.ModuleList(FusedLSTM(2 * width, width) for _ in range(3))
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(width, vocab)
        self.drop = nn.Dropout(0.2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.drop(self.table(source))
        for i, layer in enumerate(self.encoder):
            y = layer(self.drop(x))
            x = y + x if i >= 2 else y
        y = self.first(self.table(target))
        score = self.energy(torch.tanh(self.query(y)[:, :, None] + self.key(x)[:, None])).squeeze(-1)
        context = torch.softmax(score, -1) @ x
        for i, layer in enumerate(self.decoder):
            z = layer(torch.cat((self.drop(y), context), -1))
            y = z + y if i else z
        logits = self.out(y)
        return functional.cross_entropy(torch.log_softmax(logits, -1).flatten(0, 1), target.flatten())


class TransformerBig(nn.Module):
    """Vaswani's big translation model, tables shared with the output."""

    def __init__(self, vocab: int = 33712) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 1024)
        self.net = nn.Transformer(1024, 16, 6, 6, 4096, 0.1, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        y = self.net(self.table(source) * 32.0, self.table(target) * 32.0)
        logits = functional.linear(y, self.table.weight)
        return functional.cross_entropy(torch.log_softmax(logits, -1).flatten(0, 1), target.flatten())


class RelativeLayer(nn.Module):
    """A layer of Transformer-XL: attention over memory and segment with relative positions, and two linear layers."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.place = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.empty(2, width))
        self.out = nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mlp = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(True), nn.Dropout(0.1), nn.Linear(inner, width), nn.Dropout(0.1)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, memory: Tensor, places: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(torch.cat((memory, x), 1)).chunk(3, -1)
        q = q[:, -length:]

        def split(t: Tensor) -> Tensor:
            return t.unflatten(-1, (self.heads, width // self.heads)).transpose(1, 2)

        content = split(q + self.bias[0]) @ split(k).transpose(-1, -2)
        place = split(q + self.bias[1]) @ split(self.place(places)).transpose(-1, -2)
        pad = torch.zeros(batch, self.heads, length, 1, device=place.device)
        place = torch.cat((pad, place), -1).view(batch, self.heads, -1, length)[:, :, 1:].reshape(place.shape)
        score = (content + place) * 0.1
        score = score.masked_fill(torch.empty(score.shape[-2:], dtype=torch.bool, device="meta"), -1e9)
        y = (self.drop(torch.softmax(score, -1)) @ split(v)).transpose(1, 2).reshape(batch, length, width)
        x = self.norms[0](x + self.drop(self.out(y)))
        return self.norms[1](x + self.mlp(x))


FREQUENT = (0.9, 0.05, 0.05)
"""Share of WikiText-103's tokens in the head and the two larger tails of the adaptive softmax (assumed)."""


class TransformerXL(nn.Module):
    """Transformer-XL on WikiText-103 with adaptive input tables and softmax (cut at 19,997, 39,997 and 199,997)."""

    def __init__(self, layers: int, width: int, heads: int, inner: int, shrink: int) -> None:
        super().__init__()
        sizes = [19997, 20000, 160000, 67738]
        widths = [width // shrink**i for i in range(4)]
        self.tables = nn.ModuleList(nn.Embedding(n, w) for n, w in zip(sizes, widths, strict=True))
        self.raise_ = nn.ModuleList(nn.Linear(w, width, bias=False) for w in widths) if shrink > 1 else None
        self.clusters = nn.Linear(width, 3)
        self.layers = nn.ModuleList(RelativeLayer(width, heads, inner) for _ in range(layers))
        self.width = width

    def forward(self, tokens: Tensor) -> list[Tensor]:
        x = self.tables[0](tokens)
        if self.raise_ is not None:
            x = self.raise_[0](x)
        places = torch.empty(1, 2 * tokens.shape[1], self.width, device="meta")
        for layer in self.layers:
            x = layer(x, torch.empty_like(x), places)
        flat = x.flatten(0, 1)
        losses = []
        for i, share in enumerate(FREQUENT):
            part = flat[: max(int(len(flat) * share), 1)] if i else flat
            here = functional.linear(part, self.raise_[i].weight.t()) if self.raise_ is not None else part
            logits = functional.linear(here, self.tables[i].weight)
            logits = torch.cat((logits, self.clusters(flat)), -1) if i == 0 else logits
            wanted = torch.empty(len(part), dtype=torch.long, device="meta")
            losses.append(functional.cross_entropy(torch.log_softmax(logits, -1), wanted))
        return losses


class NeuMF(nn.Module):
    """Neural collaborative filtering on MovieLens-20M: 64 factors, layers 256, 256, 128, 64."""

    def __init__(self, users: int = 138493, items: int = 26744) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, w) for n in (users, items) for w in (64, 128))
        self.layers = nn.Sequential(
            *(m for a, b in ((256, 256), (256, 128), (128, 64)) for m in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.5)))
        )
        self.out = nn.Linear(128, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        factors = self.tables[0](user) * self.tables[2](item)
        deep = self.layers(torch.cat((self.tables[1](user), self.tables[3](item)), -1))
        score = self.out(torch.cat((factors, deep), -1))
        return functional.binary_cross_entropy_with_logits(score, torch.empty_like(score))


class DLRM(nn.Module):
    """DLRM's dense part: what 26 looked-up vectors of 128 meet. The tables are sparse and no part of it.

    `crossed`: DCN-v2's three low-rank cross layers of 512 in place of the products of all pairs.
    """

    def __init__(self, crossed: bool) -> None:
        super().__init__()
        self.bottom = self.layers(13, 512, 256, 128)
        self.cross = nn.ModuleList(
            nn.Sequential(nn.Linear(3456, 512, bias=False), nn.Linear(512, 3456)) for _ in range(3 * crossed)
        )
        self.top = self.layers(3456 if crossed else 480, 1024, 1024, 512, 256)
        self.out = nn.Linear(256, 1)

    @staticmethod
    def layers(*widths: int) -> nn.Sequential:
        return nn.Sequential(*(m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU(True))))

    def forward(self, dense: Tensor, looked_up: Tensor) -> Tensor:
        bottom = self.bottom(dense)
        rows = torch.cat((bottom[:, None], looked_up), 1)
        if self.cross:
            start = x = rows.flatten(1)
            for layer in self.cross:
                x = start * layer(x) + x
        else:
            pairs = rows @ rows.transpose(1, 2)
            x = torch.cat((bottom, pairs.flatten(1)[:, :352]), 1)
        score = self.out(self.top(x))
        return functional.binary_cross_entropy_with_logits(score, torch.empty_like(score))


def tasks() -> Iterator[Task]:
    """Translation, Transformer-XL and recommendation, a sample as the measurements count it."""

    def task(name: str, described: str, build: Any, inputs: Any, definition: str, **more: Any) -> Task:
        return Task(
            name=name,
            described=described,
            build=build,
            inputs=inputs,
            packages=("torch",),
            definition=definition,
            separate=True,
            **more,
        )

    pair = 27.5  # tokens a side: units.csv
    recurrent = STEP_KERNELS * pair * (5 + 4)
    yield task(
        "gnmt", "27 source and 28 target tokens", GNMT, numbers((27,), (28,)), EXAMPLES + "Translation/GNMT",
        steps=recurrent,
    )  # fmt: skip
    # A sample of these rows is one token of the larger side; sentences of a batch are padded to about 32
    yield task(
        "transformer-big", "1 source and 1 target token of sentences of 32", TransformerBig, numbers((32,), (32,)),
        EXAMPLES + "Translation/Transformer", samples=32.0,
    )  # fmt: skip
    xl = EXAMPLES + "LanguageModeling/Transformer-XL"
    for name, lengths, shape in (
        ("transformer-xl-base", (192,), (16, 512, 8, 2048, 1)),
        ("transformer-xl-large", (256, 384), (18, 1024, 16, 4096, 4)),
    ):
        for length in lengths:
            yield task(
                name, f"{length} tokens, memory as long", lambda s=shape: TransformerXL(*s), numbers((length,)), xl
            )
    yield task("ncf", "1 user and item", NeuMF, numbers((), ()), EXAMPLES + "Recommendation/NCF")
    tables = ((13,), (26, 128))
    dlrm = "mlcommons/training recommendation_v2 and facebookresearch/dlrm; tables left out"
    for name in ("dlrm", "dlrm-small", "dlrm-large"):
        yield task(name, "1 row of Criteo", lambda: DLRM(False), floats(*tables), dlrm, exchanged=26 * 128)
    yield task("dlrm-dcnv2", "1 row of Criteo", lambda: DLRM(True), floats(*tables), dlrm, exchanged=26 * 128)
