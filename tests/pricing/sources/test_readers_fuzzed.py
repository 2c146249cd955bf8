"""Whatever stands on the wire, the readers do not crash, do not invent a price, and stay within bounds.

Two kinds of damage: arbitrary JSON where a row should be, and a real row with one place changed. A price that comes
out of a damaged row must be one that stands in it as a price of that machine.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing.offers import Market
from pricing.sources import aws_bulk, aws_price_list, aws_spot, aws_spot_advisor, azure_retail, gcp_machines, gcp_skus
from pricing.sources.aws_machines import GpuCatalogue
from pricing.sources.base import Observation
from pricing.sources.patience import WireFault
from pricing.sources.readings import NotJson, quote, read_json
from tests.pricing.sources.clouds import offer_file
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_aws import ADVISOR, INSTANCE_TYPES, PRODUCTS, SPOT, product, record
from tests.pricing.sources.world_azure import ITEMS, item
from tests.pricing.sources.world_gcp import ACCELERATORS, MACHINES, SKUS_ON_DEMAND, SKUS_SPOT

MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GPUS = GpuCatalogue(INSTANCE_TYPES).gpu_of

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.decimals().filter(lambda number: not number.is_snan()),  # JSON has no signalling ones
    st.text(max_size=30),
    st.sampled_from(
        ["NaN", "Infinity", "-1", "1e999", "0", "USD", "Hrs", "Linux", "OnDemand", "us-east-1", "eastus", "h"]
    ),
    st.sampled_from(["GiBy.h", "9999-12-31T23:59:59Z", "2026-09-01", "0001-01-01T00:00:00+14:00", "x" * 10_000]),
)
anything = st.recursive(
    scalars,
    lambda each: st.one_of(st.lists(each, max_size=4), st.dictionaries(st.text(max_size=12), each, max_size=4)),
    max_leaves=20,
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, as a path."""
    out = [path] if path else []
    if isinstance(value, dict):
        for key, each in value.items():
            out += places(each, (*path, key))
    elif isinstance(value, list):
        for n, each in enumerate(value):
            out += places(each, (*path, n))
    return out


def changed(row: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """The row with one place replaced, removed or wrapped."""
    row = copy.deepcopy(row)
    path = data.draw(st.sampled_from(places(row)))
    target: Any = row
    for key in path[:-1]:
        target = target[key]
    how = data.draw(st.sampled_from(["replace", "replace", "remove", "wrap"]))
    if how == "remove" and isinstance(target, dict):
        del target[path[-1]]
    elif how == "wrap":
        target[path[-1]] = [target[path[-1]]]
    else:
        target[path[-1]] = data.draw(anything)
    return row


def sane(found: list[Observation]) -> None:
    for one in found:
        assert one.price_usd_per_hour.is_finite()
        assert abs(one.price_usd_per_hour) < Decimal(10) ** 12
        assert one.instance_type
        assert one.region
        assert one.gpus_per_node is None or one.gpus_per_node > 0


def numbers_in(value: object) -> set[Decimal]:
    """Every number or number-like text in a JSON value."""
    out: set[Decimal] = set()
    for path in [(), *places(value)]:
        at: Any = value
        for key in path:
            at = at[key]
        if isinstance(at, str | int | Decimal | float) and not isinstance(at, bool) and len(str(at)) < 60:
            try:
                out.add(Decimal(str(at)) + 0)
            except ArithmeticError:
                continue
    return out


@MANY
@given(st.lists(anything, max_size=5))
def test_arbitrary_json_instead_of_rows_gives_no_price(rows: list[Any]) -> None:
    assert aws_price_list.on_demand(rows, "us-east-1", AS_OF, GPUS)[0] == []
    assert aws_spot.latest(rows, "us-east-1", AS_OF, GPUS)[0] == []
    read = [azure_retail.read_row(row, "eastus", AS_OF) for row in rows]
    both = azure_retail.observations([one for one in read if one is not None], "eastus")
    assert all(found == [] for found, _ in both.values())
    for row in rows:
        assert list(gcp_skus.rates(row if isinstance(row, dict) else {}, AS_OF)) == []
        assert list(gcp_machines.machines({"zones/us-central1-a": row})) == []
        assert list(gcp_machines.attachable({"zones/us-central1-a": {"acceleratorTypes": row}})) == []
        GpuCatalogue([row])
        assert len(quote(row)) <= 300


@MANY
@given(st.sampled_from(PRODUCTS), st.data())
def test_a_product_with_one_place_changed_gives_a_stated_price_or_none(
    row: dict[str, Any], data: st.DataObject
) -> None:
    damaged = changed(row, data)
    found, rejected = aws_price_list.on_demand([damaged], "us-east-1", AS_OF, GPUS)
    sane(found)
    assert {one.price_usd_per_hour for one in found} <= numbers_in(damaged)
    twins = {"p4d.24xlarge": "21.957642", "p5.48xlarge": "55.04", "g5.xlarge": "1.006"}
    for one in found:
        right = twins.get(one.instance_type)
        stated = {Decimal(right), *numbers_in(damaged) - numbers_in(row)} if right else {one.price_usd_per_hour}
        plain = row["product"]["attributes"].get("tenancy") == "Shared"
        if plain and row["product"]["attributes"].get("marketoption") == "OnDemand":
            continue  # a twin whose one telling attribute was changed into the plain one cannot be told
        assert one.price_usd_per_hour in stated
    assert len(rejected) <= 1


@MANY
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_a_product_that_is_no_json_is_rejected_once(text: str | bytes) -> None:
    found, rejected = aws_price_list.on_demand([text], "us-east-1", AS_OF, GPUS)
    assert found == []
    assert len(rejected) <= 1


@MANY
@given(st.data())
def test_a_spot_record_changed_never_revives_an_older_price(data: st.DataObject) -> None:
    rows = [row for page in SPOT["us-east-1"] for row in page]
    at = data.draw(st.integers(0, len(rows) - 1))
    damaged = changed(rows[at], data)
    found, _ = aws_spot.latest([*rows[:at], damaged, *rows[at + 1 :]], "us-east-1", AS_OF, GPUS)
    sane(found)
    right = {
        (o.zone, o.instance_type): o.price_usd_per_hour for o in aws_spot.latest(rows, "us-east-1", AS_OF, GPUS)[0]
    }
    own = rows[at]["AvailabilityZone"], rows[at]["InstanceType"]
    for one in found:
        key = one.zone, one.instance_type
        if key != own and one.price_usd_per_hour != right.get(key):
            assert key == (damaged.get("AvailabilityZone"), damaged.get("InstanceType"))
        if key == own and damaged.keys() == rows[at].keys():
            same_record = all(damaged[k] == rows[at][k] for k in ("Timestamp", "ProductDescription", "InstanceType",
                                                                  "AvailabilityZone"))  # fmt: skip
            if same_record:
                assert one.price_usd_per_hour in {right[key], *numbers_in(damaged)}


@MANY
@given(st.sampled_from(ITEMS), st.data())
def test_a_retail_row_with_one_place_changed_gives_a_stated_price_or_none(
    row: dict[str, Any], data: st.DataObject
) -> None:
    damaged = changed(read_json(json.dumps(row)), data)
    read = azure_retail.read_row(damaged, "eastus", AS_OF)
    for found, rejected in azure_retail.observations([read] if read else [], "eastus").values():
        sane(found)
        assert {one.price_usd_per_hour for one in found} <= numbers_in(damaged)
        assert len(rejected) <= 1


@MANY
@given(st.data())
def test_a_retail_row_damaged_never_lets_another_meter_pass_for_it(data: st.DataObject) -> None:
    right = read_json(json.dumps(item("Standard_ND96asr_v4", 27.197)))
    wrong = read_json(json.dumps(item("Standard_ND96asr_v4", 29.917, primary=False)))
    place = data.draw(
        st.sampled_from(["retailPrice", "skuName", "productName", "meterName", "effectiveStartDate", "type"])
    )
    damaged = {**right, place: data.draw(st.sampled_from([None, 7, [], {}, Decimal("NaN"), True]))}
    read = [azure_retail.read_row(row, "eastus", AS_OF) for row in (damaged, wrong)]
    (found, _) = azure_retail.observations([one for one in read if one is not None], "eastus")[Market.ON_DEMAND]
    assert {one.price_usd_per_hour for one in found} <= {Decimal(7)}


@MANY
@given(st.data())
def test_an_sku_changed_gives_a_whole_sum_or_none(data: st.DataObject) -> None:
    skus = SKUS_ON_DEMAND + SKUS_SPOT
    at = data.draw(st.integers(0, len(skus) - 1))
    damaged = changed(skus[at], data)
    table = gcp_skus.RateTable(r for row in [*skus[:at], damaged, *skus[at + 1 :]] for r in gcp_skus.rates(row, AS_OF))
    machines = [m for m in gcp_machines.machines(MACHINES) if isinstance(m, gcp_machines.Machine)]
    host = gcp_skus.RateTable(r for row in skus for r in gcp_skus.rates(row, AS_OF))
    for market in (Market.ON_DEMAND, Market.SPOT):
        found, _ = gcp_machines.priced(machines, table, market)
        sane(found)
        for one in found:
            assert one.price_usd_per_hour > 0
        right = {
            (o.zone, o.instance_type): o.price_usd_per_hour for o in gcp_machines.priced(machines, host, market)[0]
        }
        touched = {r.part for row in (skus[at], damaged) for r in gcp_skus.rates(row, AS_OF)}
        for machine in machines:
            key = machine.zone, machine.name
            parts = {part for part, _ in gcp_machines.bill(machine, host, market)}
            if not parts & touched:
                prices = [o.price_usd_per_hour for o in found if (o.zone, o.instance_type) == key]
                assert prices == ([right[key]] if key in right else [])


@MANY
@given(st.data())
def test_machines_and_accelerators_changed_are_read_or_left_out(data: st.DataObject) -> None:
    for machine in gcp_machines.machines(changed(MACHINES, data)):
        assert machine.vcpus > 0
        assert machine.mem_gib > 0
    for zone, name, most in gcp_machines.attachable(changed(ACCELERATORS, data)):
        assert zone
        assert name.startswith("nvidia-")
        assert most > 0


@MANY
@given(st.sampled_from(INSTANCE_TYPES), st.data())
def test_an_instance_type_changed_is_described_without_nonsense(row: dict[str, Any], data: st.DataObject) -> None:
    for machine in GpuCatalogue([changed(row, data)]).new_machines():
        assert machine.gpus is None or 0 < machine.gpus <= 4096
        assert machine.vcpus is None or machine.vcpus > 0


@MANY
@given(st.data())
def test_the_advisor_changed_is_read_within_its_ranges_or_refused(data: st.DataObject) -> None:
    body = json.dumps(changed(ADVISOR, data), default=str).encode()
    try:
        facts = aws_spot_advisor.interruptions(body, AS_OF)
    except WireFault:
        return
    for fact in facts:
        assert fact.low_pct >= 0
        assert fact.high_pct is None or fact.high_pct > 0


BULK = offer_file("us-east-1")


@MANY
@given(st.data())
def test_an_offer_file_damaged_anywhere_gives_stated_prices_or_a_fault(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(BULK)))
    dirt = data.draw(st.binary(max_size=40))
    gone = data.draw(st.integers(0, 200))
    body = BULK[:at] + dirt + BULK[at + gone :]
    try:
        found, _ = aws_bulk.on_demand(body.splitlines(keepends=True), "us-east-1", AS_OF, GPUS)
    except WireFault:
        return
    sane(found)
    stated: set[str] = set()
    for line in body.decode("utf-8", "replace").splitlines():
        for row in csv.reader(io.StringIO(line)):
            stated.update(row)
    for one in found:
        assert str(one.price_usd_per_hour) in stated or one.price_usd_per_hour in {
            Decimal(t) for t in stated if _number(t)
        }


def _number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


@pytest.mark.parametrize("cut", range(0, 100, 7))
def test_an_offer_file_cut_off_within_a_cell_is_not_whole(cut: int) -> None:
    rows = BULK.splitlines(keepends=True)
    body = b"".join(rows[: 8 + cut % 10]) + rows[20][: 5 + cut]
    with pytest.raises(WireFault, match="cut off"):
        aws_bulk.on_demand(body.splitlines(keepends=True), "us-east-1", AS_OF, GPUS)


def nested(depth: int) -> bytes:
    return b'{"Items": ' + b"[" * depth + b"]" * depth + b"}"


def huge_list(rows: int) -> bytes:
    return b'{"Items": [' + b",".join(b'{"a": 1}' for _ in range(rows)) + b"]}"


@pytest.mark.parametrize("body", [nested(10**6), b"[" * 10**6, b'{"a":' * 10**6], ids=["closed", "open", "objects"])
def test_a_million_levels_deep_is_no_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        read_json(body)


READERS: list[Callable[[list[Any]], object]] = [
    lambda rows: aws_price_list.on_demand(rows, "us-east-1", AS_OF, GPUS),
    lambda rows: aws_spot.latest(rows, "us-east-1", AS_OF, GPUS),
    lambda rows: azure_retail.observations(
        [one for one in (azure_retail.read_row(row, "eastus", AS_OF) for row in rows) if one is not None], "eastus"
    ),
]
ROWS: list[dict[str, Any]] = [
    product("g5.xlarge", "us-east-1", "1.006"),
    record("us-east-1a", "g5.xlarge", "1", "15T09:00"),
    item("Standard_NC4as_T4_v3", 0.526),
]


@pytest.mark.parametrize("n", range(3))
def test_a_value_of_a_million_characters_costs_no_memory_in_what_comes_out(n: int) -> None:
    rng = random.Random(n)
    rows = []
    for path in places(ROWS[n]):
        row = copy.deepcopy(ROWS[n])
        target: Any = row
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = "9" * 10**6 if rng.random() < 0.5 else [["x" * 10**6]]
        rows.append(row)
    tracemalloc.start()
    kept = READERS[n](rows)
    current, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    assert current < 10**6
    assert peak < 40 * 10**6
