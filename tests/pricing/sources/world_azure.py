"""A small Azure in its own wire shapes, with the traps of the real one; `fixtures/expected.csv` is what is right.

On-demand prices are list prices of June 2026; spot prices, ids and what is there to mislead are made up.
"""

from __future__ import annotations

from typing import Any

from tests.pricing.sources.world import made_up_id


def item(
    size: str,
    usd: float,
    *,
    region: str = "eastus",
    product: str = "Virtual Machines N Series",
    name: str = "",
    meter: str = "",
    kind: str = "Consumption",
    start: str = "2024-01-01",
    end: str = "",
    primary: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """An item of the Retail Prices API."""
    name = name or size.removeprefix("Standard_").replace("_", " ")
    row: dict[str, Any] = {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": usd,
        "unitPrice": usd,
        "armRegionName": region,
        "location": "Somewhere",
        "effectiveStartDate": f"{start}T00:00:00Z",
        "meterId": made_up_id(size, region, name, meter, product),
        "meterName": meter or name,
        "productId": "DZH318Z0",
        "skuId": made_up_id(size, region, name, product, start, kind),
        "productName": product,
        "skuName": name,
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": kind,
        "isPrimaryMeterRegion": primary,
        "armSkuName": size,
    }
    if end:
        row["effectiveEndDate"] = f"{end}T23:59:59Z"
    return {**row, **more}


def spot(size: str, usd: float, *, month: int = 9, **more: Any) -> dict[str, Any]:
    """A spot row: republished each month with a window of that month."""
    last = {8: 31, 9: 30}[month]
    name = size.removeprefix("Standard_").replace("_", " ") + " Spot"
    start, end = f"2026-{month:02d}-01", f"2026-{month:02d}-{last}"
    return item(size, usd, name=name, start=start, end=end, **more)


_A100, _H100, _NC40 = "Standard_NC24ads_A100_v4", "Standard_ND96isr_H100_v5", "Standard_NC40ads_H100_v5"
_T4, _A10, _A10_36 = "Standard_NC4as_T4_v3", "Standard_NV6ads_A10_v5", "Standard_NV36ads_A10_v5"
_ND, _NCC, _V100 = "Standard_ND96asr_v4", "Standard_NCC40ads_H100_v5", "Standard_NC6s_v3"
_FUTURE = item(_T4, 0.45, start="2026-10-01")

ITEMS: list[dict[str, Any]] = [
    item(_A100, 4.777, product="Virtual Machines NCADSA100v4 Series Windows"),
    item(_A100, 3.673, savingsPlan=[{"unitPrice": 2.314, "retailPrice": 2.314, "term": "1 Year"}]),
    spot(_A100, 0.679505),
    spot(_A100, 1.783505, product="Virtual Machines NCADSA100v4 Series Windows"),
    item(_A100, 0.7346, name="NC24ads A100 v4 Low Priority"),
    item(_A100, 23872.0, kind="Reservation", reservationTerm="1 Year"),
    item(_A100, 50100.0, kind="Reservation", reservationTerm="3 Years"),
    item(_A100, 3.673, kind="DevTestConsumption", product="Virtual Machines NCADSA100v4 Series Windows"),
    item(_H100, 98.32, product="Virtual Machines NDsrH100v5 Series Linux", start="2023-12-01"),
    item(_H100, 551221.0, kind="Reservation", reservationTerm="1 Year"),
    spot(_H100, 29.496, product="Virtual Machines NDsrH100v5 Series Linux"),
    item(_H100, 117.984, start="2023-06-01", end="2023-11-30"),
    item(_NC40, 6.98),
    item(_NC40, 8.82, product="Virtual Machines NCadsH100v5 Series Windows"),
    spot(_NC40, 1.419034),
    spot(_NC40, 1.51, month=8),
    item(_T4, 0.526, start="2020-11-01"),
    item(_T4, 0.71, product="Virtual Machines NCasT4 v3 Series Windows"),
    item(_T4, 0.1052, name="NC4as T4 v3 Low Priority"),
    spot(_T4, 0.0943),
    item(_T4, 0.526, product="Virtual Machines NCasT4 v3 Series Cloud Services"),
    _FUTURE,
    _FUTURE,  # once more, on the next page
    item(_A10_36, 3.2, someNewField={"a": 1}),
    spot(_A10_36, 0.64),
    item(_A10, 0.454),
    spot(_A10, 0.0908),
    item(_A10, 0.002, start="2026-08-01", end="2026-07-31"),
    item("Standard_ND128isr_NDR_GB200_v6", 108.16, start="2025-04-01"),
    item(_ND, 27.197),
    item(_ND, 35.357, meter="ND96asr A100 v4 - Expired"),
    item(_ND, 29.917, start="2024-02-01", primary=False),
    item(_V100, 3.06, region="westus3", primary=False),
    spot(_V100, 0.0, region="westus3", primary=False),
    item(_NCC, 12.58, region="westeurope", product="Virtual Machines NCCadsv5 Srs Win"),
    item(_NCC, 10.74, region="westeurope", product="Virtual Machines NCCadsv5 Srs"),
    spot(_NCC, 1.984, region="westeurope"),
    item(_T4, 0.658, region="westeurope", product="Virtual Machines NCasT4 v3 Series "),
    spot(_T4, 0.1184, region="westeurope"),
    item("NCads_A100_v4_Type1", 16.161, product="NCADSA100v4 Series Dedicated Host"),
    item("", 0.2, name="NC T4 Promo"),
    item(_T4, 5764.0, region="westeurope", kind="Reservation", reservationTerm="1 Year"),
    item("Standard_D2s_v5", 0.096),
    item("Standard_NP10s", 1.65),
]
