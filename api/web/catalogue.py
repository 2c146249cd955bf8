"""What is known? GPUs, prices, measurements, models and machine shapes as filtered tables of HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from api.market import Prices
from api.pages import PageQuery, cards, cut, matching
from api.records import Measured, measured_rows, offer_key
from benchmarks_db.errors import EstimatorError, WorkloadError
from benchmarks_db.gpus import gpus
from benchmarks_db.models import models
from estimator.cli.numbers import figure, usd
from estimator.request.fields import Accelerators
from pricing.instances import instance_types

ROWS = 50
FILTERS = {
    "gpus": ("name", "vendor", "kind"),
    "prices": ("cloud", "region", "instance_type", "gpu", "market"),
    "measurements": ("model", "gpu", "precision", "task", "source"),
    "models": ("name", "kind"),
    "machines": ("cloud", "instance_type", "gpu"),
}
TITLES = {
    "gpus": "GPUs", "prices": "Prices", "measurements": "Measurements", "models": "Models", "machines": "Machines",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its heading, the text of a row, whether figures stand in it, whether it names a source."""

    name: str
    text: Callable[[Any], str]
    number: bool = False
    source: bool = False


@dataclass(frozen=True)
class Listing:
    """One page of one table."""

    table: str
    filters: dict[str, str]
    columns: Sequence[Column]
    rows: list[list[str]]
    total: int
    following: str | None  # the query of the next page
    first: bool
    wrong: str | None = None


HEADINGS = {
    "gpu": "GPU", "arch": "Architecture", "instance_type": "Machine type", "rdma": "RDMA",
    "gpu_interconnect": "Between GPUs",
}  # fmt: skip


def heading(name: str) -> str:
    """A column or filter as people read it.

    >>> heading("gpu"), heading("region")
    ('GPU', 'Region')
    """
    return HEADINGS.get(name) or name.replace("_", " ").capitalize()


def _text(name: str) -> Column:
    return Column(heading(name), lambda row: str(getattr(row, name) or ""))


def _number(name: str, heading: str) -> Column:
    def text(row: Any) -> str:
        value = getattr(row, name)
        return "" if value is None else figure(float(value), 4)

    return Column(heading, text, number=True)


def _day(row: Any) -> str:
    return "" if row.observed_at is None else f"{row.observed_at:%Y-%m-%d}"


SOURCE = Column("Source", lambda row: str(row.source or ""), source=True)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "gpus": (
        _text("name"), _text("vendor"), _text("arch"), _number("usable_gib", "Usable GiB"),
        _number("memory_bandwidth_gbps", "GB/s"), _number("fp32_tflops", "fp32 TFLOP/s"),
        _number("fp16_tflops", "fp16"), _number("bf16_tflops", "bf16"), _number("fp8_tflops", "fp8"),
        _number("nvlink_gbps", "NVLink GB/s"), _number("tdp_w", "W"),
        Column("Year", lambda row: str(row.launch_year or ""), number=True), SOURCE,
    ),
    "prices": (
        _text("cloud"), _text("region"), Column("Zone", lambda row: row.zone or row.zone_id or ""),
        _text("instance_type"), _text("market"), _text("gpu"),
        _number("gpus_per_node", "GPUs"),
        Column("$/h", lambda row: "" if row.price_usd_per_hour is None else usd(row.price_usd_per_hour), number=True),
        Column("Observed", _day), Column("State", lambda row: row.state.value), SOURCE,
    ),
    "measurements": (
        _text("model"), _text("task"), _text("gpu"), _number("gpus", "GPUs"), _text("precision"),
        _number("micro_batch", "Micro-batch"), _number("seq_len", "Sequence"), _number("image_size", "px"),
        _number("throughput", "Throughput"), _text("unit"), _text("scope"), _text("date"), SOURCE,
    ),
    "models": (
        _text("name"), _text("kind"), _number("params_m", "Parameters, M"), _number("active_params_m", "Active M"),
        _number("layers", "Layers"), _number("hidden", "Hidden"), _number("heads", "Heads"),
        _number("vocab", "Vocabulary"), _number("forward_gmacs", "GMACs"), SOURCE,
    ),
    "machines": (
        _text("cloud"), _text("instance_type"), _text("gpu"), _number("gpus", "GPUs"), _number("vcpus", "vCPUs"),
        _number("mem_gib", "GiB"), _number("network_gbps", "Gbit/s"), _text("rdma"), _text("gpu_interconnect"), SOURCE,
    ),
}  # fmt: skip


def listing(pairs: Iterable[tuple[str, str]], prices: Prices, now: datetime) -> Listing:
    """The table, filters and page that a query names; the GPUs unless it names another table."""
    given = {name: value.strip()[:200] for name, value in pairs if value.strip()}
    table = given.get("table", "gpus")
    if table not in FILTERS:
        table = "gpus"
    filters = {name: given[name] for name in FILTERS[table] if name in given}
    wrong = None
    query = PageQuery.model_construct(limit=ROWS, cursor=given.get("after"))
    rows, key = _rows(table, prices, now)
    try:
        kept = _kept(table, rows, filters)
    except EstimatorError as error:
        kept, wrong = [], f"{error.message}{_did_you_mean(error)}"
    try:
        page, total, following = cut(kept, key, query)
    except WorkloadError as error:
        wrong = error.message
        page, total, following = cut(kept, key, PageQuery.model_construct(limit=ROWS, cursor=None))
    columns = COLUMNS[table]
    return Listing(
        table=table,
        filters=filters,
        columns=columns,
        rows=[[column.text(row) for column in columns] for row in page],
        total=total,
        following=None if following is None else "?" + urlencode({"table": table, **filters, "after": following}),
        first="after" not in given,
        wrong=wrong,
    )


def _kept(table: str, rows: list[Any], filters: Mapping[str, str]) -> list[Any]:
    """The rows that the filters leave: a GPU by its name as everywhere, any other by what its cell holds.

    EstimatorError for a GPU that nobody knows.
    """
    held = {name: text if name == "gpu" else _pattern(text) for name, text in filters.items()}
    if table != "gpus" or "name" not in filters:
        return matching(rows, held)
    rest = {name: text for name, text in held.items() if name != "name"}
    try:
        return matching(cards(rows, filters["name"]), rest)
    except EstimatorError:  # part of a name, as somebody types it
        if found := matching(rows, held):
            return found
        raise


def _did_you_mean(error: EstimatorError) -> str:
    return f": did you mean {' or '.join(error.nearest)}?" if error.nearest else ""


def _pattern(text: str) -> str:
    """What a person types finds everything that holds it; with a `*` it is a pattern as it stands."""
    return text if "*" in text else f"*{text}*"


def _rows(table: str, prices: Prices, now: datetime) -> tuple[list[Any], Callable[[Any], tuple[str, ...]]]:
    if table == "prices":
        return prices.listed(now, Accelerators.ANY, every=True), offer_key
    if table == "measurements":
        return list(measured_rows()), _measurement_key
    if table == "models":
        return list(models().values()), lambda row: (row.name,)
    if table == "machines":
        return list(instance_types().values()), lambda row: (row.cloud, row.instance_type)
    return list(gpus().values()), lambda row: (row.name,)


def _measurement_key(row: Measured) -> tuple[str, ...]:
    return (row.id,)
