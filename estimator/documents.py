"""What a person or program gets back: the plan and estimate documents of the interface contract.

Unknown is `None`, never 0. Keys may be added; the ones here keep their names, meaning and units.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from estimator.frames import Frames
from estimator.terms import BoundBy, EvidenceKind, Verdict
from pricing.offers import Market, PriceState


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(_Document):
    """An 80% interval: one run in ten is expected below `p10`, one in ten above `p90`."""

    p10: float
    p50: float
    p90: float


class LayoutDocument(_Document):
    """How the job is divided; gpus = data x tensor x pipeline x context."""

    micro_batch: float = Field(description="samples a model replica runs at once")
    grad_accum: int
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    virtual_stages: int = Field(default=1, description="model chunks a GPU holds in an interleaved pipeline; 1: one")
    sharding: str
    activation_checkpointing: str


class Throughput(_Document):
    """Of the whole job."""

    value: float
    unit: str


class PricePathDocument(_Document):
    """What an hour of one spot instance is expected to cost over the run, by how its price moved before in its zone."""

    observations: int = Field(description="price levels seen")
    days: float = Field(description="for how long the price was watched")
    mean: float
    p10: float
    p50: float
    p90: float


class PriceSpreadDocument(_Document):
    """What an hour of one spot instance may cost by now, as an 80% interval, where no history tells how it moves."""

    p10: float
    p90: float
    places: int = Field(description="that rent the machine on spot, this one included")
    age_days: float = Field(description="since the price was seen")


class PriceDocument(_Document):
    """What an hour costs, who says so, and how old that is."""

    usd_per_hour: float | None = Field(description="whole job")
    usd_per_hour_instance: float | None
    source: str | None
    observed_at: datetime | None
    age_hours: float | None
    state: PriceState
    list_usd_per_hour: float | None = Field(None, description="whole job, where one pays otherwise than the list says")
    term_hours: float | None = Field(None, description="length of a commitment, or fixed time of a prepaid block")
    break_even_hours: float | None = Field(None, description="use within the term beyond which on demand is dearer")
    upfront_usd: float | None = Field(None, description="whole job: what is paid before it starts, whatever is used")
    path: PricePathDocument | None = Field(
        None, description="of a spot price with a history; without one, `spread` says how far it may be off"
    )
    spread: PriceSpreadDocument | None = None


class MemoryDocument(_Document):
    """GiB per GPU; `capacity` is what software can allocate."""

    used: float | None = Field(description="None where the activations of the model are not known")
    low: float | None = Field(default=None, description="of the 80% interval of `used`")
    high: float | None = Field(default=None, description="of the 80% interval of `used`")
    capacity: float | None
    verdict: Verdict
    margin: float | None = Field(default=None, description="capacity less used")
    probability: float | None = Field(default=None, description="that it fits, by the uncertainty of the memory model")
    phases: dict[str, float] = Field(default_factory=dict, description="GiB per GPU at the worst moment of each phase")
    parts: dict[str, float] = Field(default_factory=dict, description="GiB per GPU by component; they sum to `used`")


class MeasurementUsed(_Document):
    """A measured row that pulled this prediction, with how far it is from what was asked (0 = the same)."""

    source: str
    model: str
    gpu: str
    gpus: float | None = None
    precision: str | None = None
    date: str | None = None
    throughput: float | None = None
    unit: str | None = None
    scope: str | None = Field(default=None, description="total, or per_gpu")
    distance: float


class Evidence(_Document):
    """What the number rests on."""

    kind: EvidenceKind
    measurements: list[MeasurementUsed] = Field(default_factory=list)
    summary: str = ""
    correction: float = Field(
        default=1.0, description="factor on the physical throughput that the measurements asked for"
    )


class Spread(_Document):
    """A figure with the range of its sources, which may contradict each other; not an interval of a fit."""

    low: float
    typical: float
    high: float


class EnergyDocument(_Document):
    """Electricity and emissions of a run, with the sources of the figures."""

    kwh: Spread
    kg_co2e: Spread | None
    sources: list[str]


class RiskDocument(_Document):
    """What chance does to the run."""

    hazard_per_hour: Spread = Field(description="interruptions per hour of the whole job")
    expected_interruptions: float
    expected_lost_hours: float = Field(default=0.0, description="work done again, waiting and restarts")
    checkpoint_interval_hours: float | None = Field(description="None: a checkpoint at the end only")
    expected_hours: float
    expected_cost_usd: float | None
    probability_deadline: float | None = Field(default=None, description="to be done by the deadline; None without one")
    probability_budget: float | None = None
    reclaimed_per_month: str | None = Field(default=None, description="what the cloud's spot advisor states")
    evicted_per_hour: str | None = Field(default=None, description="the eviction band that the cloud states")


class ConvertedDocument(_Document):
    """The dollars of an entry in the currency that the request asks for, at the rate that it gives."""

    currency: str
    per_usd: float
    cost: Interval | None
    per_hour: float | None = Field(description="whole job")
    parts: dict[str, float] = Field(default_factory=dict)


class EstimateEntry(_Document):
    """One workload on one hardware and layout: how long, does it fit, and why; a price where one is known."""

    cloud: str | None = Field(default=None, description="who rents the machine; own: a machine of yours")
    region: str | None = None
    zone: str | None = None
    zone_id: str | None = None
    instance_type: str | None = Field(default=None, description="type or name of the machine; null: nobody rents it so")
    market: Market | None = None
    gpu: str
    gpus: float
    nodes: int
    layout: LayoutDocument
    throughput: Throughput
    step_ms: float
    steps: int
    precision: str = Field(default="auto", description="number format of the matrix work, as asked or chosen")
    mfu: float | None
    hfu: float | None
    bound_by: BoundBy
    breakdown_ms: dict[str, float] = Field(
        description="milliseconds of one optimizer step by term; they sum to step_ms"
    )
    hours: Interval
    hours_parts: dict[str, float] = Field(description="hours (p50) by part of the run; they sum to hours.p50")
    gpu_hours: float
    cost_usd: Interval | None
    cost_parts: dict[str, float] = Field(
        default_factory=dict,
        description="dollars (p50) by part; they sum to cost_usd.p50; a part nobody can price is absent",
    )
    risk: RiskDocument
    energy: EnergyDocument | None = None
    converted: ConvertedDocument | None = None
    price: PriceDocument
    memory_gib: MemoryDocument
    evidence: Evidence
    warnings: list[str] = Field(default_factory=list)
    explanation: list[str] = Field(default_factory=list, description="the derivation with its numbers, when asked for")


class PlanEntry(EstimateEntry):
    """A ranked estimate with an offer."""

    rank: int
    cloud: str
    region: str | None
    zone: str | None
    instance_type: str
    market: Market
    pareto: bool
    other_offers: int = Field(default=0, description="places that rent the same type in the same market, no cheaper")


class PolicyDocument(_Document):
    """The cheapest spot plan under another policy, beside the same machines on demand."""

    policy: str = Field(description="wait, fallback-after-N or on-demand")
    hours: Interval
    cost_usd: Interval
    expected_cost_usd: float
    expected_interruptions: float
    probability_deadline: float | None


class FrontierPoint(_Document):
    """One point of the exact time-against-cost front over all feasible plans."""

    cloud: str
    region: str | None
    instance_type: str
    market: Market
    nodes: int
    gpu: str
    gpus: float
    hours: float
    cost_usd: float


class ClosestDocument(_Document):
    """The machine on which a workload that fits nowhere lacks least memory, and what would lie in its GPUs."""

    gpu: str
    gpus: float
    nodes: int
    layout: LayoutDocument
    memory_gib: MemoryDocument


class PlanDocument(Frames, _Document):
    """Ranked plans, or the reason why none exists."""

    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    workload: dict[str, Any]
    plans: list[PlanEntry]
    frontier: list[FrontierPoint] = Field(default_factory=list)
    rejected: dict[str, int] = Field(default_factory=dict)
    binding: str | None = None
    assumptions: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    hints: list[str] = Field(default_factory=list, description="what would make a refused workload possible")
    closest: ClosestDocument | None = Field(default=None, description="where memory binds: what lacks least of it")
    policies: list[PolicyDocument] = Field(
        default_factory=list, description="what to do about interruptions, for the best spot plan shown"
    )
    tradeoffs: list[str] = Field(default_factory=list, description="what more time or more money would buy")


class EstimateDocument(Frames, _Document):
    """The same workload on each hardware asked for, in the order asked."""

    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    workload: dict[str, Any]
    estimates: list[EstimateEntry]
    rejected: dict[str, str] = Field(default_factory=dict, description="hardware asked for but not possible, and why")
    assumptions: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    hints: list[str] = Field(default_factory=list)
    closest: dict[str, ClosestDocument] = Field(
        default_factory=dict, description="by hardware asked for, where memory is in the way: what lacks least of it"
    )


class SolveDocument(_Document):
    """The most, or the least, of one thing that the limits of a request allow, and the plan that reaches it."""

    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    solve_for: str
    value: float | None = Field(
        description="tokens, hours, dollars, GPUs, tokens of a sequence or millions of parameters; None where nothing "
        "satisfies the limits"
    )
    unit: str
    model: str | None = Field(default=None, description="the largest model, where that was asked")
    plan: PlanEntry | None
    binding: str | None = None
    hints: list[str] = Field(default_factory=list)
