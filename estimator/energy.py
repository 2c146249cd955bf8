"""How much electricity does a run take, and how much CO2e does the grid emit for it? Off unless `bill.energy` asks.

    kWh     = GPU-hours x board power x node factor x PUE
    kg CO2e = kWh x grid intensity of the region / 1000

The node factor is what a whole 8x H100 node draws in training over the power limits of its GPUs: 76% (50 to 90%) of
10.2 kW over 5.6 kW. Intensities are location-based yearly averages (providers claim 0 market-based). Sources:
`benchmarks_db` run facts, topic `power_carbon`; each document carries the ones it used.
"""

from __future__ import annotations

from benchmarks_db import run_facts
from benchmarks_db.gpus import gpu as gpu_facts
from estimator.documents import EnergyDocument, Spread

NODE_FACTOR = Spread(low=0.50 * 10.2 / 5.6, typical=0.76 * 10.2 / 5.6, high=0.90 * 10.2 / 5.6)


def energy_of(gpu: str, gpu_hours: float, cloud: str, region: str | None) -> EnergyDocument | None:
    """Energy and emissions of a run; None where the board power of the GPU is not known.

    An own machine counts no facility overhead (nobody knows its PUE) and no emissions.
    """
    watts = gpu_facts(gpu).tdp_w
    if watts is None:
        return None
    sources = ["8x H100 node power in training: arXiv:2506.14551, 76% of 10.2 kW"]
    pue, said = _first("PUE by region", cloud, region) or _first("PUE, fleet", cloud, None) or (1.0, "")
    if said:
        sources.append(f"PUE {pue:g}: {said}")
    kwh = gpu_hours * watts / 1000.0 * pue
    energy = Spread(low=kwh * NODE_FACTOR.low, typical=kwh * NODE_FACTOR.typical, high=kwh * NODE_FACTOR.high)
    grid = _first("grid carbon intensity, location based", cloud, region) if region else None
    emitted = None
    if grid is not None:
        sources.append(f"{grid[0]:g} gCO2e/kWh: {grid[1]}")
        emitted = Spread(**{name: value * grid[0] / 1000.0 for name, value in energy.model_dump().items()})
    return EnergyDocument(kwh=energy, kg_co2e=emitted, sources=sources)


def _first(item: str, cloud: str, region: str | None) -> tuple[float, str] | None:
    """The value and source of the first fact of that name for a cloud (and region)."""
    for fact in run_facts.find("power_carbon", item, cloud=cloud, region=region):
        if fact.value is not None:
            return fact.value, f"{fact.source}, {fact.date}"
    return None
