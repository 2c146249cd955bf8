"""How do figures and vocabularies read on the page?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from api.web.state import State
from estimator.cli.numbers import UNKNOWN, age, count, figure, hours, usd
from estimator.documents import Interval, LayoutDocument, PlanEntry

__all__ = ["age", "compared", "count", "date", "figure", "gib", "hours", "layout", "ms", "sentence", "span", "usd"]

CLOUDS = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure", "own": "your own"}
VERDICTS = {"yes": "fits", "tight": "tight", "no": "does not fit", "unknown": "not known"}
METHODS = {"lora": "LoRA", "qlora": "QLoRA", "full": "full fine-tuning", "pretrain": "pretraining"}
KINDS = {
    "own": "your own measurement",
    "group": "the same lab, model and GPU",
    "lab": "other models of the same lab",
    "unseen-model": "other models",
    "unseen-gpu": "other GPUs",
    "unseen-lab": "other labs",
}
TERMS = {"memory": "memory traffic", "input": "input pipeline", "launch": "launch and host"}
RUN_PARTS = {"lost": "interruptions and failures"}
REASONS = {
    "memory": "does not fit in memory",
    "deadline": "takes longer than the deadline",
    "budget": "costs more than the budget",
    "max-usd-per-hour": "costs more an hour than allowed",
    "unpriced": "has no price",
    "old-price": "price too old to rank",
    "unknown-gpu": "GPU not known",
    "gpu": "another GPU than asked for",
    "gpu-count": "another number of GPUs than asked for",
    "cloud": "another cloud",
    "region": "another region",
    "zone": "another zone",
    "market": "another market",
    "instance-type": "another machine type",
    "batch": "global batch cannot be divided so",
    "degrees": "parallel degrees do not fit the machine",
    "precision": "GPU cannot compute in this format",
}
LABELS = {
    "amount": "Data", "gpu": "GPUs", "region": "Regions", "cloud": "Clouds", "market": "Markets", "config": "Pasted",
    "seq_len": "Sequence length", "image_size": "Image size", "max_nodes": "Most machines", "own_gpu": "Your GPU",
    "own_count": "How many of your GPUs", "own_usd": "Price of your machine", "global_batch": "Global batch",
    "micro_batch": "Micro-batch", "activation_checkpointing": "Recomputation", "confidence": "Sure to",
    "model": "Model", "deadline": "Deadline", "budget": "Budget", "epochs": "Epochs", "method": "Method",
    "measured": "Your measurement",
}  # fmt: skip


def date(moment: datetime | None) -> str:
    """The day of an observation."""
    return UNKNOWN if moment is None else moment.strftime("%Y-%m-%d")


def ms(value: float) -> str:
    """Milliseconds, three figures."""
    return f"{figure(value)} ms"


def gib(value: float) -> str:
    """GiB, one decimal.

    >>> gib(15.113), gib(0.02)
    ('15.1 GiB', '0.02 GiB')
    """
    return f"{value:.1f} GiB" if value >= 0.05 else f"{figure(value, 1)} GiB"


def span(interval: Interval) -> str:
    """The ends of an interval in hours; the unit once where both have the same.

    >>> span(Interval(p10=1.2, p50=2, p90=5.3)), span(Interval(p10=0.5, p50=1, p90=2))
    ('1.2 – 5.3 h', '30 min – 2 h')
    """
    low, high = hours(interval.p10), hours(interval.p90)
    if low.split()[-1] == high.split()[-1]:
        low = low.rsplit(" ", 1)[0]
    return f"{low} – {high}"


def layout(of: LayoutDocument) -> list[tuple[str, str]]:
    """How the job is divided, what is 1 left out."""
    degrees = (
        ("data parallel", of.data),
        ("tensor parallel", of.tensor),
        ("pipeline stages", of.pipeline),
        ("context parallel", of.context),
        ("expert parallel", of.expert),
    )
    return [
        ("micro-batch", f"{of.micro_batch:g}"),
        ("accumulation", f"{of.grad_accum}"),
        *((name, f"{degree}") for name, degree in degrees if degree > 1),
        ("sharding", of.sharding),
        ("recomputation", of.activation_checkpointing),
    ]


def title(entry: dict[str, object], method: str) -> str:
    """What is trained on what, from the request as it was understood."""
    tokens, samples = entry.get("tokens_total"), entry.get("samples_total")
    amount = ""
    if isinstance(tokens, float | int) and tokens:
        amount = f" on {count(float(tokens))} tokens"
    elif isinstance(samples, float | int) and samples:
        amount = f" on {count(float(samples))} samples"
    return f"{entry.get('model')}, {METHODS.get(method, method)}{amount}"


def sentence(entry: PlanEntry, what: str) -> str:
    """The plan in one sentence with its intervals, for those who listen."""
    time = f"{hours(entry.hours.p50)} ({span(entry.hours)})"
    cost = entry.cost_usd
    money = "" if cost is None else f", ${usd(cost.p50)} ({usd(cost.p10)} to {usd(cost.p90)})"
    where = " ".join(part for part in (CLOUDS.get(entry.cloud, entry.cloud), entry.region) if part)
    return f"{what}: {time}{money} on {entry.gpus:g} x {entry.gpu}, {where}, {entry.market}"


Cell = tuple[str, bool]


def compared(entries: Sequence[PlanEntry]) -> list[tuple[str, list[Cell]]]:
    """Rows of the comparison: a name, each plan's text, and which is best where one can be."""

    def row(
        name: str, text: Callable[[PlanEntry], str], rank: Callable[[PlanEntry], float | None] | None = None
    ) -> tuple[str, list[Cell]]:
        values = [rank(entry) if rank else None for entry in entries]
        known = [value for value in values if value is not None]
        best = min(known) if len(known) == len(entries) > 1 and min(known) < max(known) else None
        texts = [text(entry) for entry in entries]
        winners = {t for t, value in zip(texts, values, strict=True) if best is not None and value == best}
        if len(winners) and all(t in winners for t in texts):  # the difference does not show
            winners = set()
        return name, [(t, t in winners) for t in texts]

    def chance(entry: PlanEntry) -> str:
        value = entry.risk.probability_deadline
        return UNKNOWN if value is None else f"{value:.0%}"

    def cost(entry: PlanEntry, q: str) -> float | None:
        return None if entry.cost_usd is None else float(getattr(entry.cost_usd, q))

    def dollars(value: float | None) -> str:
        return UNKNOWN if value is None else f"${usd(value)}"

    def memory(entry: PlanEntry) -> str:
        held = entry.memory_gib
        used = "" if held.used is None or held.capacity is None else f", {held.used:.1f} of {held.capacity:.0f} GiB"
        return VERDICTS[held.verdict.value] + used

    rows = [
        row("Time, typical", lambda e: hours(e.hours.p50), lambda e: e.hours.p50),
        row("Time, 9 in 10 below", lambda e: hours(e.hours.p90), lambda e: e.hours.p90),
        row("Cost, typical", lambda e: dollars(cost(e, "p50")), lambda e: cost(e, "p50")),
        row("Cost, 9 in 10 below", lambda e: dollars(cost(e, "p90")), lambda e: cost(e, "p90")),
        row(
            "Cost expected, interruptions in",
            lambda e: dollars(e.risk.expected_cost_usd),
            lambda e: e.risk.expected_cost_usd,
        ),
        row("Price an hour", lambda e: dollars(e.price.usd_per_hour), lambda e: e.price.usd_per_hour),
        row("Price age", lambda e: f"{age(e.price.age_hours)}, {e.price.state}", lambda e: e.price.age_hours),
        row("Machines", lambda e: f"{e.nodes} x {e.instance_type}"),
        row("Memory", memory),
        row("Throughput", lambda e: f"{figure(e.throughput.value)} {e.throughput.unit}", lambda e: -e.throughput.value),
        row("MFU", lambda e: UNKNOWN if e.mfu is None else f"{e.mfu:.0%}"),
        row("Bound by", lambda e: e.bound_by.value.replace("-", " ")),
        row("Interruptions expected", lambda e: figure(e.risk.expected_interruptions, 2)),
        row("Checkpoint every", lambda e: _or_end(e.risk.checkpoint_interval_hours)),
        row("Rests on", lambda e: KINDS.get(e.evidence.kind.value, e.evidence.kind.value)),
    ]
    if any(entry.risk.probability_deadline is not None for entry in entries):
        rows.insert(4, row("Meets the deadline", chance, lambda e: -(e.risk.probability_deadline or 0.0)))
    return rows


def _or_end(value: float | None) -> str:
    return "at the end" if value is None else hours(value)


def without_compare(state: State) -> str:
    """The query of the page with nothing compared."""
    return replace(state, lists={name: v for name, v in state.lists.items() if name != "compare"}).query
