"""What else decides time and cost: failures, spot, start-up, billing, storage, evaluation, power, networks?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks_db.schema import number_of
from benchmarks_db.tables import DATA, read

TOPICS = (
    "failures", "spot", "startup", "billing", "storage_network_price", "commitment", "eval_data", "power_carbon",
    "network",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFact:
    """One sourced fact; `low` and `high` where the sources give a range."""

    topic: str
    item: str
    cloud: str
    region: str
    value: float | None  # None where it is words
    stated: str  # the value as its source states it
    low: float | None
    high: float | None
    unit: str
    date: str
    source: str
    notes: str


@cache
def load() -> tuple[RunFact, ...]:
    """All facts that have a source, in the order of the file."""
    return tuple(
        RunFact(
            row["topic"], row["item"], row["cloud"], row["region"], number_of(row["value"]), row["value"],
            number_of(row["low"]), number_of(row["high"]), row["unit"], row["date"], row["source"], row["notes"],
        )
        for row in read(DATA / "run_facts.csv")
    )  # fmt: skip


def find(topic: str, item: str = "", *, cloud: str | None = None, region: str | None = None) -> tuple[RunFact, ...]:
    """The facts of a topic whose item contains `item`, for a cloud and region where those are given."""
    return tuple(
        fact
        for fact in load()
        if fact.topic == topic
        and item.casefold() in fact.item.casefold()
        and (cloud is None or fact.cloud.casefold() == cloud.casefold())
        and (region is None or fact.region == region)
    )
