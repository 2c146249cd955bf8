"""The Azure source as a whole: regions, pages, links."""

from __future__ import annotations

import pytest

from pricing.instances import InstanceType
from pricing.offers import Market
from pricing.sources import azure
from pricing.sources.base import FailureReason, PriceSet, Wanted
from tests.pricing.sources import world_azure
from tests.pricing.sources.clouds import Clouds, azure_region
from tests.pricing.sources.loopback import Fault, Reply, Request, as_json, changed_json, only
from tests.pricing.sources.reading import EVERYWHERE, everything, expected, failures, prices

AZURE = {key for key in expected() if key[0] == "azure"}
EASTUS = Wanted(regions=("eastus",))


def nonzero(found: object) -> set[object]:
    return {key for key, values in prices(found).items() if any(values)}  # type: ignore[arg-type]


def test_only_gpu_sizes_are_asked_for_with_a_bare_next_link(clouds: Clouds) -> None:
    assert nonzero(everything(azure, clouds.settings(), EVERYWHERE)) == AZURE
    asked = [r.query for r in clouds.azure.requests if azure_region(r) == "eastus"]
    assert all("contains(armSkuName, 'Standard_N')" in query["$filter"] for query in asked)
    assert [query.get("$skip") for query in asked] == [None, "10", "20", "30"][: len(asked)]
    assert len(asked) > 2


def no_contains(request: Request, good: Reply, n: int) -> Reply | None:
    return as_json({"Error": {"Code": "BadRequest"}}, 400) if "contains" in request.query.get("$filter", "") else None


def nothing_found(request: Request, good: Reply, n: int) -> Reply | None:
    return as_json({"Items": [], "NextPageLink": None, "Count": 0}) if "contains" in request.query["$filter"] else None


@pytest.mark.parametrize("fault", [no_contains, nothing_found])
def test_an_api_that_does_not_narrow_is_asked_for_everything(clouds: Clouds, fault: Fault) -> None:
    clouds.azure.faults.append(fault)
    assert nonzero(everything(azure, clouds.settings(), EVERYWHERE)) == AZURE


def test_a_filter_that_is_ignored_changes_nothing(clouds: Clouds) -> None:
    clouds.azure.faults.append(
        only(
            lambda r, good, n: as_json({"Items": world_azure.ITEMS, "NextPageLink": None}),
            lambda r: bool(azure_region(r)),
        )
    )
    assert nonzero(everything(azure, clouds.settings(), EVERYWHERE)) == AZURE


def test_rows_that_shift_between_pages_are_read_once(clouds: Clouds) -> None:
    def shifted(request: Request, good: Reply, n: int) -> Reply | None:
        at = int(request.query.get("$skip", "0"))
        if not at or not azure_region(request):
            return None
        from tests.pricing.sources.clouds import retail

        query = {**request.query, "$skip": str(at - 2)}
        return retail(Request(request.path, query, request.headers, request.body, request.base))

    clouds.azure.faults.append(shifted)
    found = everything(azure, clouds.settings(), EVERYWHERE)
    assert failures(found) == []
    assert nonzero(found) == AZURE


@pytest.mark.parametrize(
    "link", ["https://prices.invalid/next", "http://127.0.0.1:1/next", "//elsewhere/x", "file:///etc"]
)
def test_a_next_link_to_another_host_is_refused(clouds: Clouds, link: str) -> None:
    clouds.azure.faults.append(changed_json(lambda page: {**page, "NextPageLink": link}))
    found = everything(azure, clouds.settings(), EASTUS)
    assert {f.reason for f in failures(found)} == {FailureReason.PAGING}
    assert prices(found) == {}


def test_a_next_link_to_itself_is_an_error_not_a_loop(clouds: Clouds) -> None:
    def again(request: Request, good: Reply, n: int) -> Reply:
        return as_json({"Items": [], "NextPageLink": f"{request.base}{request.path}?$skip=1&x=y"})

    clouds.azure.faults.append(again)
    found = everything(azure, clouds.settings(), EASTUS)
    assert {f.reason for f in failures(found)} == {FailureReason.PAGING}
    assert len(clouds.azure.requests) < 20


def test_a_page_cap_is_an_error_not_a_short_list(clouds: Clouds) -> None:
    found = everything(azure, clouds.settings(max_pages=2), EASTUS)
    assert {(f.reason, f.detail) for f in failures(found)} == {(FailureReason.PAGING, "more than 2 pages")}


def test_a_region_that_no_list_has_is_found_by_what_it_sells(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    row = world_azure.item("Standard_NC4as_T4_v3", 0.6, region="atlantisnorth")
    monkeypatch.setattr(world_azure, "ITEMS", [*world_azure.ITEMS, row])
    found = everything(azure, clouds.settings(), Wanted(regions=("atlantis*",)))
    assert set(prices(found)) == {("azure", "atlantisnorth", "", "Standard_NC4as_T4_v3", Market.ON_DEMAND)}


def test_a_region_that_sells_nothing_is_a_set_without_prices(clouds: Clouds) -> None:
    found = everything(azure, clouds.settings(), Wanted(regions=("norwaywest",)))
    assert [(each.market, each.observations) for each in found if isinstance(each, PriceSet)] == [
        (Market.ON_DEMAND, ()),
        (Market.SPOT, ()),
    ]


def test_new_sizes_are_told(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_azure, "ITEMS", [*world_azure.ITEMS, world_azure.item("Standard_NZ99_v9", 9.0)])
    found = everything(azure, clouds.settings(), EASTUS)
    assert [(m.instance_type, m.gpu, m.gpus) for m in found if isinstance(m, InstanceType)] == [
        ("Standard_NZ99_v9", None, None)
    ]


def test_items_that_are_no_list_are_not_the_api(clouds: Clouds) -> None:
    for page in ([], {"Items": None}, {"Items": "many"}, 7):
        clouds.azure.faults[:] = [lambda r, good, n, page=page: as_json(page)]  # type: ignore[misc]
        found = everything(azure, clouds.settings(), EASTUS)
        assert {f.reason for f in failures(found)} == {FailureReason.NOT_THE_API}
