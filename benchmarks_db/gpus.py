"""What can a GPU do, on paper? Datasheet figures (dense, fp32 accumulation) and the names people give the cards.

How a text is resolved, first hit wins: the canonical name or an alias of `gpu_aliases.csv`, as written but for case;
the same after folding case and separators; the same without the maker's words (nvidia, tesla, geforce, quadro, amd,
instinct, google, aws, gpu); the spelling without any separator where only one card fits. `NAME:COUNT` and `NAMExCOUNT`
carry a number of GPUs. A text that fits several cards ("A100") goes to the alias table's choice with `loose=True`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.pack import Decoded, gpu_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator as software sees it; rates in TFLOP/s, None = unknown or not offered."""

    name: str
    vendor: str
    arch: str
    compute_capability: str | None
    memory_gib: float | None  # the label of the card, a name rather than a capacity
    usable_gib: float | None  # what software can allocate
    memory_bandwidth_gbps: float | None
    fp64_tflops: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    l2_mb: float | None
    sms: float | None
    boost_mhz: float | None
    tdp_w: float | None
    nvlink_gbps: float | None  # NVLink or Infinity Fabric, both directions together; None = unknown, 0 = none
    pcie_gen: float | None
    launch_year: int | None
    geforce: bool  # sold as GeForce or Titan
    kind: str  # gpu | tpu | trainium
    source: str
    usable_source: str = ""
    pcie_p2p: bool = True  # copies from GPU to GPU over PCIe; off on GeForce since Turing


@dataclass(frozen=True, slots=True)
class GpuMatch:
    """What a person's text meant: the card, how many, and whether the text fits several cards (`loose`)."""

    gpu: Gpu
    count: float | None
    loose: bool
    alternatives: tuple[str, ...] = ()


_TEXT = ("name", "vendor", "arch", "kind", "source", "usable_source")
_FLAGS = ("geforce", "pcie_p2p")


def _gpu(row: Mapping[str, str]) -> Gpu:
    values: dict[str, object] = {}
    for name, cell in row.items():
        values[name] = cell if name in _TEXT else cell == "yes" if name in _FLAGS else float(cell) if cell else None
    values["compute_capability"] = row["compute_capability"] or None
    values["launch_year"] = int(row["launch_year"]) if row["launch_year"] else None
    return Gpu(**values)  # type: ignore[arg-type]


@cache
def gpus() -> Mapping[str, Gpu]:
    """All accelerators by canonical name."""
    return Decoded(gpu_table(), lambda rows: _gpu(rows[0]))


def gpu(name: str) -> Gpu:
    """The accelerator of a canonical name; UnknownName with near names otherwise."""
    table = gpus()
    if name not in table:
        raise UnknownName("GPU", name, table, field="gpu")
    return table[name]


_COUNT = re.compile(r"^(?P<name>.+?)\s*(?:[:*]|\sx\s?)\s*(?P<count>\d+(?:\.\d+)?|\.\d+)\s*$", re.IGNORECASE)
_COUNT_FIRST = re.compile(r"^(?P<count>\d+)\s*x\s*(?P<name>\D.+)$", re.IGNORECASE)
_MAKER = re.compile(r"nvidia|tesla|geforce|quadro|amd|radeon|instinct|google|cloud|aws|gpu|graphics")
# Compiled when a name is in no table
_REFUSED = (
    r"gaudi|habana|hpu|ascend|910b|graphcore|\bipu|inferentia|cerebras|groq|sambanova|tenstorrent|ponte|max1\d\d0|apple"
    r"|\bm[1-4] ?(max|ultra|pro)"
)


def resolve_gpu(text: str, *, field: str = "gpu") -> GpuMatch:
    """The accelerator that a person's text names, with its count; UnknownName with near names otherwise.

    `field` is where the text stands, for the refusal.

    >>> match = resolve_gpu("H100:8")
    >>> match.gpu.name, match.count, match.loose
    ('H100-SXM5-80GB', 8.0, True)
    """
    name, count = text.strip(), None
    if match := _COUNT.match(name) or _COUNT_FIRST.match(name):
        name, count = match["name"].strip(), float(match["count"])
        if count <= 0:
            raise WorkloadError("the number of GPUs must be above 0", field=field, value=text)
    table = gpu_table()
    if name in table:
        return GpuMatch(gpu(name), count, False)
    bare = _MAKER.sub(" ", name.casefold()).strip()
    for spelling in (name.casefold(), bare):
        if found := table.lookup(spelling):
            return GpuMatch(gpu(found[0]), count, found[1], found[2])
    if (sized := _MEMORY.match(bare)) and (held := _with_memory(sized["name"], float(sized["gib"]), count)):
        return held
    if re.search(_REFUSED, name.casefold()):
        raise WorkloadError(
            f"{name!r} cannot be planned: only NVIDIA and AMD GPUs are, TPU and Trainium are listed",
            field=field,
            value=text,
        )
    if bare and (only := table.squeezed(bare)):
        return GpuMatch(gpu(only), count, False)
    if not name:
        raise WorkloadError("name a GPU", field=field, value=text)
    raise UnknownName("GPU", name, table.names, field=field, spellings=table.spellings())


_MEMORY = re.compile(r"^(?P<name>.+?)[\s\-_]*(?P<gib>\d+)\s*gi?b$")


def _with_memory(name: str, gib: float, count: float | None) -> GpuMatch | None:
    """The cards of a name that have so much memory on their label: `rtx 3090 24gb`; None where there are none."""
    table = gpu_table()
    found = table.lookup(name.strip())
    if found is None:
        return None
    cards = [gpu(card) for card in (found[0], *found[2])]
    right = [card for card in cards if card.memory_gib is not None and round(card.memory_gib) == gib]
    return GpuMatch(right[0], count, len(right) > 1, tuple(card.name for card in right[1:])) if right else None


def card_test(text: str) -> Callable[[str | None, float | None], bool]:
    """Whether a card and a number of them are what a person's text names: `H100:8`, every `A100`, the pattern `A100*`.

    EstimatorError, as from `resolve_gpu`, for a name that is no pattern and that nobody knows.

    >>> test = card_test("H100:8")
    >>> test("H100-SXM5-80GB", 8), test("H100-SXM5-80GB", 4), test("A100-SXM4-80GB", 8)
    (True, False, False)
    """
    if is_pattern(text):
        pattern = text.strip().casefold()
        return lambda name, _: fnmatchcase((name or "").casefold(), pattern)
    match = resolve_gpu(text)
    names = {match.gpu.name, *match.alternatives, text.strip()}

    def named(name: str | None) -> bool:
        return name in names or (name is not None and name not in gpus() and not names.isdisjoint(cards_named(name)))

    return lambda name, count: match.count in (None, count) and named(name)


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern of names (`A100*`) and no name."""
    return re.search(r"[*?[]", text) is not None


def gpus_named(text: str) -> tuple[Gpu, ...]:
    """The accelerators that a text names, by pattern or as everywhere, whatever number of them it says.

    EstimatorError, as from `resolve_gpu`, for a name that is no pattern and that nobody knows.

    >>> [one.name for one in gpus_named("a100 40gb")]
    ['A100-SXM4-40GB', 'A100-PCIE-40GB']
    """
    test, count = card_test(text), None if is_pattern(text) else resolve_gpu(text).count
    return tuple(one for one in gpus().values() if test(one.name, count))


@cache
def cards_named(text: str) -> frozenset[str]:
    """The cards that a text may mean, by canonical names: sources write `A100-80GB`; empty where nobody knows it."""
    try:
        match = resolve_gpu(text)
    except WorkloadError:
        return frozenset()
    return frozenset({match.gpu.name, *match.alternatives})
