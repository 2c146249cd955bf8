"""Machines: what has GPUs, what can be attached, and sums that are whole or none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pricing.offers import Market
from pricing.sources.gcp_machines import (
    Host,
    Machine,
    attachable,
    attached,
    bill,
    is_gpu,
    known_machine,
    machines,
    price,
    priced,
    shipped_machines,
)
from pricing.sources.gcp_skus import RateTable, rates
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_gcp import ACCELERATORS, MACHINES, SKUS_ON_DEMAND, SKUS_SPOT, accelerator, machine, sku

OD, SPOT = Market.ON_DEMAND, Market.SPOT
ALL = SKUS_ON_DEMAND + SKUS_SPOT
A2 = Machine("a2-highgpu-1g", "us-central1", "us-central1-a", "nvidia-tesla-a100", 1, 12, Decimal(85))


def table(*skus: dict[str, Any]) -> RateTable:
    return RateTable(rate for row in skus for rate in rates(row, AS_OF))


def test_gpu_machines_and_n1_hosts_are_found_and_nothing_else() -> None:
    found = list(machines(MACHINES))
    fixed = {(m.zone, m.name) for m in found if isinstance(m, Machine)}
    assert ("us-central1-a", "a2-ultragpu-1g") in fixed
    assert ("us-central1-b", "a2-highgpu-1g") not in fixed, "deprecated"
    assert not {name for _, name in fixed if name.startswith("ct5lp")}, "a TPU"
    assert [(h.zone, h.name) for h in found if isinstance(h, Host)] == [
        ("us-central1-a", "n1-standard-8"),
        ("asia-southeast1-c", "n1-standard-8"),
    ]


def test_memory_is_gib_and_numbers_may_come_as_text() -> None:
    row = machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1) | {"guestCpus": "12", "memoryMb": "87040"}
    (found,) = machines({"zones/us-central1-a": {"machineTypes": [row]}})
    assert isinstance(found, Machine)
    assert (found.vcpus, found.mem_gib) == (12, Decimal(85))


def test_gpus_are_attached_within_the_limits_of_zone_and_card() -> None:
    cards = list(attachable(ACCELERATORS))
    assert not [name for _, name, _ in cards if name.endswith("-vws") or name == "ct5lp"]
    hosts = [
        Host("n1-standard-8", "us-central1-a", 8, Decimal(30)),
        Host("n1-standard-96", "us-central1-a", 96, Decimal(360)),
    ]
    names = {m.name for m in attached(hosts, cards)}
    assert {n for n in names if n.startswith("n1-standard-8+")} == {
        *(f"n1-standard-8+{n}*nvidia-tesla-t4" for n in (1, 2, 4)),
        *(f"n1-standard-8+{n}*nvidia-tesla-v100" for n in (1, 2, 4, 8)),
    }
    assert {n for n in names if n.startswith("n1-standard-96+")} == {
        "n1-standard-96+4*nvidia-tesla-t4",
        "n1-standard-96+8*nvidia-tesla-v100",
    }
    few = list(attachable({"zones/us-central1-a": {"acceleratorTypes": [accelerator("nvidia-tesla-t4", 1)]}}))
    assert [m.gpus for m in attached(hosts[:1], few)] == [1]


def test_the_published_price_is_the_sum_of_the_parts() -> None:
    (found,) = price(A2, table(*ALL), OD)
    assert found.price_usd_per_hour == Decimal("3.673385")
    assert (found.gpu, found.gpus_per_node, found.zone) == ("A100-SXM4-40GB", 1.0, "us-central1-a")


@pytest.mark.parametrize("lost", ["A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU running"])
def test_a_part_missing_means_no_price_never_a_partial_sum(lost: str) -> None:
    rest = [row for row in ALL if not row["description"].startswith(lost)]
    answer = price(A2, table(*rest), OD)
    assert isinstance(answer, str)
    assert answer.startswith("no price: ")
    found, rejected = priced([A2], table(*rest), OD)
    assert found == []
    assert rejected[0].reason == answer


def test_a_bundled_disk_missing_means_no_price() -> None:
    with_disk = Machine("a2-ultragpu-1g", "us-central1", "us-central1-a", "nvidia-a100-80gb", 1, 12, Decimal(170), 1)
    assert isinstance(price(with_disk, table(*ALL), OD), list)
    rest = [row for row in ALL if "Local Storage" not in row["description"]]
    assert price(with_disk, table(*rest), OD) == "no price: ssd SKU missing"


def test_a_part_at_zero_means_no_price() -> None:
    rest = [row for row in ALL if not row["description"].startswith("Nvidia Tesla A100 GPU running in Americas")]
    free = sku("Nvidia Tesla A100 GPU running in Americas", "GPU", "0")
    assert price(A2, table(*rest, free), OD) == "no price: gpu SKU zero"


def test_a_slice_is_a_gpu_s_share_of_the_whole_machine() -> None:
    a4 = Machine("a4-highgpu-8g", "us-central1", "us-central1-b", "nvidia-b200", 8, 224, Decimal(3968), 32)
    assert [part.kind for part, _ in bill(a4, table(*ALL), OD)] == ["slice"]
    for market, usd in ((OD, "128.88"), (SPOT, "39.6336")):
        (found,) = price(a4, table(*ALL), market)
        assert found.price_usd_per_hour == Decimal(usd)


def test_two_prices_of_a_part_give_the_cheapest_and_the_dearest_sum() -> None:
    dear = sku("Nvidia Tesla A100 GPU running in Iowa", "GPU", "4.0", ("us-central1",))
    found = price(A2, table(*ALL, dear), OD)
    assert [one.price_usd_per_hour for one in found if not isinstance(one, str)] == [
        Decimal("3.673385"),
        Decimal("3.673385") - Decimal("2.933908") + 4,
    ]


def test_an_sku_that_cannot_be_read_is_rejected_with_its_reason() -> None:
    euros = sku("A2 Instance Core running in Netherlands", "CPU", "0.03", ("us-central1",))
    euros["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["currencyCode"] = "EUR"
    found, rejected = priced([A2], table(*ALL, euros), OD)
    assert found == []
    assert [one.reason for one in rejected] == ["currency EUR", "no price: core SKU currency EUR"]


def test_small_a3_machines_are_sold_as_spot_only() -> None:
    a3 = Machine("a3-highgpu-1g", "us-central1", "us-central1-a", "nvidia-h100-80gb", 1, 26, Decimal(234), 2)
    assert priced([a3], table(*ALL), OD) == ([], [])
    assert len(priced([a3], table(*ALL), SPOT)[0]) == 1


def test_an_unknown_accelerator_keeps_its_name() -> None:
    (found,) = machines({"zones/us-central1-a": {"machineTypes": [machine("x9-mega-8g", 8, 64, "nvidia-z900", 8)]}})
    assert isinstance(found, Machine)
    known = known_machine(found)
    assert (known.gpu, known.gpus) == (None, 8.0)
    assert "nvidia-z900" in known.notes
    assert is_gpu("nvidia-z900")
    assert not is_gpu("ct5lp")


def test_a_count_that_the_shipped_table_disputes_gives_no_price() -> None:
    part = Machine("g4-standard-6", "us-central1", "us-central1-a", "nvidia-rtx-pro-6000", 1, 6, Decimal(22))
    answer = price(part, table(*ALL), OD)
    assert isinstance(answer, str)
    assert "1 GPUs says the API, 0.125" in answer


def test_the_shipped_machines_have_cards_and_sizes() -> None:
    shipped = {(m.region, m.name): m for m in shipped_machines()}
    assert shipped["us-central1", "a2-highgpu-1g"].accelerator == "nvidia-tesla-a100"
    assert shipped["us-central1", "a3-megagpu-8g"].accelerator == "nvidia-h100-mega-80gb"
    assert shipped["us-central1", "a2-ultragpu-1g"].ssd_partitions == 1
    assert all(m.zone is None and m.gpus >= 1 for m in shipped.values())
