"""How do figures and vocabularies read on the page?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from api.web.state import State
from estimator.cli.numbers import UNKNOWN, age, count, figure, usd
from estimator.documents import Interval, LayoutDocument, PlanEntry
from estimator.request.sections import Constraints

__all__ = ["age", "count", "figure", "usd"]

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
RUN_PARTS = {
    "provisioning": "waiting for machines",
    "image_pull": "loading the image",
    "warm_up": "warming up",
    "staging": "fetching the data",
    "spread": "spread of the chances",
}
BILL_PARTS = {
    "data_storage": "data stored",
    "checkpoint_storage": "checkpoints stored",
    "egress": "data moved",
    "other_attempts": "failed and repeated attempts",
    "fees": "fixed costs",
}
POLICIES = {"wait": "wait for spot", "on-demand": "never use spot"}
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
    "quota": "more GPUs than the quotas allow",
    "max-gpus": "more GPUs than allowed",
    "interruptions": "interruptions hardly let it end",
    "accelerators": "neither NVIDIA nor AMD",
}
LABELS = {
    "amount": "Data", "gpu": "GPUs", "region": "Regions", "cloud": "Clouds", "market": "Markets", "config": "Pasted",
    "seq_len": "Sequence length", "image_size": "Image size", "max_nodes": "Most machines", "own_gpu": "Your GPU",
    "own_count": "How many of your GPUs", "own_usd": "Price of your machine", "global_batch": "Global batch",
    "micro_batch": "Micro-batch", "activation_checkpointing": "Recomputation", "confidence": "Sure to",
    "model": "Model", "deadline": "Deadline", "budget": "Budget", "epochs": "Epochs", "method": "Method",
    "measured": "Your measurement",
}  # fmt: skip


REPAIRS = {"offload": "Offload", "max_nodes": "Machines", "tensor_parallel": "Parallel degrees"}
BINDINGS = {
    "memory": "it does not fit in memory",
    "deadline": "nothing is done by the deadline",
    "budget": "nothing costs so little",
    "max-usd-per-hour": "nothing costs so little an hour",
    "batch": "the global batch cannot be divided so",
    "degrees": "the parallel degrees do not fit the machines",
    "precision": "no GPU here computes in this format",
    "gpu-count": "no machine has this number of GPUs",
    "unpriced": "what is left has no price",
    "old-price": "the prices that are left are too old",
    "quota": "the quotas allow too few GPUs",
    "max-gpus": "every machine has more GPUs than allowed",
    "accelerators": "Trainium and TPUs are planned only where all accelerators are allowed",
}


def binding(reason: str | None) -> str:
    """What stands in the way, as the end of a sentence."""
    if reason in BINDINGS:
        return BINDINGS[reason]
    return f"nobody offers what is left ({REASONS.get(reason or '', reason or 'the reason is not known')})"


def date(moment: datetime | None) -> str:
    """The day of an observation."""
    return UNKNOWN if moment is None else moment.strftime("%Y-%m-%d")


def ms(value: float) -> str:
    """Milliseconds, three figures; seconds from one on.

    >>> ms(43.21), ms(9703.4)
    ('43.2 ms', '9.7 s')
    """
    return f"{figure(value)} ms" if value < 1000 else f"{figure(value / 1000)} s"


def gib(value: float) -> str:
    """GiB, one decimal.

    >>> gib(15.113), gib(0.02)
    ('15.1 GiB', '0.02 GiB')
    """
    return f"{value:.1f} GiB" if value >= 0.05 else f"{figure(value, 1)} GiB"


UNITS = ((1 / 60, "s", 3600.0), (1.0, "min", 60.0), (72.0, "h", 1.0), (float("inf"), "d", 1 / 24))
"""Below how many hours a duration is said in which unit, and how many of it are an hour."""


def _in(value: float) -> tuple[str, float]:
    """The unit of a duration in hours, and the factor to it."""
    return next((name, factor) for below, name, factor in UNITS if value < below)


def _size(value: float, unit: str) -> str:
    """A figure of a duration: one decimal below 100 hours or days, none for ten minutes and more."""
    if 0 < value < 0.05:
        return figure(value, 1)
    return f"{value:,.0f}" if value >= (10 if unit in ("s", "min") else 100) else f"{value:.1f}"


def limit(value: float | None) -> str:
    """A duration that somebody set: as it was said.

    >>> limit(48.0), limit(2160.0), limit(1.5)
    ('48 h', '90 d', '1.5 h')
    """
    size, _, unit = hours(value).rpartition(" ")
    return f"{size.removesuffix('.0')} {unit}".strip()


def hours(value: float | None) -> str:
    """A duration in the unit that people use.

    >>> hours(1.94), hours(0.25), hours(400.0), hours(36.25), hours(0.01), hours(None)
    ('1.9 h', '15 min', '16.7 d', '36.2 h', '36 s', '-')
    """
    if value is None or value != value:
        return UNKNOWN
    unit, factor = _in(value)
    return f"{_size(value * factor, unit)} {unit}"


def between(interval: Interval, joined: str = " to ") -> str:
    """The ends of an interval in hours, in the unit of its middle.

    >>> between(Interval(p10=1.13, p50=1.94, p90=4.04)), between(Interval(p10=0.2, p50=0.5, p90=2.2))
    ('1.1 to 4.0', '12 to 132')
    """
    unit, factor = _in(interval.p50)
    return joined.join(_size(end * factor, unit) for end in (interval.p10, interval.p90))


def money(value: float | None) -> str:
    """Dollars with their sign; millions as such, since no estimate is good to seven figures.

    >>> money(6.4), money(12345.6), money(1243567.0), money(0.0), money(None)
    ('$6.40', '$12,346', '$1.24M', '$0', '-')
    """
    return UNKNOWN if value is None or value != value else f"${_sum(value, _scale(value))}"


def spend(interval: Interval, joined: str = " to ") -> str:
    """The ends of an interval in dollars, in the scale of its middle.

    >>> spend(Interval(p10=5.3, p50=6.4, p90=7.9)), spend(Interval(p10=9e5, p50=1.2e6, p90=1.6e6))
    ('5.30 to 7.90', '0.90M to 1.60M')
    """
    scale = _scale(interval.p50)
    cents = not scale[1] and 0.1 <= interval.p50 < 100
    return joined.join(f"{end:,.2f}" if cents else _sum(end, scale) for end in (interval.p10, interval.p90))


def _scale(value: float) -> tuple[float, str]:
    return next(((size, letter) for size, letter in ((1e9, "B"), (1e6, "M")) if abs(value) >= size), (1.0, ""))


def _sum(value: float, scale: tuple[float, str]) -> str:
    size, letter = scale
    return f"{value / size:.2f}{letter}" if letter else usd(value)


def chance(value: float | None) -> str:
    """A probability, never more certain than it can be known.

    >>> chance(0.972), chance(1.0), chance(0.001), chance(None)
    ('97%', 'over 99%', 'under 1%', '-')
    """
    if value is None:
        return UNKNOWN
    return "over 99%" if value > 0.99 else "under 1%" if value < 0.01 else f"{value:.0%}"


def rate(value: float) -> str:
    """A throughput: three figures, millions as such.

    >>> rate(8644.2), rate(4764499.0), rate(1.97)
    ('8,644', '4.76M', '1.97')
    """
    return figure(value) if value < 1e6 else f"{value / 1e6:.3g}M" if value < 1e9 else count(value)


def _round(value: float | None) -> str:
    """An amount that somebody set: as it was said."""
    text = money(value)
    return text.replace(".00", "") if text.endswith((".00", ".00M", ".00B")) else text


def chances(entry: PlanEntry, limits: Constraints) -> str:
    """How likely a plan keeps the limits, in words that follow it."""
    said = ""
    if entry.risk.probability_deadline is not None:
        said += f", {chance(entry.risk.probability_deadline)} to meet {limit(limits.deadline)}"
    if entry.risk.probability_budget is not None:
        said += f", {chance(entry.risk.probability_budget)} to stay within {_round(limits.budget)}"
    return said


def policy(name: str) -> str:
    """What is done when spot capacity is taken away.

    >>> policy("wait"), policy("fallback-after-3")
    ('wait for spot', 'on demand after 3')
    """
    times = name.removeprefix("fallback-after-")
    if times != name:
        return f"on demand after {times}"
    return POLICIES.get(name, name.replace("-", " "))


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


def sentence(entry: PlanEntry, what: str, limits: Constraints) -> str:
    """The plan in one sentence with its intervals."""
    cost = entry.cost_usd
    paid = "" if cost is None else f", {money(cost.p50)} ({spend(cost)})"
    where = " ".join(part for part in (CLOUDS.get(entry.cloud, entry.cloud), entry.region) if part)
    time = f"{hours(entry.hours.p50)} ({between(entry.hours)})"
    return f"{what}: {time}{paid} on {entry.gpus:g}x {entry.gpu}, {where}, {entry.market}{chances(entry, limits)}"


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

    def cost(entry: PlanEntry, q: str) -> float | None:
        return None if entry.cost_usd is None else float(getattr(entry.cost_usd, q))

    def memory(entry: PlanEntry) -> str:
        held = entry.memory_gib
        used = "" if held.used is None or held.capacity is None else f", {held.used:.1f} of {held.capacity:.0f} GiB"
        return VERDICTS[held.verdict.value] + used

    rows = [
        row("Time, typical", lambda e: hours(e.hours.p50), lambda e: e.hours.p50),
        row("Time, 9 in 10 below", lambda e: hours(e.hours.p90), lambda e: e.hours.p90),
        row("Cost, typical", lambda e: money(cost(e, "p50")), lambda e: cost(e, "p50")),
        row("Cost, 9 in 10 below", lambda e: money(cost(e, "p90")), lambda e: cost(e, "p90")),
        row(
            "Cost expected, interruptions in",
            lambda e: money(e.risk.expected_cost_usd),
            lambda e: e.risk.expected_cost_usd,
        ),
        row("Price an hour", lambda e: money(e.price.usd_per_hour), lambda e: e.price.usd_per_hour),
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
        rows.insert(
            4,
            row(
                "Meets the deadline",
                lambda e: chance(e.risk.probability_deadline),
                lambda e: -(e.risk.probability_deadline or 0.0),
            ),
        )
    return rows


def _or_end(value: float | None) -> str:
    return "at the end" if value is None else hours(value)


def without_compare(state: State) -> str:
    """The query of the page with nothing compared."""
    return replace(state, lists={name: v for name, v in state.lists.items() if name != "compare"}).query
