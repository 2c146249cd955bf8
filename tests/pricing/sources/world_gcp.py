"""A small Google Cloud in its own wire shapes, with the traps of the real one.

`fixtures/expected.csv` is what is right. Most rates are public list prices of August 2026; the rest, the ids and what
is there to mislead are made up.
"""

from __future__ import annotations

from typing import Any

from tests.pricing.sources.world import made_up_id

NOW = "2026-09-15T10:21:07.331Z"
AMERICAS = ("us-central1", "us-east1", "us-west1")
_UNITS = {"h": "h", "ram": "GiBy.h", "ram-gb": "GBy.h", "ssd": "GiBy.mo"}


def money(usd: str) -> dict[str, Any]:
    """unitPrice: units as text, nanos as a number."""
    whole, _, part = usd.partition(".")
    return {"currencyCode": "USD", "units": whole, "nanos": int((part + "000000000")[:9])}


def sku(
    description: str,
    group: str,
    usd: str,
    regions: tuple[str, ...] = AMERICAS,
    *,
    usage: str = "OnDemand",
    unit: str = "",
    at: str = NOW,
    older: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """A SKU of the catalogue. The unit follows from the group unless given."""
    unit = unit or ("ssd" if group == "LocalSSD" else "ram" if " Ram " in description else "h")

    def entry(price: str, effective: str) -> dict[str, Any]:
        return {
            "summary": "",
            "pricingExpression": {
                "usageUnit": _UNITS.get(unit, unit),
                "displayQuantity": 1,
                "tieredRates": [{"startUsageAmount": 0, "unitPrice": money(price)}],
            },
            "currencyConversionRate": 1,
            "effectiveTime": effective,
        }

    name = made_up_id(description, regions, usd)
    return {
        "name": f"services/6F81-5844-456A/skus/{name}",
        "skuId": name,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": {"LocalSSD": "Storage", "License": "License", "Egress": "Network"}.get(group, "Compute"),
            "resourceGroup": group,
            "usageType": usage,
        },
        "serviceRegions": list(regions),
        "pricingInfo": ([entry(*older)] if older else []) + [entry(usd, at)],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL" if len(regions) == 1 else "MULTI_REGIONAL", "regions": list(regions)},
    }


_NL, _SG, _VA, _IT = ("europe-west4",), ("asia-southeast1",), ("us-east4",), ("europe-west12",)
_A, _NLP, _SGP = "running in Americas", "running in Netherlands", "running in Singapore"
_SPOT_VMS = "attached to Spot Preemptible VMs"
SKUS_ON_DEMAND = [
    sku(f"Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs {_A}", "GPU", "1.61365"),
    sku("Reserved Nvidia Tesla A100 GPU in Americas", "GPU", "0"),
    sku(f"Nvidia Tesla A100 80GB GPU {_A}", "GPU", "3.92808"),
    sku(f"Nvidia Tesla A100 GPU {_A}", "GPU", "2.933908"),
    sku(f"A2 Instance Core {_A}", "CPU", "0.031611"),
    sku(f"A2 Instance Ram {_A}", "RAM", "0.004237"),
    sku(f"DWS Defined Duration A2 Core {_A}", "CPU", "0.01739"),
    sku(f"DWS Defined Duration A2 Ram {_A}", "RAM", "0.00233"),
    sku(f"Commitment v1: Nvidia Tesla A100 GPU {_A} for 1 Year", "GPU", "1.848362", usage="Commit1Yr"),
    sku("Commitment v1: A2 Cpu in Americas for 1 Year", "CPU", "0.019915", usage="Commit1Yr"),
    sku("SSD backed Local Storage", "LocalSSD", "0.08"),
    sku("Commitment v1: Local SSD In Americas for 1 Year", "LocalSSD", "0.0504", usage="Commit1Yr"),
    sku(f"Nvidia H100 80GB Plus GPU {_A}", "GPU", "10.344276"),
    sku(f"Nvidia H100 80GB GPU {_A}", "GPU", "9.796550569"),
    sku("Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode", "GPU", "4.57"),
    sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "GPU", "4.841121"),
    sku(f"Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs {_A}", "GPU", "4.423936"),
    sku(f"A3Plus Instance Core {_A}", "CPU", "0.026924"),
    sku(f"A3Plus Instance Ram {_A}", "RAM", "0.002344"),
    sku(f"A3 Instance Core {_A}", "CPU", "0.0255"),
    sku(f"A3 Instance Ram {_A}", "RAM", "0.002220118"),
    sku(f"A4 Nvidia B200 (1 gpu slice) {_A}", "GPU", "16.11"),
    sku(f"Nvidia L4 GPU {_A}", "GPU", "0.560040239", at="2026-09-12T07:00:00Z", older=("0.61", "2026-09-01T07:00:00Z")),
    sku(f"G2 Instance Core {_A}", "CPU", "0.024988"),
    sku(f"G2 Instance Ram {_A}", "RAM", "0.002927501"),
    sku(f"N1 Predefined Instance Core {_A}", "N1Standard", "0.031611"),
    sku(f"N1 Predefined Instance Ram {_A}", "N1Standard", "0.004237"),
    sku(f"Custom Instance Core {_A}", "N1Standard", "0.033174"),
    sku(f"Custom Instance Ram {_A}", "N1Standard", "0.004446"),
    sku(f"Nvidia Tesla T4 GPU attached to Sole Tenancy VMs {_A}", "GPU", "0.385"),
    sku(f"Nvidia Tesla T4 GPU {_A}", "GPU", "0.35"),
    sku(f"Nvidia Tesla V100 GPU {_A}", "GPU", "2.48"),
    sku("Commitment v1: G4 Core in Americas for 5 Years", "CPU", "0.0125551", usage="Commit"),
    sku(f"RTX 6000 96GB {_A}", "GPU", "2.5"),
    sku(f"TpuV5e {_A}", "TPU", "1.2"),
    sku("Licensing Fee for Windows Server 2022 (CPU cost)", "License", "0.046", ("global",)),
    sku(f"A2 Instance Core {_NLP}", "CPU", "0.034802", _NL),
    sku(f"A2 Instance Ram {_NLP}", "RAM", "0.004664", _NL),
    sku(f"Nvidia Tesla A100 GPU {_NLP}", "GPU", "2.933908", _NL),
    sku(f"A3 Instance Core {_NLP}", "CPU", "0.026775", _NL),
    sku(f"A3 Instance Ram {_NLP}", "RAM", "0.002331124", _NL),
    sku(f"Nvidia H100 80GB Gpu {_NLP}", "GPU", "12.735516438", _NL),
    sku("SSD backed Local Storage in Netherlands", "LocalSSD", "0.088", _NL),
    sku(f"G2 Instance Core {_NLP}", "CPU", "0.026239", _NL),
    sku(f"G2 Instance Ram {_NLP}", "RAM", "0.00308311", _NL),
    sku(f"Nvidia L4 GPU {_NLP}", "GPU", "0.588630286", _NL),
    sku(f"H200 141GB GPU {_NLP}", "GPU", "10.5", _NL),
    sku(f"A2 Instance Core {_SGP}", "CPU", "0.038999", _SG),
    sku(f"A2 Instance Ram {_SGP}", "RAM", "0.004867092", _SG, unit="ram-gb"),
    sku(f"Nvidia Tesla A100 GPU {_SGP}", "GPU", "3.101559926", _SG),
    sku(f"N1 Predefined Instance Core {_SGP}", "N1Standard", "0.038999", _SG),
    sku(f"N1 Predefined Instance Ram {_SGP}", "N1Standard", "0.005226", _SG),
    sku(f"Nvidia Tesla T4 GPU {_SGP}", "GPU", "0.37", _SG),
    sku("G2 Instance Core running in Virginia", "CPU", "0.028141", _VA),
    sku("G2 Instance Ram running in Virginia", "RAM", "0.003297", _VA),
    sku("Nvidia L4 GPU running in Virginia", "GPU", "0.6307", _VA),
    sku("Nvidia L4 GPU running in Northern Virginia", "GPU", "0.6307", _VA),
    sku("G2 Instance Core running in Turin", "CPU", "0.04", _IT),
    sku("G2 Instance Ram running in Turin", "RAM", "0.005", _IT),
    sku("Nvidia L4 GPU running in Turin", "GPU", "0.9", _IT),
    sku(f"C4D Instance Ram {_A}", "RAM", "0.003", unit="ram-gb"),
]


def _spot(description: str, group: str, usd: str, regions: tuple[str, ...] = AMERICAS, **more: Any) -> dict[str, Any]:
    return sku(description, group, usd, regions, **{"usage": "Preemptible", **more})


_S = "Spot Preemptible"
SKUS_SPOT = [
    _spot(f"{_S} A2 Instance Core {_A}", "CPU", "0.01659"),
    _spot(f"{_S} A2 Instance Ram {_A}", "RAM", "0.00222"),
    _spot(f"Nvidia Tesla A100 GPU {_SPOT_VMS} {_A}", "GPU", "1.54024"),
    _spot(f"Nvidia Tesla A100 80GB GPU {_SPOT_VMS} {_A}", "GPU", "2.16108"),
    _spot(f"SSD backed Local Storage {_SPOT_VMS}", "LocalSSD", "0.0428"),
    _spot(f"{_S} A3 Instance Core {_A}", "CPU", "0.01441"),
    _spot(f"{_S} A3 Instance Ram {_A}", "RAM", "0.00125"),
    _spot(f"Nvidia H100 80GB GPU {_SPOT_VMS} {_A}", "GPU", "5.61506"),
    _spot(f"{_S} A3Plus Instance Core {_A}", "CPU", "0.0152"),
    _spot(f"{_S} A3Plus Instance Ram {_A}", "RAM", "0.00132"),
    _spot(f"Nvidia H100 80GB Plus GPU {_SPOT_VMS} {_A}", "GPU", "5.929"),
    sku(f"{_S} A4 Nvidia B200 (1 gpu slice) {_A}", "GPU", "4.9542"),  # usage type OnDemand: the text wins
    sku("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Americas", "GPU", "8.055"),
    _spot(f"{_S} G2 Instance Core {_A}", "CPU", "0.01405"),
    _spot(f"{_S} G2 Instance Ram {_A}", "RAM", "0.001646"),
    _spot(f"Nvidia L4 GPU {_SPOT_VMS} {_A}", "GPU", "0.3148"),
    _spot(f"{_S} N1 Predefined Instance Core {_A}", "N1Standard", "0.01115"),
    _spot(f"{_S} N1 Predefined Instance Ram {_A}", "N1Standard", "0.001494"),
    _spot(f"{_S} Custom Instance Core {_A}", "N1Standard", "0.0117"),
    _spot(f"Nvidia Tesla T4 GPU {_SPOT_VMS} {_A}", "GPU", "0.209"),
    _spot(f"Nvidia Tesla V100 GPU {_SPOT_VMS} {_A}", "GPU", "0.992"),
    _spot(f"{_S} A2 Instance Core {_NLP}", "CPU", "0.01572", _NL),
    _spot(f"{_S} A2 Instance Ram {_NLP}", "RAM", "0.002103", _NL),
    _spot(f"Nvidia Tesla A100 GPU {_SPOT_VMS} {_NLP}", "GPU", "1.32544", _NL),
    _spot(f"{_S} A3 Instance Core {_NLP}", "CPU", "0.01287", _NL),
    _spot(f"{_S} A3 Instance Ram {_NLP}", "RAM", "0.00108", _NL),
    _spot(f"Nvidia H100 80GB GPU {_SPOT_VMS} {_NLP}", "GPU", "4.884254", _NL),
    _spot(f"SSD backed Local Storage {_SPOT_VMS} in Netherlands", "LocalSSD", "0.0421", _NL),
    _spot(f"{_S} G2 Instance Core {_NLP}", "CPU", "0.01378", _NL),
    _spot(f"{_S} G2 Instance Ram {_NLP}", "RAM", "0.001615", _NL),
    _spot(f"Nvidia L4 GPU {_SPOT_VMS} {_NLP}", "GPU", "0.3089", _NL),
    _spot(f"{_S} A2 Instance Core {_SGP}", "CPU", "0.0234", _SG),
    _spot(f"{_S} A2 Instance Ram {_SGP}", "RAM", "0.003135", _SG),
    _spot(f"Nvidia Tesla A100 GPU {_SPOT_VMS} {_SGP}", "GPU", "1.860985", _SG),
    _spot(f"{_S} G2 Instance Core running in Virginia", "CPU", "0.01125", _VA),  # and no RAM: no spot price there
    _spot(f"Nvidia L4 GPU {_SPOT_VMS} running in Virginia", "GPU", "0.2523", _VA),
]


def machine(
    name: str, vcpus: int, mem_gib: float, accelerator: str = "", gpus: int = 0, ssd: int = 0, state: str = ""
) -> dict[str, Any]:
    """A machine type of the compute API."""
    row: dict[str, Any] = {
        "kind": "compute#machineType",
        "id": "563159",
        "name": name,
        "guestCpus": vcpus,
        "memoryMb": int(mem_gib * 1024),
        "maximumPersistentDisksSizeGb": "263168",
        "architecture": "X86_64",
    }
    if accelerator:
        row["accelerators"] = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": gpus}]
    if ssd:
        row["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": ssd}
    if state:
        row["deprecated"] = {"state": state}
    return row


MACHINES: dict[str, Any] = {
    "zones/us-central1-a": {
        "machineTypes": [
            machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1),
            machine("a2-highgpu-8g", 96, 680, "nvidia-tesla-a100", 8),
            machine("a2-ultragpu-1g", 12, 170, "nvidia-a100-80gb", 1, ssd=1),
            machine("a3-highgpu-8g", 208, 1872, "nvidia-h100-80gb", 8, ssd=16),
            machine("a3-megagpu-8g", 208, 1872, "nvidia-h100-mega-80gb", 8, ssd=16),
            machine("g2-standard-4", 4, 16, "nvidia-l4", 1),
            machine("g2-standard-48", 48, 192, "nvidia-l4", 4),
            machine("n1-standard-8", 8, 30),
            machine("e2-standard-8", 8, 32),
            machine("g4-standard-48", 48, 180, "nvidia-rtx-pro-6000", 1),
            machine("a4x-maxgpu-4g-metal", 144, 960, "nvidia-gb300", 4, ssd=32),
            machine("ct5lp-hightpu-4t", 112, 192, "ct5lp", 4),
        ]
    },
    "zones/us-central1-b": {
        "machineTypes": [
            machine("a4-highgpu-8g", 224, 3968, "nvidia-b200", 8, ssd=32),
            machine("g2-standard-4", 4, 16, "nvidia-l4", 1),
            machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1, state="DEPRECATED"),
        ]
    },
    "zones/us-central1-c": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "no results for this scope"}},
    "zones/europe-west4-a": {"machineTypes": [machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1)]},
    "zones/europe-west4-b": {
        "machineTypes": [
            machine("a3-highgpu-8g", 208, 1872, "nvidia-h100-80gb", 8, ssd=16),
            machine("g2-standard-4", 4, 16, "nvidia-l4", 1),
        ]
    },
    "zones/europe-west1-b": {"machineTypes": [machine("g2-standard-4", 4, 16, "nvidia-l4", 1)]},
    "zones/asia-southeast1-c": {
        "machineTypes": [machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1), machine("n1-standard-8", 8, 30)]
    },
    "zones/us-east4-a": {"machineTypes": [machine("g2-standard-4", 4, 16, "nvidia-l4", 1)]},
}


def accelerator(name: str, most: int) -> dict[str, Any]:
    """An accelerator type of the compute API."""
    return {"kind": "compute#acceleratorType", "id": "10019", "name": name, "maximumCardsPerInstance": most}


ACCELERATORS: dict[str, Any] = {
    "zones/us-central1-a": {
        "acceleratorTypes": [
            accelerator("nvidia-tesla-t4", 4),
            accelerator("nvidia-tesla-t4-vws", 4),
            accelerator("nvidia-tesla-v100", 8),
            accelerator("nvidia-tesla-a100", 16),
            accelerator("nvidia-l4", 8),
            accelerator("ct5lp", 8),
        ]
    },
    "zones/us-central1-b": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "no results for this scope"}},
    "zones/asia-southeast1-c": {"acceleratorTypes": [accelerator("nvidia-tesla-t4", 4)]},
}
