"""What does the page answer to its state? The plan, the chosen one, those compared, or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from api.web.drawings import Bar, Point, Scatter, bar, scatter
from api.web.state import State, body_of, workload_of
from api.web.words import LABELS, REPAIRS
from api.web.words import METHODS as METHOD_NAMES
from benchmarks_db.errors import EstimatorError
from estimator.documents import FrontierPoint, PlanDocument, PlanEntry
from estimator.request.fields import Accelerators
from estimator.request.workload import Workload
from pricing.offers import Market, Offer, OfferTable

SHOWN = 12
ELSEWHERE = 8
RUN_ORDER = (
    "provisioning", "image_pull", "warm_up", "staging", "training", "evaluation", "checkpoints", "failures",
    "interruptions", "spread",
)  # fmt: skip
ORDERS: dict[str, Callable[[PlanEntry], tuple[float, ...]]] = {
    "cost": lambda e: (e.cost_usd.p50 if e.cost_usd else float("inf"),),
    "hours": lambda e: (e.hours.p50,),
    "gpus": lambda e: (e.gpus,),
    "price": lambda e: (e.price.usd_per_hour or float("inf"),),
    "age": lambda e: (e.price.age_hours or 0.0,),
    "memory": lambda e: ((e.memory_gib.used or 0.0) / (e.memory_gib.capacity or 1.0),),
}
FIELDS = {  # of a request, by the field of the form that holds it
    "tokens": "amount", "samples": "amount", "images": "amount", "hf_config": "config", "request": "config",
    "architecture": "config", "custom": "config", "gpus": "gpu", "regions": "region", "clouds": "cloud",
    "markets": "market", "own": "own_gpu", "gpus_per_node": "own_count", "usd_per_hour": "own_usd",
}  # fmt: skip
_REPAIR = re.compile(r"^(?P<field>\w+): (?P<value>.+?) (?P<effect>(?:would|might just) fit \(.*\))$")
_APPLICABLE = ("micro_batch", "activation_checkpointing", "sharding", "optimizer", "precision", "seq_len", "method")


@dataclass(frozen=True)
class Wrong:
    """A field that cannot be used, and what would do."""

    field: str  # of the form; empty where it is none of them
    message: str
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hint:
    """What would make the request possible; `changes` are the fields of the form that do it."""

    text: str
    change: str = ""  # what is changed, in the words of the form, and
    effect: str = ""  # what comes of it
    changes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """Everything that the page shows below the form."""

    state: State
    workload: Workload | None = None
    document: PlanDocument | None = None
    entry: PlanEntry | None = None  # the one looked at
    compared: tuple[PlanEntry, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    elsewhere: tuple[Offer, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def entries(self) -> list[PlanEntry]:
        """The plans in the order asked for; by rank unless asked otherwise."""
        plans = list(self.document.plans) if self.document else []
        name = self.state["order"]
        key = ORDERS.get(name.removeprefix("-"))
        if key is None:
            return plans
        return sorted(plans, key=key, reverse=name.startswith("-"))

    @property
    def shown(self) -> list[PlanEntry]:
        """The rows of the table."""
        return self.entries if self.state["show"] == "all" else self.entries[:SHOWN]

    def wrong_at(self, name: str) -> Wrong | None:
        """What is wrong with a field of the form."""
        return next((one for one in self.wrong if one.field == name), None)

    @property
    def hints(self) -> list[Hint]:
        """The repairs, with the change of the form where it is one."""
        return [_hint(text) for text in (self.document.hints if self.document else [])]

    def chart(self, width: int, height: int) -> Scatter | None:
        """Time against cost of every plan shown and of the whole front."""
        if self.document is None or self.entry is None:
            return None
        limits = self.workload.constraints if self.workload else None
        cost = self.entry.cost_usd
        hours = self.entry.hours
        return scatter(
            points(self.document, self.entry),
            width=width,
            height=height,
            picked=key_of(self.entry),
            deadline=limits.deadline if limits else None,
            budget=limits.budget if limits else None,
            whiskers=(hours.p10, hours.p90, cost.p10, cost.p90) if cost else None,
        )

    @property
    def step_bar(self) -> Bar:
        """One optimizer step by what it waits for."""
        return bar(self.entry.breakdown_ms if self.entry else {})

    @property
    def run_bar(self) -> Bar:
        """The hours of the run by part."""
        return bar(self.entry.hours_parts if self.entry else {}, order=RUN_ORDER)

    @property
    def memory_bar(self) -> Bar:
        """The memory of one GPU by component, against what software can allocate; of what came nearest if none fits."""
        closest = self.document.closest if self.document else None
        memory = self.entry.memory_gib if self.entry else closest.memory_gib if closest else None
        return bar(memory.parts, limit=memory.capacity) if memory else Bar([])

    @property
    def cost_bar(self) -> Bar:
        """The bill by part."""
        return bar(self.entry.cost_parts if self.entry else {})

    @property
    def cautions(self) -> list[str]:
        """What a careful colleague would add, without what the sentence says already."""
        if self.entry is None or self.document is None:
            return []
        found = [*self.entry.warnings, *self.document.warnings, *self.notes]
        return [note for note in found if not note.startswith("meets the deadline with")]

    @property
    def policy_plan(self) -> PlanEntry | None:
        """The plan that the policies are about: the best one on spot."""
        plans = self.document.plans if self.document else []
        return next((entry for entry in plans if entry.market is Market.SPOT), None)

    @property
    def derivation(self) -> list[tuple[str, list[str]]]:
        """The lines of the explanation, each with those under it; the measurements are shown as a table instead."""
        found: list[tuple[str, list[str]]] = []
        for line in self.entry.explanation if self.entry else []:
            if line.startswith("  ") and found:
                found[-1][1].append(line.strip())
            else:
                found.append((line.strip(), []))
        return [(head, [] if head.startswith("evidence") else rest) for head, rest in found]


Planned = Callable[[Workload], PlanDocument]
"""The plan of a request as this server makes it: at its prices, with the measurements it knows."""


def answer(state: State, planned: Planned, prices: Callable[[Accelerators], OfferTable]) -> Answer:
    """The answer to the state; what is wrong with it is part of the answer."""
    try:
        workload = workload_of(state)
        table = prices(workload.constraints.accelerators)
        document = planned(workload)
    except EstimatorError as error:
        return Answer(state, wrong=tuple(_wrong(error)))
    notes = []
    if state["own_gpu"] and not state["own_usd"]:
        notes.append("Your own GPU has no price an hour, so it is not ranked: give one, or 0 if it costs nothing.")
    if not document.plans:
        return Answer(state, workload, document, notes=tuple(notes))
    asked = (state["pick"], *state.lists.get("compare", ()))
    known = {key_of(entry): entry for entry in document.plans}
    for key in asked:
        if key and key not in known and (found := _narrowed(workload, planned, key)) is not None:
            known[key] = found
    entry = known.get(state["pick"]) or document.plans[0]
    compared = tuple(known[key] for key in state.lists.get("compare", ()) if key in known)
    return Answer(
        state, workload, document, entry, compared, elsewhere=elsewhere(table, entry, ELSEWHERE), notes=tuple(notes)
    )


def key_of(entry: PlanEntry | FrontierPoint) -> str:
    """The name of a plan in the URL."""
    return "~".join((entry.cloud, entry.region or "", entry.instance_type, entry.market.value, str(entry.nodes)))


def points(document: PlanDocument, picked: PlanEntry) -> list[Point]:
    """The plans and the front as points, each once."""
    front = {key_of(point) for point in document.frontier}
    found: dict[str, Point] = {}
    for entry in [*document.plans, picked]:
        if entry.cost_usd is None:
            continue
        key = key_of(entry)
        rank = entry.rank if entry in document.plans else None
        found.setdefault(
            key,
            Point(
                key, entry.cloud, entry.market, name_of(entry), entry.hours.p50, entry.cost_usd.p50, rank, key in front
            ),
        )
    for point in document.frontier:
        key = key_of(point)
        found.setdefault(
            key,
            Point(key, point.cloud, point.market, name_of(point), point.hours, point.cost_usd, None, front=True),
        )
    return list(found.values())


def name_of(entry: PlanEntry | FrontierPoint) -> str:
    """A plan in a few words."""
    where = " ".join(part for part in (entry.cloud, entry.region) if part)
    return f"{entry.gpus:g} x {entry.gpu}, {where}, {entry.market}"


def _narrowed(workload: Workload, planned: Planned, key: str) -> PlanEntry | None:
    """The plan of a name that is beyond the list: a point of the front, or one of another list."""
    parts = key.split("~")
    if len(parts) != 5 or not parts[4].isdecimal():
        return None
    cloud, region, instance_type, market, nodes = parts
    only = {
        "clouds": [cloud],
        "instance_types": [instance_type],
        "markets": [market],
        "min_nodes": nodes,
        "max_nodes": nodes,
    } | ({"regions": [region]} if region else {})
    body = workload.model_dump(mode="json", exclude_unset=True)
    body["constraints"] = body.get("constraints", {}) | only
    try:
        found = planned(Workload.model_validate(body))
    except EstimatorError:
        return None
    return next((entry for entry in found.plans if key_of(entry) == key), None)


def elsewhere(table: OfferTable, entry: PlanEntry, most: int) -> tuple[Offer, ...]:
    """Where else the same machine is rented, cheapest first: places of the same market, and the best of each other."""
    same = table.where("cloud", lambda cloud: cloud == entry.cloud)
    same &= table.where("instance_type", lambda name: name == entry.instance_type)
    best: dict[tuple[str | None, str], Offer] = {}
    for offer in table.select(same & table.ranked).offers():
        before = best.get((offer.region, offer.market))
        price = offer.price_usd_per_hour
        if price is not None and (before is None or price < (before.price_usd_per_hour or 0.0)):
            best[offer.region, offer.market] = offer
    cheapest = sorted(best.values(), key=lambda offer: offer.price_usd_per_hour or 0.0)
    others = {offer.market: offer for offer in reversed(cheapest) if offer.market != entry.market}
    chosen = [offer for offer in cheapest if offer.market == entry.market][: most - len(others)]
    return tuple(offer for offer in cheapest if offer in chosen or offer in others.values())


def _wrong(error: EstimatorError) -> Iterable[Wrong]:
    for one in getattr(error, "errors", (error,)):
        parts = [part for part in str(one.field or "").split(".") if not part.isdecimal()]
        own = {"gpu": "own_gpu"} if parts[:1] == ["own"] else {}
        names = [own.get(part) or FIELDS.get(part, part) for part in reversed(parts)]
        held = next((name for name in names if name in _HELD), "")
        nearest = tuple(map(str, one.nearest))
        hint = f" Did you mean {' or '.join(nearest[:3])}?" if nearest and held not in OFFERED else ""
        yield Wrong(held, f"{one.message[:1].upper()}{one.message[1:]}.{hint}", nearest)


OFFERED = ("model", "gpu", "region")  # the page offers the nearest names of these as links
_HELD = frozenset(
    ("model", "config", "method", "amount", "epochs", "seq_len", "image_size", "deadline", "budget", "confidence",
     "gpu", "region", "cloud", "market", "max_nodes", "precision", "global_batch", "micro_batch", "optimizer",
     "activation_checkpointing", "sharding", "software", "sort", "own_gpu", "own_count", "own_usd",
     "measured")
)  # fmt: skip


def _hint(text: str) -> Hint:
    found = _REPAIR.match(text)
    if found is None:
        return Hint(text)
    name, value = found["field"], found["value"]
    label = REPAIRS.get(name) or LABELS.get(name) or name.replace("_", " ").capitalize()
    changes = {name: value} if name in _APPLICABLE and re.fullmatch(r"[\w.-]+", value) else {}
    return Hint(text, f"{label}: {METHOD_NAMES.get(value, value)}", found["effect"], changes)


METHODS = ("full", "lora", "qlora")


@dataclass(frozen=True)
class ByMethod:
    """The best plan of the same request under a method, or what stands in the way."""

    method: str
    entry: PlanEntry | None
    reason: str
    state: State


def methods(state: State, planned: Planned) -> list[ByMethod]:
    """The request under each way of fine-tuning: whether it fits, how long, how much."""
    found = []
    for method in METHODS:
        there = state.with_(method=method)
        try:
            body = body_of(there)
            if method == "full":
                body.pop("lora", None)
            body["options"] = {"top": 1, "sort": state["sort"] or "cost"}
            document = planned(Workload.model_validate(body))
        except EstimatorError as error:
            found.append(ByMethod(method, None, str(error), there))
            continue
        best = document.plans[0] if document.plans else None
        found.append(ByMethod(method, best, document.binding or "", there))
    return found
