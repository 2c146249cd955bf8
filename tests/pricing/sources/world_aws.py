"""A small AWS in its own wire shapes, with the traps of the real one; `fixtures/expected.csv` is what is right.

List prices are public ones of mid 2026; spot prices, ids and everything that is there to mislead are made up.
"""

from __future__ import annotations

from typing import Any

from tests.pricing.sources.world import made_up_id


def product(
    kind: str,
    region: str,
    usd: str,
    *,
    family: str = "Compute Instance",
    effective: str = "2026-09-01T00:00:00Z",
    currency: str = "USD",
    unit: str = "Hrs",
    reserved: bool = False,
    **attributes: str | None,
) -> dict[str, Any]:
    """A product of the price list; attributes given as None are left out."""
    prefix = {"us-east-1": "", "us-west-2": "USW2-", "eu-west-1": "EU-"}.get(region, "XX-")
    all_attributes: dict[str, str | None] = {
        "instanceType": kind,
        "regionCode": region,
        "instanceFamily": "GPU instance",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "usagetype": f"{prefix}BoxUsage:{kind}",
        "licenseModel": "No License required",
        "location": "Somewhere",
        "locationType": "AWS Region",
        "vcpu": "8",
        "gpu": "1",
        "servicecode": "AmazonEC2",
    }
    all_attributes.update(attributes)
    sku = made_up_id(kind, region, usd, sorted((k, str(v)) for k, v in attributes.items()))
    dimension = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${usd} per hour",
        "appliesTo": [],
        "pricePerUnit": {currency: f"{float(usd):.10f}"},
    }
    term = {
        "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension},
        "sku": sku,
        "effectiveDate": effective,
        "offerTermCode": "JRTCKXETXF",
        "termAttributes": {},
    }
    terms: dict[str, Any] = {"OnDemand": {f"{sku}.JRTCKXETXF": term}}
    if reserved:
        upfront = {"unit": "Quantity", "pricePerUnit": {"USD": "226000"}, "description": "Upfront Fee"}
        hourly = {"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": "0.0000000000"}}
        terms["Reserved"] = {
            f"{sku}.NQ3QZPMQV9": {
                "priceDimensions": {"a": upfront, "b": hourly},
                "sku": sku,
                "effectiveDate": "2025-06-01T00:00:00Z",
                "offerTermCode": "NQ3QZPMQV9",
                "termAttributes": {"LeaseContractLength": "3yr", "PurchaseOption": "All Upfront"},
            }
        }
    kept = {key: value for key, value in all_attributes.items() if value is not None}
    return {
        "product": {"productFamily": family, "sku": sku, "attributes": kept},
        "serviceCode": "AmazonEC2",
        "terms": terms,
        "version": "20260910195514",
        "publicationDate": "2026-09-10T19:55:14Z",
    }


_FREE_TRIAL = product("x", "", "0", usagetype="Global-BoxUsage:freetrial", location="Any", instanceType=None)
_FREE_TRIAL["product"]["attributes"] = {
    key: value
    for key, value in _FREE_TRIAL["product"]["attributes"].items()
    if key in ("location", "locationType", "operation", "regionCode", "servicecode", "usagetype")
}
_G4DN = product("g4dn.xlarge", "us-east-1", "0.526")

PRODUCTS: list[dict[str, Any]] = [
    product("p4d.24xlarge", "us-east-1", "26.373642", operatingSystem="Windows", operation="RunInstances:0002"),
    product("p4d.24xlarge", "us-east-1", "21.957642", reserved=True),
    product("p4d.24xlarge", "us-east-1", "23.276", tenancy="Dedicated", usagetype="DedicatedUsage:p4d.24xlarge"),
    product("p4d.24xlarge", "us-east-1", "21.957642", capacitystatus="UnusedCapacityReservation",
            usagetype="UnusedBox:p4d.24xlarge"),
    product("p4d.24xlarge", "us-east-1", "0", capacitystatus="AllocatedCapacityReservation",
            usagetype="Reservation:p4d.24xlarge"),
    product("p4d.24xlarge", "us-east-1", "57.957642", preInstalledSw="SQL Ent", operation="RunInstances:0100"),
    product("p5.48xlarge", "us-east-1", "0", marketoption="CapacityBlock", operation="RunInstances:CB"),
    product("p5.48xlarge", "us-east-1", "55.04"),
    product("p5e.48xlarge", "us-east-1", "0", marketoption="CapacityBlock", operation="RunInstances:CB"),
    _FREE_TRIAL,
    product("g5.xlarge", "us-east-1", "1.006"),
    product("g5.xlarge", "us-east-1", "0", tenancy="Host", usagetype="HostBoxUsage:g5.xlarge"),
    _G4DN,
    product("g4dn.xlarge", "us-east-1", "0.5836", operatingSystem="RHEL", operation="RunInstances:0010"),
    product("g4dn.xlarge", "us-west-2-lax-1", "0.6312", locationType="AWS Local Zone"),
    product("p5.48xlarge", "us-west-2", "55.04"),
    product("p4d.24xlarge", "us-west-2", "21.95764"),
    product("p4d.24xlarge", "eu-west-1", "23.71569"),
    product("g4dn.xlarge", "eu-west-1", "0.587"),
    product("g4dn.metal", "us-east-1", "7.824", family="Compute Instance (bare metal)", tenancy="Dedicated"),
    product("p5en.48xlarge", "us-east-1", "63.296"),
    product("g6f.large", "us-east-1", "0.202", gpu="0.125"),
    product("p3.2xlarge", "us-east-1", "3.06"),
    _G4DN,  # once more, on another page
    product("g6.xlarge", "us-east-1", "0.8048", gpu=None, futureAttribute="new"),
    product("inf2.xlarge", "us-east-1", "0.7582", instanceFamily="Machine Learning ASIC Instances"),
    product("m5.large", "us-east-1", "0.096", instanceFamily="General purpose", gpu=None),
    product("g4dn.xlarge", "cn-northwest-1", "3.711", currency="CNY"),
]  # fmt: skip


def described(kind: str, name: str, count: int, mib: int, *, maker: str = "NVIDIA", **more: Any) -> dict[str, Any]:
    """An entry of DescribeInstanceTypes."""
    entry: dict[str, Any] = {
        "InstanceType": kind,
        "BareMetal": kind.endswith(".metal"),
        "VCpuInfo": {"DefaultVCpus": 96},
        "MemoryInfo": {"SizeInMiB": 1179648},
    }
    if name:
        card = {"Name": name, "Manufacturer": maker, "Count": count, "MemoryInfo": {"SizeInMiB": mib}, **more}
        entry["GpuInfo"] = {"Gpus": [card], "TotalGpuMemoryInMiB": count * mib}
    return entry


INSTANCE_TYPES = [
    described("p4d.24xlarge", "A100", 8, 40960),
    described("p4de.24xlarge", "A100", 8, 81920),
    described("p5.48xlarge", "H100", 8, 81920),
    described("p5e.48xlarge", "H200", 8, 144384),
    described("p5en.48xlarge", "NVIDIA", 8, 144384),
    described("p3.2xlarge", "V100", 1, 16384),
    described("g5.xlarge", "A10G", 1, 22888),
    described("g6.xlarge", "L4", 1, 22888),
    described("g6f.large", "L4", 0, 2861, LogicalGpuCount=1, GpuPartitionSize=0.125),
    described("g4dn.xlarge", "T4", 1, 16384),
    described("g4dn.metal", "T4", 8, 16384),
    {
        **described("inf2.xlarge", "", 0, 0),
        "NeuronInfo": {"NeuronDevices": [{"Count": 1, "Name": "Inferentia2"}]},
    },
    described("p9x.48xlarge", "Z900", 8, 393216),
    described("m5.large", "", 0, 0),
]


def record(
    zone: str, kind: str, usd: str, at: str, zone_id: str = "", product_description: str = "Linux/UNIX"
) -> dict[str, str]:
    """An entry of SpotPriceHistory; `at` is "DDTHH:MM" of September 2026."""
    entry = {
        "AvailabilityZone": zone,
        "InstanceType": kind,
        "ProductDescription": product_description,
        "SpotPrice": usd,
        "Timestamp": f"2026-09-{at}:00+00:00",
    }
    return {**entry, "AvailabilityZoneId": zone_id} if zone_id else entry


VPC = "Linux/UNIX (Amazon VPC)"
SPOT: dict[str, list[list[dict[str, str]]]] = {
    "us-east-1": [
        [],
        [
            record("us-east-1a", "p4d.24xlarge", "9.876500", "15T09:10", "use1-az6"),
            record("us-east-1b", "p4d.24xlarge", "14.281300", "15T09:02", "use1-az1", "Windows"),
            record("us-east-1b", "p4d.24xlarge", "22.104000", "15T08:47", "use1-az1", "SUSE Linux"),
            record("us-east-1b", "p4d.24xlarge", "10.350000", "15T08:46", "use1-az1"),
            record("us-east-1a", "g5.xlarge", "0.412300", "15T07:31", "use1-az6"),
            record("us-east-1c", "p4d.24xlarge", "11.002300", "15T06:15", "use1-az2", VPC),
            record("us-east-1d", "p5.48xlarge", "28.441000", "15T05:59", "use1-az4"),
            record("us-east-1a", "p4d.24xlarge", "10.120000", "15T01:00", "use1-az6"),
        ],
        [
            record("us-east-1a", "g5.xlarge", "0.398100", "14T22:10", "use1-az6"),
            record("us-east-1b", "g5.xlarge", "0.451000", "15T03:44", "use1-az1"),
            record("us-east-1a", "g4dn.xlarge", "0.210400", "14T18:00", "use1-az6"),
            record("us-east-1a", "g4dn.xlarge", "0.210400", "14T18:00", "use1-az6", VPC),
            record("us-east-1b", "g6.xlarge", "0.804800", "14T16:20"),
            record("us-east-1b", "p5e.48xlarge", "22.550000", "14T15:05", "use1-az1"),
            record("us-east-1b", "g4dn.xlarge", "0.199900", "15T11:48", "use1-az1"),
            record("us-east-1b", "g4dn.xlarge", "0.231000", "15T02:48", "use1-az1"),
            record("us-east-1a", "p4d.24xlarge", "8.990000", "14T08:00", "use1-az6"),
            record("us-east-1b", "g4dn.xlarge", "0.300000", "13T10:00", "use1-az1"),
            record("us-east-1a", "m5.large", "0.035400", "15T04:00", "use1-az6"),
            record("us-east-1a", "g5.xlarge", "0.990000", "15T18:00", "use1-az6"),  # not yet
        ],
    ],
    "us-west-2": [
        [
            record("us-west-2-lax-1a", "g4dn.xlarge", "0.401200", "15T10:00", "usw2-lax1-az1"),
            record("us-west-2a", "p5.48xlarge", "31.227700", "15T09:00", "usw2-az2"),
            record("us-west-2b", "p4d.24xlarge", "12.700100", "15T08:00", "usw2-az1"),
        ]
    ],
    "eu-west-1": [
        [
            record("eu-west-1a", "g4dn.xlarge", "0.268800", "15T11:00", "euw1-az3"),
            record("eu-west-1b", "g4dn.xlarge", "0.271900", "15T10:59", "euw1-az1"),
        ]
    ],
}
AWS_REGIONS = {
    "us-east-1": "opt-in-not-required",
    "us-west-2": "opt-in-not-required",
    "eu-west-1": "opt-in-not-required",
}

ADVISOR: dict[str, Any] = {
    "global_rate": "<10%",
    "instance_types": {"p4d.24xlarge": {"cores": 96, "emr": True, "ram_gb": 1152.0}},
    "ranges": [
        {"index": 4, "label": ">20%", "dots": 4, "max": 100},
        {"index": 0, "label": "<5%", "dots": 0, "max": 5},
        {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
        {"index": 2, "label": "10-15%", "dots": 2, "max": 16},
        {"index": 3, "label": "15-20%", "dots": 3, "max": 22},
    ],
    "spot_advisor": {
        "us-east-1": {
            "Windows": {"p4d.24xlarge": {"s": 55, "r": 0}},
            "Linux": {
                "p4d.24xlarge": {"s": 67, "r": 2},
                "p5.48xlarge": {"s": 52, "r": 4},
                "p5en.48xlarge": {"s": 64, "r": 0},
                "g4dn.xlarge": {"s": 64, "r": 3},
                "g6e.xlarge": {"s": 58, "r": 1},
                "g5.xlarge": {"s": 59, "r": 5},  # no such range
                "m5.large": {"s": 59, "r": 1},
            },
        },
        "eu-west-1": {"Linux": {"g4dn.xlarge": {"s": 54, "r": 1}}, "Windows": {}},
    },
}
