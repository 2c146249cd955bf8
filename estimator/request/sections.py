"""The nested parts of a request: adapters, a model by its shape or counts, own machines, limits and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.objectives import objectives, resolve_objective
from estimator.request.fields import (
    MARKETS,
    MAX_IMAGE_SIZE,
    MAX_NODES,
    PRECISIONS,
    Accelerators,
    Figure,
    FigureOrZero,
    Flag,
    Gib,
    GpuCount,
    Hours,
    Names,
    SeqLen,
    Sort,
    Strict,
    Usd,
    UsdOrZero,
    choice,
    listed,
    quantity,
    refused,
    said,
    whole,
    words,
)
from estimator.request.quantities import parse_count, parse_share
from estimator.terms import Precision
from pricing.offers import Market
from pricing.sources.own import INTERCONNECTS, RDMA

OWN_NETWORK_GBPS = 10.0  # Ethernet of a usual server room; 1 to 25 Gbit/s are common
RDMA_WORDS = {
    "true": "infiniband", "yes": "infiniband", "ib": "infiniband", "false": "", "no": "", "none": "",
    "tcpx": "gpudirect-tcpx",
}  # fmt: skip


class Lora(Strict):
    """Low-rank adapters: rank and the weights they sit on."""

    rank: Annotated[int, whole(1, 65_536)] = 16
    alpha: Annotated[float, quantity(parse_count, 0, 1e6)] | None = None
    targets: str | tuple[str, ...] = "all-linear"

    @field_validator("targets")
    @classmethod
    def _targets(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = (value,) if isinstance(value, str) else value
        if not names or any(not name.strip() for name in names):
            raise refused("name at least one target", ("all-linear", "attention"))
        return value


class Architecture(Strict):
    """A model that no table knows, by its shape. `kind` follows from the other keys when it is left out."""

    kind: Literal["decoder", "moe", "encoder", "encoder-decoder", "vision"] | None = None
    layers: Annotated[int, whole(1, 10_000)]
    hidden: Annotated[int, whole(1, 1_000_000)]
    heads: Annotated[int, whole(1, 100_000)] | None = None
    kv_heads: Annotated[int, whole(1, 100_000)] | None = None
    head_dim: Annotated[int, whole(1, 65_536)] | None = None
    ffn_hidden: Annotated[int, whole(1, 10_000_000)] | None = None
    gated_ffn: Flag | None = None
    vocab: Annotated[int, whole(1, 100_000_000)] | None = None
    max_seq_len: SeqLen | None = None
    tied_embeddings: Flag | None = None
    experts: Annotated[int, whole(1, 65_536)] | None = None
    experts_per_token: Annotated[int, whole(1, 65_536)] | None = None
    shared_experts: Annotated[int, whole(0, 65_536)] | None = None
    dense_layers: Annotated[int, whole(0, 10_000)] | None = None
    dense_ffn: Annotated[int, whole(1, 10_000_000)] | None = None
    image_size: Annotated[int, whole(1, MAX_IMAGE_SIZE)] | None = None
    params_m: Figure | None = None
    active_params_m: Figure | None = None


class Custom(Strict):
    """A model by its counts: parameters, FLOPs (forward and backward) and kept activation bytes of one sample."""

    params_m: Figure
    flops_per_sample: Figure
    activation_bytes_per_sample: Figure | None = None  # without it, whether the model fits is unknown
    active_params_m: Figure | None = None
    trainable_params_m: FigureOrZero | None = None
    grouped_flops_per_sample: FigureOrZero | None = None  # the part of the FLOPs in depthwise convolutions
    moved_bytes_per_sample: Figure | None = None  # read and written, forward and backward; else what is kept, 3 x once
    bytes_per_sample: FigureOrZero | None = None  # stored bytes the loader reads
    kernels: FigureOrZero | None = None  # kernel launches of one forward pass
    layers: Annotated[int, whole(1, 100_000)] | None = None
    unit: Literal["samples", "tokens", "images"] = "samples"


def read_objective(value: object) -> object:
    """A self-supervised objective by its name here; `none` and `supervised` are none."""
    if value is None or str(value).strip().casefold() in ("", "none", "supervised"):
        return None
    try:
        return resolve_objective(str(value)).name
    except UnknownName as unknown:
        raise refused(f"{said(value)} is not known", unknown.nearest or tuple(objectives())) from None


def read_own(value: object) -> object:
    """Own machines from `name=lab,gpu=RTX-3090,usd_per_hour=0.4`, one mapping, or a list of either."""
    return _written(value, "name=lab,gpu=RTX-3090,gpus_per_node=8,usd_per_hour=0.4")


def read_quotas(value: object) -> object:
    """Quotas from `cloud=aws,gpu=H100,max_gpus=16`, one mapping, or a list of either."""
    return _written(value, "cloud=aws,gpu=H100-SXM5-80GB,max_gpus=16")


def _written(value: object, example: str) -> object:
    if value is None:
        return ()
    items = [value] if isinstance(value, str | Mapping | Strict) else value
    if not isinstance(items, list | tuple):
        return value
    return [_pairs(item, example) if isinstance(item, str) else item for item in items]


def _pairs(text: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise refused(f"{said(part)} is not key=value", (example,))
        if key.strip() in found:
            raise refused(f"{key.strip()} is given twice in {said(text)}")
        found[key.strip()] = value.strip()
    return found


class OwnMachine(Strict):
    """Hardware the user already has, ranked beside the clouds; 0 USD an hour is allowed, None is unpriced.

    Instead of `usd_per_hour` the purchase may be stated, from which `pricing.sources.own` works out the hour.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    gpu: Annotated[str, Field(min_length=1, max_length=200)]
    gpus_per_node: GpuCount = 1.0
    nodes: Annotated[int, whole(1, MAX_NODES)] = 1
    usd_per_hour: UsdOrZero | None = None
    purchase_usd: Usd | None = None  # of one node, as the figures below
    years: Annotated[float, quantity(parse_count, 0, 50)] | None = None
    utilisation: Annotated[float, quantity(parse_share, 0, 1)] | None = None
    power_kw: FigureOrZero | None = None
    usd_per_kwh: UsdOrZero | None = None
    pue: Annotated[float, quantity(parse_count, 1, 10)] | None = None
    upkeep_usd_per_year: UsdOrZero | None = None
    resale_usd: UsdOrZero | None = None
    vcpus: Annotated[int, whole(1, 100_000)] | None = None
    mem_gib: Gib | None = None
    gpu_mem_gib: Gib | None = None
    gpu_interconnect: Annotated[str, words(INTERCONNECTS)] | None = None
    network_gbps: Figure | None = None
    rdma: Annotated[str, words(RDMA, RDMA_WORDS)] | None = None

    def stated(self) -> dict[str, object]:
        """What is known of the machine; several nodes whose network nobody states talk over `OWN_NETWORK_GBPS`."""
        known = self.model_dump(exclude_none=True)
        if self.nodes > 1 and self.network_gbps is None and not self.rdma:
            known |= {"network_gbps": OWN_NETWORK_GBPS, "rdma": ""}
        return known

    @field_validator("gpus_per_node")
    @classmethod
    def _whole_cards(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise refused(f"{value:g} is neither a share of one card nor a whole number", (str(int(value)),))
        return value

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, value: object) -> object:
        """`gpu: RTX-3090:8` says how many a node has, when `gpus_per_node` does not."""
        if not isinstance(value, Mapping) or value.get("gpus_per_node") is not None:
            return value
        gpu = value.get("gpu")
        if not isinstance(gpu, str) or ":" not in gpu:
            return value
        try:
            name, count = split_gpu(gpu)
        except WorkloadError as error:
            raise refused(error.message, error.nearest) from None
        return {**value, "gpu": name, "gpus_per_node": count}


class Quota(Strict):
    """At most so many GPUs where all the patterns match (what is left out matches everything); 0 closes a place."""

    cloud: str | None = None
    region: str | None = None
    instance_type: str | None = None
    gpu: str | None = None
    market: Annotated[Market, choice(Market, MARKETS)] | None = None
    max_gpus: Annotated[float, quantity(parse_count, 0, 1e7, zero=True)]


class Constraints(Strict):
    """What a plan must keep to; names may hold `*` wildcards where they are patterns (regions, zones, types)."""

    deadline: Hours | None = None
    budget: Usd | None = None
    confidence: Annotated[float, quantity(parse_share, 0, 0.999)] | None = None  # of deadline and budget; None: the p50
    max_usd_per_hour: Usd | None = None
    clouds: Names | None = None
    regions: Names | None = None
    zones: Names | None = None
    exclude_regions: Names | None = None
    exclude_zones: Names | None = None
    quotas: Annotated[tuple[Quota, ...], BeforeValidator(read_quotas)] = ()
    gpus: Names | None = None
    instance_types: Names | None = None
    markets: Annotated[tuple[Annotated[Market, choice(Market, MARKETS)], ...] | None, BeforeValidator(listed)] = None
    min_nodes: Annotated[int, whole(1, MAX_NODES)] | None = None
    max_nodes: Annotated[int, whole(1, MAX_NODES)] | None = None
    max_gpus: Annotated[float, quantity(parse_count, 0, 1e6)] | None = None  # of the whole job
    precisions: Annotated[
        tuple[Annotated[Precision, choice(Precision, PRECISIONS)], ...] | None, BeforeValidator(listed)
    ] = None  # the formats to choose among, instead of the one of `precision`
    accelerators: Annotated[Accelerators, choice(Accelerators, {"all": "any", "gpus": "gpu"})] = Accelerators.GPU

    @field_validator("gpus")
    @classmethod
    def _gpus(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        try:
            for text in value or ():
                split_gpu(text)
        except WorkloadError as error:
            raise refused(error.message, error.nearest) from None
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_nodes and self.max_nodes and self.min_nodes > self.max_nodes:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "reason": f"min_nodes {self.min_nodes} is above max_nodes {self.max_nodes}",
                    "nearest": [str(self.max_nodes)],
                    "field": "min_nodes",
                },
            )
        for text in self.gpus or ():
            _, count = split_gpu(text)
            if self.max_gpus is not None and count is not None and count > self.max_gpus:
                reason = f"{self.max_gpus:g} is below the number of {said(text)}"
                raise PydanticCustomError(
                    "refused", "{reason}", {"reason": reason, "nearest": [f"{count:g}"], "field": "max_gpus"}
                )
        return self


class Options(Strict):
    """How many plans are wanted and in which order."""

    top: Annotated[int, whole(1, 10_000)] = 10
    sort: Annotated[Sort, choice(Sort, {"price": "cost", "usd": "cost", "hours": "time", "speed": "time"})] = Sort.COST
    explain: Flag = False


def split_gpu(text: str) -> tuple[str, float | None]:
    """`H100:8` as ("H100", 8): the count is of the whole job; None when there is no count.

    >>> split_gpu("A100-80GB:16")
    ('A100-80GB', 16.0)
    """
    name, colon, count = text.rpartition(":")
    if not colon:
        return text.strip(), None
    try:
        number = parse_count(count)
    except WorkloadError:
        number = 0.0
    if not 0 < number <= 1e6 or not name.strip() or ":" in name:
        raise WorkloadError(
            f"{said(text)} is not GPU[:COUNT] with a count above 0", field="gpus", value=text, nearest=("H100:8",)
        )
    return name.strip(), number
