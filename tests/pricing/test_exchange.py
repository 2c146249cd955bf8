"""Exported prices: what is refused, and what is never overwritten."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import EstimatorError, WorkloadError
from pricing.exchange import export_document, import_document
from pricing.instances import InstanceType
from pricing.offers import Freshness, current_offers
from pricing.store import Store
from tests.pricing.sets import NOW, hours, price_set


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "prices.db"))


def exported(store: Store) -> dict[str, object]:
    return export_document(current_offers(now=NOW, store=store), store)


@pytest.mark.parametrize("later", [1, 24 * 30])
def test_a_newer_set_here_is_not_replaced(store: Store, tmp_path: Path, later: int) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0}))
    document = exported(store)
    other = Store(str(tmp_path / "other.db"))
    other.switch(price_set({"p5.48xlarge": 52.0}, at=hours(later)))
    assert [done.outcome for done in import_document(other, document)] == ["superseded"]
    table, _ = other.current_table(now=hours(later), freshness=Freshness())
    assert table.offers()[0].price_usd_per_hour == 52.0


def test_a_fall_that_happened_in_between_is_taken_from_the_file(store: Store, tmp_path: Path) -> None:
    other = Store(str(tmp_path / "other.db"))
    other.switch(price_set({f"t{n}": 400.0 for n in range(10)}))
    store.switch(price_set({f"t{n}": 4.0 for n in range(3)}, at=hours(1)))
    (done,) = import_document(other, export_document(current_offers(now=hours(1), store=store), store))
    assert (done.outcome, done.changed, done.gone) == ("switched", 3, 7)


def test_machine_facts_travel_along(store: Store, tmp_path: Path) -> None:
    store.put_instance_types([InstanceType("aws", "p9x.metal", None, 4.0)], NOW)
    store.switch(price_set({"p9x.metal": 9.0}))
    other = Store(str(tmp_path / "other.db"))
    import_document(other, exported(store))
    assert other.instance_types() == store.instance_types()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"price_usd_per_hour": 0}, "offers[0].price_usd_per_hour"),
        ({"price_usd_per_hour": float("nan")}, "offers[0].price_usd_per_hour"),
        ({"price_usd_per_hour": "free"}, "offers[0].price_usd_per_hour"),
        ({"market": "own"}, "offers[0].market"),
        ({"region": None}, "offers[0].region"),
        ({"observed_at": "soon"}, "offers[0].observed_at"),
        ({"instance_type": "x\n"}, "offers[0].instance_type"),
        ({"gpus_per_node": -1}, "offers[0].gpus_per_node"),
        ({"state": None}, "offers[0].state"),
        ({"state": "alive"}, "offers[0].state"),
    ],
)
def test_a_bad_offer_is_named(store: Store, change: dict[str, object], field: str) -> None:
    offer = {"cloud": "aws", "region": "r", "zone": None, "zone_id": None, "instance_type": "t", "market": "spot",
             "gpu": None, "gpus_per_node": 1, "price_usd_per_hour": 1.0, "source": "s",
             "observed_at": "2026-09-01T00:00:00Z", "state": "live"}  # fmt: skip
    with pytest.raises(WorkloadError) as caught:
        import_document(store, {"offers": [offer | change]})
    assert caught.value.field == field


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["offers", "instances", "currency", "cloud", "region", "market", "state", "source"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(json_values)
def test_any_json_is_read_or_refused_by_name(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    store = Store(str(tmp_path_factory.mktemp("x") / "prices.db"))
    with contextlib.suppress(EstimatorError):
        assert import_document(store, content) == []
