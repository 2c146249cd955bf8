"""On how much data was a run trained in all?"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from benchmarks_db.errors import WorkloadError
from estimator.rows.cells import figure

SAME_SIZE = 0.06
"""Share by which a stated number of samples may differ from a data set's size and still be that size."""

LEAST_SAMPLES = 100.0
"""Samples that a data set has at least, but for pictures of one subject; fewer a pass are those of one pass."""

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_NUMBER = r"(\d[\d,]*\.?\d*) ?"
_TOKENS = re.compile(_NUMBER + r"([kmbt]?)(?:illion|rillion)? tokens\b", re.IGNORECASE)
_STEPS = re.compile(
    _NUMBER + r"([km]?) (?:steps|iterations|updates)\b(?: x " + _NUMBER + r"([kmbt]?) tokens)?", re.IGNORECASE
)
_COUNTED = re.compile(
    r"(?<![\w.-])" + _NUMBER + r"([km]?) (?:[\w-]+ )?"
    r"(?:samples|examples|pairs|images|pictures|traces|instructions|sequences|conversations|prompts|clips|rows)\b",
    re.IGNORECASE,
)  # fmt: skip


def amount_of(row: Mapping[str, str]) -> tuple[float, str]:
    """What is trained on in all, and the unit to ask throughput in; WorkloadError where the row does not tell.

    In figures, else in words: epochs of a data set whose size is known or stated, tokens or steps of the target.
    """
    tokens, samples, epochs = (figure(row, name) for name in ("tokens_b", "samples_m", "epochs"))
    size = size_of(row["dataset"])
    if tokens > 0:
        return tokens * 1e9, "tokens/s"
    if samples > 0:
        # Some sources state the data set and some what was trained on in all: the size of the data set decides
        is_size = size is not None and abs(samples * 1e6 / size - 1.0) < SAME_SIZE
        if size is None and epochs > 1.0 and not row["task"].casefold().startswith("diffusion"):
            is_size = samples * 1e6 < LEAST_SAMPLES * epochs
        return samples * 1e6 * (epochs if is_size and epochs > 0 else 1.0), "samples/s"
    if epochs > 0 and size:
        return epochs * size, "samples/s"
    steps = _STEPS.search(row["target"])
    if steps and steps[3]:
        return _scaled(steps[1], steps[2]) * _scaled(steps[3], steps[4]), "tokens/s"
    if told := _TOKENS.search(row["target"]):
        return _scaled(told[1], told[2]), "tokens/s"
    if told := _TOKENS.search(row["dataset"]):
        return _scaled(told[1], told[2]) * (epochs if epochs > 0 else 1.0), "tokens/s"
    if steps and (batch := figure(row, "global_batch")) > 0:
        return _scaled(steps[1], steps[2]) * batch, "samples/s"
    raise WorkloadError("neither tokens_b nor samples_m, nor epochs of a data set of known size", field="tokens_b")


def size_of(dataset: str) -> float | None:
    """Training samples of a data set: by its name, else as the text itself says it.

    >>> size_of("imagenet-1k"), size_of("imagenet100 (100 classes x 1300)"), size_of("banking77 (10,003 samples)")
    (1281167.0, 130000.0, 10003.0)
    >>> size_of("17k traces"), size_of("558K image-text pairs"), size_of("fineweb")
    (17000.0, 558000.0, None)
    """
    name, _, said = dataset.partition("(")
    if known := dataset_sizes().get(folded(dataset)) or dataset_sizes().get(folded(name)):
        return known
    numbers = [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", said)]
    if "classes" in said and len(numbers) == 2:
        return numbers[0] * numbers[1]
    if counted := _COUNTED.search(dataset):
        return _scaled(counted[1], counted[2])
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 100 else None


@cache
def dataset_sizes() -> dict[str, float]:
    """Training samples of public data sets by folded name."""
    with (files("estimator") / "data" / "datasets.csv").open(encoding="utf-8") as lines:
        return {folded(row["dataset"]): float(row["samples"]) for row in csv.DictReader(lines)}


def _scaled(figure_text: str, scale: str) -> float:
    return float(figure_text.replace(",", "")) * _SCALES[scale.casefold()]


def folded(text: str) -> str:
    """Letters and digits of a name, without case: `ImageNet-1k` and `imagenet 1K` are one data set."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())
