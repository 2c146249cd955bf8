"""How do prices travel to a machine without a network? The offers document with machine facts, written and read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from decimal import Decimal

from benchmarks_db.errors import WorkloadError
from pricing.instances import InstanceType
from pricing.offers import BOUGHT, Market, Offer, OfferTable, PriceState
from pricing.quality import Limits
from pricing.sources.base import Observation, PriceSet
from pricing.store import Store, Switch

# What was believed where it was fetched is not doubted again here; only what no machine could cost is.
TRUSTING = Limits(
    on_demand_jump=math.inf, spot_jump=math.inf, on_demand_mass=math.inf, spot_mass=math.inf, shrink=1.0
)  # fmt: skip
FETCHED = (PriceState.LIVE, PriceState.STALE)
MAX_OFFERS = 1_000_000


def offers_document(offers: list[Offer]) -> dict[str, object]:
    """The document of CONTRACT.md."""
    return {"version": "1", "currency": "USD", "offers": [offer.document() for offer in offers]}


def export_document(table: OfferTable, store: Store | None) -> dict[str, object]:
    """All offers with a price, and the machine facts seen live that an older program may lack."""
    offers = [offer for offer in table.offers() if offer.price_usd_per_hour is not None]
    shapes = store.instance_types() if store is not None else []
    return {**offers_document(offers), "instances": [asdict(shape) for shape in shapes]}


def import_document(store: Store, content: object) -> list[Switch]:
    """Switch every fetched (cloud, region, market) of an exported document in, unless a newer one is there.

    Shipped prices in the document are left alone (every machine has its own). Raises WorkloadError naming the field.
    """
    from pricing.quality import judge

    document = _mapping(content, "document")
    if document.get("currency", "USD") != "USD":
        raise WorkloadError("only USD can be read", field="currency", value=document.get("currency"))
    rows = document.get("offers")
    if not isinstance(rows, list) or len(rows) > MAX_OFFERS:
        raise WorkloadError(f"must be a list of at most {MAX_OFFERS} offers", field="offers")
    shapes = document.get("instances") or []
    if not isinstance(shapes, list):
        raise WorkloadError("must be a list", field="instances")
    facts = [_shape(_mapping(row, f"instances[{n}]"), f"instances[{n}]") for n, row in enumerate(shapes)]
    sets = _sets(rows)
    if facts and sets:
        store.put_instance_types(facts, max(s.fetched_at for s in sets))
    done = [
        store.switch(each, judge=lambda f, last, on_demand: judge(f, last, on_demand=on_demand, limits=TRUSTING))
        for each in sorted(sets, key=lambda s: (s.market != Market.ON_DEMAND, s.cloud, s.region))
    ]
    if done:
        store.repack()
    return done


def _sets(rows: list[object]) -> list[PriceSet]:
    groups: dict[tuple[str, str, Market], list[tuple[Observation, str, datetime]]] = defaultdict(list)
    for n, row in enumerate(rows):
        offer = _mapping(row, f"offers[{n}]")
        if offer.get("state") not in list(PriceState):
            raise WorkloadError(
                f"must be one of {', '.join(PriceState)}", field=f"offers[{n}].state", value=offer.get("state")
            )
        if offer["state"] not in FETCHED:
            continue
        seen = _observation(offer, f"offers[{n}]")
        source = _text(offer, "source", f"offers[{n}]")
        groups[seen.cloud, seen.region, seen.market].append((seen, source, _moment(offer, f"offers[{n}]")))
    return [
        PriceSet(
            cloud=cloud,
            region=region,
            market=market,
            source=group[0][1],
            fetched_at=max(moment for _, _, moment in group),
            observations=tuple(seen for seen, _, _ in group),
        )
        for (cloud, region, market), group in groups.items()
    ]


def _observation(offer: Mapping[str, object], field: str) -> Observation:
    market = offer.get("market")
    if market not in BOUGHT:
        raise WorkloadError(f"{market!r} is not a market of a cloud", field=f"{field}.market", value=market)
    price = offer.get("price_usd_per_hour")
    if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price) or price <= 0:
        raise WorkloadError("must be a number above 0", field=f"{field}.price_usd_per_hour", value=price)
    gpus = offer.get("gpus_per_node")
    if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int | float) or not 0 < gpus < 1e6):
        raise WorkloadError("must be a number above 0", field=f"{field}.gpus_per_node", value=gpus)
    return Observation(
        cloud=_text(offer, "cloud", field),
        region=_text(offer, "region", field),
        instance_type=_text(offer, "instance_type", field),
        market=Market(str(market)),
        price_usd_per_hour=Decimal(str(price)),
        zone=_text(offer, "zone", field) if offer.get("zone") is not None else None,
        zone_id=_text(offer, "zone_id", field) if offer.get("zone_id") is not None else None,
        gpu=_text(offer, "gpu", field) if offer.get("gpu") is not None else None,
        gpus_per_node=None if gpus is None else float(gpus),
    )


def _moment(offer: Mapping[str, object], field: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(offer.get("observed_at")))
    except ValueError:
        raise WorkloadError("is not a date and time", field=f"{field}.observed_at") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _mapping(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise WorkloadError("must be an object", field=field)
    return value


def _text(row: Mapping[str, object], key: str, field: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip() or len(value) > 300 or not value.isprintable():
        raise WorkloadError("must be a text", field=f"{field}.{key}", value=value)
    return value


def _shape(row: Mapping[str, object], field: str) -> InstanceType:
    known = {f.name: row[f.name] for f in fields(InstanceType) if f.name in row}
    for name in ("cloud", "instance_type"):
        _text(row, name, field)
    for name, value in known.items():
        number = name in ("gpus", "gpu_mem_gib", "vcpus", "mem_gib", "local_ssd_gb", "network_gbps")
        good = value is None or (isinstance(value, int | float) if number else isinstance(value, str))
        if not good or isinstance(value, bool):
            raise WorkloadError(f"must be a {'number' if number else 'text'}", field=f"{field}.{name}", value=value)
    return InstanceType(**{"gpu": None, "gpus": None, **known})  # type: ignore[arg-type]
