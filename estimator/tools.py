"""How does an assistant ask? Four tools of the Model Context Protocol: plan, estimate, offers and explain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, WorkloadError
from benchmarks_db.gpus import card_test
from estimator.documents import EstimateDocument, Interval, PlanDocument, PriceDocument
from estimator.planning.estimates import estimate
from estimator.planning.evidence import Measured
from estimator.planning.planner import plan
from estimator.request.workload import Workload
from pricing.market import Market, Offer, PriceState
from pricing.offers import OfferTable, listed
from pricing.spot_history import SpotHistory

if TYPE_CHECKING:
    from mcp.server import MCPServer

INSTRUCTIONS = (
    "Time, memory and cost of training a model on cloud GPUs or on your own. `plan` finds the cheapest or fastest "
    "offers, `estimate` answers for named GPUs, `explain` derives one answer step by step, `offers` lists prices. "
    "Every figure is an 80% interval; say it as one, with the age of its price and the kind of its evidence."
)
MOST_OFFERS = 200

Result = TypeVar("Result")
OffersNow = Callable[[str], OfferTable]
"""What can be rented now, by kind of accelerators: `gpu` or `any`."""
Beside = Callable[[Workload], tuple[Measured, SpotHistory | None]]
"""What a request rests on besides: the user's own measurements, and how spot prices moved."""


def _read(given: Any, read: ValidatorFunctionWrapHandler) -> Workload:
    """The request; what is wrong with it in words that the protocol passes on."""
    try:
        workload: Workload = read(given)
    except EstimatorError as error:
        raise ValueError(str(error)) from None
    return workload


Request = Annotated[
    Workload,
    WrapValidator(_read),
    Field(
        description="what is trained: model, method, tokens or samples or images, and constraints; for example "
        '{"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"deadline": "24h"}}'
    ),
]
Pattern = Annotated[str | None, Field(description="a name or a pattern such as `A100*`", max_length=200)]


class Quote(BaseModel):
    """A price of one instance in one place."""

    model_config = ConfigDict(frozen=True)

    cloud: str
    region: str | None
    zone: str | None
    instance_type: str
    market: Market
    gpu: str | None
    gpus_per_node: float | None
    price_usd_per_hour: float | None
    source: str
    observed_at: datetime | None
    state: PriceState


class Quotes(BaseModel):
    """Offers, cheapest first; `total` counts those that the filters leave."""

    version: str = "1"
    currency: str = "USD"
    total: int
    offers: list[Quote]


class Explanation(BaseModel):
    """Where the figures of one answer come from."""

    version: str = "1"
    gpu: str
    gpus: float
    instance_type: str | None
    hours: Interval
    cost_usd: Interval | None
    price: PriceDocument
    hours_parts: dict[str, float]
    cost_parts: dict[str, float]
    breakdown_ms: dict[str, float]
    memory_parts: dict[str, float]
    evidence: str
    derivation: list[str]
    warnings: list[str]


def _nothing(_: Workload) -> tuple[Measured, SpotHistory | None]:
    return (), None


def server_of(offers_now: OffersNow, now: Callable[[], datetime], beside: Beside = _nothing) -> MCPServer[Any]:
    """A server with the four tools over this market; `run()` it on standard input and output."""
    from mcp.server import MCPServer

    def asked(function: Callable[..., Result], request: Workload) -> Result:
        def answer() -> Result:
            offers = offers_now(_own_words(request).constraints.accelerators.value)
            measured, history = beside(request)
            return function(request, offers=offers, now=now(), measured=measured, history=history)

        return _plainly(answer)

    server: MCPServer[Any] = MCPServer("gpu-cost-estimator", instructions=INSTRUCTIONS, log_level="WARNING")

    @server.tool(name="plan", structured_output=True)
    def plan_tool(request: Request) -> PlanDocument:
        """Rank every way to train this on the market; no plans and `binding` where nothing satisfies the limits."""
        return asked(plan, request)

    @server.tool(name="estimate", structured_output=True)
    def estimate_tool(request: Request) -> EstimateDocument:
        """Time, memory and cost on each GPU of `constraints.gpus` (`H100:8`) and on each own machine."""
        return asked(estimate, request)

    @server.tool(name="explain", structured_output=True)
    def explain_tool(request: Request) -> Explanation:
        """Derive the best plan step by step: formulas with numbers, parts of time, cost and memory, measurements."""
        return asked(explained, request)

    @server.tool(name="offers", structured_output=True)
    def offers_tool(
        gpu: Pattern = None,
        cloud: Pattern = None,
        region: Pattern = None,
        instance_type: Pattern = None,
        market: Annotated[Market | None, Field(description="on-demand, spot, ...; every one unless given")] = None,
        limit: Annotated[int, Field(ge=1, le=MOST_OFFERS)] = 20,
    ) -> Quotes:
        """List prices of instances by place and market, cheapest first, each with its source and age."""
        patterns = {"gpu": gpu, "cloud": cloud, "region": region, "instance_type": instance_type, "market": market}
        return _plainly(lambda: quotes(listed(offers_now("any")), patterns, limit))

    return server


def explained(request: Workload, **market: Any) -> Explanation:
    """The derivation of the best plan; NoFeasiblePlan names what stands in the way where there is none.

    `market`: what `plan` takes beside the request.
    """
    options = request.options.model_copy(update={"top": 1, "explain": True})
    document = plan(request.model_copy(update={"options": options}), **market)
    if not document.plans:
        words = "; ".join(document.hints) or "no plan satisfies the request"
        raise NoFeasiblePlan(words, field=document.binding)
    best = document.plans[0]
    return Explanation(
        gpu=best.gpu,
        gpus=best.gpus,
        instance_type=best.instance_type,
        hours=best.hours,
        cost_usd=best.cost_usd,
        price=best.price,
        hours_parts=best.hours_parts,
        cost_parts=best.cost_parts,
        breakdown_ms=best.breakdown_ms,
        memory_parts=best.memory_gib.parts,
        evidence=best.evidence.summary,
        derivation=best.explanation,
        warnings=best.warnings,
    )


def quotes(offers: list[Offer], patterns: dict[str, str | None], limit: int) -> Quotes:
    """The offers that match every given pattern, in any case, cheapest first; `gpu` may be a name too, `H100:8`."""
    given = {name: pattern.casefold() for name, pattern in patterns.items() if pattern is not None and name != "gpu"}
    card = card_test(patterns.get("gpu") or "*")
    left = [
        offer
        for offer in offers
        if card(offer.gpu, offer.gpus_per_node)
        and all(fnmatchcase(str(getattr(offer, name) or "").casefold(), pattern) for name, pattern in given.items())
    ]
    left.sort(key=lambda offer: (offer.price_usd_per_hour is None, offer.price_usd_per_hour or 0.0))
    return Quotes(total=len(left), offers=[Quote.model_validate(offer.document()) for offer in left[:limit]])


def _own_words(request: Workload) -> Workload:
    """An assistant may have been talked into naming a file: none is opened here."""
    if isinstance(request.hf_config, str):
        raise WorkloadError("send the content of config.json, not its path", field="hf_config")
    if request.measured:
        raise WorkloadError("files are read on the command line only", field="measured")
    return request


def _plainly(answer: Callable[[], Result]) -> Result:
    """The answer; a failure of the domain in its own words, which an assistant can act on."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        return answer()
    except EstimatorError as error:
        raise ToolError(str(error)) from None
