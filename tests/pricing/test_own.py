"""Own machines beside the clouds' offers."""

from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks_db.errors import WorkloadError
from pricing.offers import Market, PriceState, concatenate, current_offers
from pricing.sources.own import own_machine, own_table

NOW = datetime(2026, 9, 1, tzinfo=UTC)


def test_an_own_machine_may_be_free_and_is_ranked() -> None:
    lab = own_machine({"name": "lab", "gpu": "RTX 3090", "gpus_per_node": 8, "usd_per_hour": 0})
    (offer,) = own_table([lab], now=NOW).offers()
    assert (offer.gpu, offer.gpus_per_node, offer.price_usd_per_hour) == ("RTX-3090", 8.0, 0.0)
    assert (offer.market, offer.state, offer.ranked) == (Market.OWN, PriceState.OWN, True)


def test_a_purchase_price_power_and_utilisation_make_an_hourly_price() -> None:
    lab = own_machine({"name": "lab", "gpu": "RTX-3090:8", "purchase_usd": 20000, "years": 4, "utilisation": 0.5,
                       "power_kw": 3, "usd_per_kwh": 0.2})  # fmt: skip
    price = own_table([lab], now=NOW).offers()[0].price_usd_per_hour
    assert price == pytest.approx(20000 / (4 * 8760 * 0.5) + 0.6)
    assert lab.gpus_per_node == 8


def test_an_own_machine_without_a_price_is_unpriced() -> None:
    (offer,) = own_table([own_machine({"name": "lab", "gpu": "T4"})], now=NOW).offers()
    assert (offer.price_usd_per_hour, offer.state, offer.ranked) == (None, PriceState.UNPRICED, False)


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"gpu": "T4"}, "own.name"),
        ({"name": "x", "gpu": "T4", "usd_per_hours": 1}, "own.usd_per_hours"),
        ({"name": "x", "gpu": "T4", "usd_per_hour": -1}, "own.usd_per_hour"),
        ({"name": "x", "gpu": "T4", "usd_per_hour": "nan"}, "own.usd_per_hour"),
        ({"name": "x", "gpu": "T4", "gpus_per_node": 0}, "own.gpus_per_node"),
        ({"name": "x", "gpu": "T4", "purchase_usd": 5, "utilisation": 70}, "own.utilisation"),
        ({"name": "x", "gpu": "T4", "power_kw": 5}, "own.purchase_usd"),
        ({"name": "x", "gpu": "T4", "purchase_usd": 5, "resale_usd": 6}, "own.resale_usd"),
        ({"name": "x", "gpu": "T4", "gpu_interconnect": "string"}, "own.gpu_interconnect"),
    ],
)
def test_a_wrong_own_machine_is_refused_by_field(entry: dict[str, object], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        own_machine(entry)
    assert caught.value.field == field


def test_own_machines_join_the_clouds_in_one_table() -> None:
    table = current_offers(now=NOW)
    joined = concatenate([table, own_table([own_machine({"name": "lab", "gpu": "T4", "usd_per_hour": 0.1})], now=NOW)])
    assert joined.offers()[: len(table)] == table.offers()
    assert joined.offers()[-1].instance_type == "lab"
    assert np.isnan(joined.vcpus[-1])
