"""Which models have been counted operator by operator, and what was counted? (See `scripts/count_inventories.py`.)"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import benchmarks_db

FILE = Path(benchmarks_db.__file__).parent / "data" / "inventories.csv"

LEFT_OUT = FILE.with_name("inventories_left_out.csv")
"""Models that were not counted, and counted ones that are not used, each with the reason."""


LATENT = 8.0
"""Pixels on a side of one latent of Stable Diffusion's autoencoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Counts of one training sample; forward unless the name says otherwise. Values are numbers, not bytes.

    A multiply-add is 2 FLOPs. The model as written: eager, every operator a kernel. "Fixed" counts are per pass of
    the model, whatever the batch.
    """

    model: str
    input: str  # e.g. "3x224x224"
    params: float
    trained_params: float  # those that learn; frozen stages and networks are the rest
    param_tensors: float  # optimizer work is a list of tensors
    linear_flops: float  # matrix products of linear layers
    conv1x1_flops: float  # dense convolutions with a 1x1 window
    conv_flops: float  # dense convolutions with a larger window
    grouped_flops: float  # several groups of several channels
    slow_grouped_flops: float  # part of grouped that channels-last libraries lack fast kernels for, see `counting`
    depthwise_flops: float  # one channel a group
    attention_flops: float  # batched products (scores, values)
    narrow_flops: float  # the part of linear + conv1x1 + conv with fewer than 64 channels in or out
    wide_flops: float  # the part with at least 256 channels in and out
    backward_flops: float  # all of the above, backward
    matrix_values: float  # read and written by matrix work, forward
    grouped_values: float  # read and written by grouped and depthwise convolutions, forward
    norm_values: float  # read and written by normalisation layers, forward
    elementwise_values: float  # read and written by everything else, forward
    backward_values: float  # read and written by normalisation and everything else, backward
    fixed_values: float  # normalisation and everything else, forward + backward, that does not grow with the batch
    softmax_values: float  # outputs of softmax (attention scores), part of elementwise
    stored_values: float  # kept for the backward pass, parameters excluded
    kept_scores: float  # of them, outputs of softmax: what fused attention does not keep
    largest_values: float  # the largest single stored tensor
    kernels: float  # forward
    backward_kernels: float
    exchanged_values: float = 0.0  # looked up in tables that the GPUs of a job share out (recommendation)
    source: str = ""  # packages and versions that defined and counted the model

    @property
    def forward_flops(self) -> float:
        """All matrix work of a forward pass."""
        dense = self.linear_flops + self.conv1x1_flops + self.conv_flops
        return dense + self.grouped_flops + self.depthwise_flops + self.attention_flops

    @property
    def image_size(self) -> float | None:
        """Pixels of the shorter side of the counted input (8 a latent of a diffusion model); None where no image."""
        shape, _, rest = self.input.partition(" ")
        sides = shape.split("x")
        if len(sides) != 3 or not all(side.isdigit() for side in sides):
            return None
        return float(min(sides[1:], key=float)) * (LATENT if rest.startswith("latents") else 1.0)

    @property
    def length(self) -> float | None:
        """Tokens of the counted sample; None where a sample is no single sequence of tokens."""
        number, _, rest = self.input.partition(" ")
        return float(number) if number.isdigit() and rest.startswith("tokens") else None


_TEXT = ("model", "input", "source")


@cache
def left_out() -> dict[str, str]:
    """Why a model of the measurements has no counts, or has counts that are not used, by name."""
    with LEFT_OUT.open(encoding="utf-8", newline="") as file:
        return {fold(row["model"]): row["reason"] for row in csv.DictReader(file)}


@cache
def _rows() -> dict[str, list[dict[str, str]]]:
    """The cells of every row of the file by model: few of them are asked for, so they are read as numbers then."""
    table: dict[str, list[dict[str, str]]] = {}
    if not FILE.is_file():
        return {}
    with FILE.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    at = header.index("model")
    for cells in rows:
        table.setdefault(fold(cells[at]), []).append(dict(zip(header, cells, strict=True)))
    return table


@cache
def _counted(name: str) -> tuple[Inventory, ...]:
    """The counts of a folded name, at each input size that was counted; none where it was not."""
    found = []
    for row in _rows().get(name, ()):
        scores = row["kept_scores"] or row["softmax_values"]  # not told apart when it was counted
        cells = {f.name: row[f.name] if f.name in _TEXT else float(row[f.name] or 0.0) for f in fields(Inventory)}
        found.append(Inventory(**cells | {"kept_scores": float(scores or 0.0)}))  # type: ignore[arg-type]
    return tuple(found)


def inventories() -> dict[str, tuple[Inventory, ...]]:
    """All counted models by name (lower case, dashes), each at the input sizes that were counted."""
    return {name: _counted(name) for name in _rows()}


def fold(name: str) -> str:
    """The key of a model's name: timm's underscores and the dashes of measurements are one name."""
    return name.lower().replace("_", "-").split(".")[0] if name[:1].isalpha() and "/" not in name else name.lower()


def find(name: str, image_size: float | None = None, length: float | None = None) -> Inventory | None:
    """The counts of `name`, at the counted size or length nearest to the asked one (default: the first); or None.

    None too where counts exist but foretell worse than measurements alone (`left_out`).
    """
    found = _counted(fold(name)) if fold(name) not in left_out() else ()
    if not found or (image_size is None and length is None):
        return found[0] if found else None

    def apart(inventory: Inventory) -> float:
        sizes = (inventory.image_size, image_size), (inventory.length, length)
        return sum(abs(counted - asked) for counted, asked in sizes if counted and asked)

    return min(found, key=apart)
