"""Which prices are shipped with the product? The snapshot, packed so that a plan need not parse it.

The readable truth is `data/prices_snapshot.csv` and `data/instances.csv`; `data/snapshot.pack` holds the same by
column (see `pricing.packing`). Its head also carries a fingerprint of the two files; a test fails when it is stale,
and the sizes of the files are compared at every load, so that an edited table is read from its CSV until it is
packed again (`scripts/refresh_snapshot.py --pack`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pricing.instances import instance_types
from pricing.offers import (
    TEXT_COLUMNS,
    TYPE_NUMBERS,
    TYPE_TEXTS,
    InstanceTable,
    Market,
    Offer,
    OfferTable,
    PriceState,
    table_of,
)
from pricing.packing import pack, unpack

DATA = Path(__file__).parent / "data"
SOURCES = ("instances.csv", "prices_snapshot.csv")
PACK = DATA / "snapshot.pack"
TOO_OLD_DAYS = 365  # behind the newest of the same cloud and market: listed, not ranked


def snapshot_offers() -> list[Offer]:
    """The shipped prices read from the CSV, then what has no price, said so.

    Unpriced: every type without any price, and the on-demand market where a region has only a spot price of a type.
    """
    import csv

    types = instance_types()
    with (DATA / "prices_snapshot.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    newest: dict[tuple[str, str], datetime] = {}
    for row in rows:
        group = (row["cloud"], row["market"])
        seen = datetime.fromisoformat(row["observed_at"])
        newest[group] = max(newest.get(group, seen), seen)
    found = []
    priced = set()
    for row in rows:
        key = (row["cloud"], row["instance_type"])
        seen = datetime.fromisoformat(row["observed_at"])
        behind = (newest[row["cloud"], row["market"]] - seen).days
        old = behind > TOO_OLD_DAYS
        priced.add(key)
        found.append(
            Offer(
                cloud=row["cloud"],
                region=row["region"],
                zone=row["zone"] or None,
                zone_id=row["zone_id"] or None,
                instance_type=row["instance_type"],
                market=Market(row["market"]),
                gpu=types[key].gpu,
                gpus_per_node=types[key].gpus,
                price_usd_per_hour=float(row["usd_per_hour"]),
                source=row["source"],
                observed_at=seen,
                state=PriceState.SNAPSHOT,
                ranked=not old,
                note=f"{behind} days older than the newest {row['market']} price of {row['cloud']}" if old else "",
            )
        )
    bought = {(o.cloud, o.region, o.instance_type) for o in found if o.market is Market.ON_DEMAND}
    spot_only = {(o.cloud, o.region, o.instance_type) for o in found} - bought
    nowhere = {(cloud, None, name) for cloud, name in types if (cloud, name) not in priced}
    for cloud, region, name in sorted(spot_only | nowhere, key=lambda key: (key[0], key[1] or "", key[2])):
        shape = types[cloud, name]
        found.append(
            Offer(
                cloud=cloud,
                region=region,
                zone=None,
                zone_id=None,
                instance_type=name,
                market=Market.ON_DEMAND,
                gpu=shape.gpu,
                gpus_per_node=shape.gpus,
                price_usd_per_hour=None,
                source=shape.source,
                observed_at=None,
                state=PriceState.UNPRICED,
                ranked=False,
                note="no on-demand price known" if region else "no public price known",
            )
        )
    return found


def build_table() -> OfferTable:
    """The snapshot's table, from the CSV files."""
    return table_of(snapshot_offers(), instance_types().values())


def fingerprint() -> str:
    """What the packed file was made from: a hash over the readable files."""
    import hashlib

    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((DATA / name).read_bytes())
    return digest.hexdigest()


def _sizes() -> list[int]:
    return [(DATA / name).stat().st_size for name in SOURCES]


def pack_table(table: OfferTable) -> bytes:
    """The snapshot's table as the bytes of the packed file."""
    head = {
        "fingerprint": fingerprint(),
        "sizes": _sizes(),
        "names": dict(table.names),
        "types": dict(table.types.texts),
    }
    arrays: dict[str, NDArray[Any]] = {f"codes.{name}": table.codes[name] for name in TEXT_COLUMNS}
    arrays |= {f"types.{name}": table.types.numbers[name] for name in TYPE_NUMBERS}
    arrays |= {n: getattr(table, n) for n in ("usd_per_hour", "observed", "ranked", "type_index")}
    return pack(head, arrays)


def packed_fingerprint() -> str:
    """The fingerprint in the packed file."""
    head, _ = unpack(PACK.read_bytes())
    return str(head["fingerprint"])


@lru_cache(maxsize=1)
def snapshot_table() -> OfferTable:
    """The shipped snapshot: about 3,000 offers, unpacked in a few milliseconds."""
    try:
        head, arrays = unpack(PACK.read_bytes())
    except (OSError, ValueError):
        return build_table()
    if head["sizes"] != _sizes():
        return build_table()
    return OfferTable(
        codes={name: arrays[f"codes.{name}"] for name in TEXT_COLUMNS},
        names={name: tuple(head["names"][name]) for name in TEXT_COLUMNS},
        usd_per_hour=arrays["usd_per_hour"],
        observed=arrays["observed"],
        ranked=arrays["ranked"],
        type_index=arrays["type_index"],
        types=InstanceTable(
            texts={name: tuple(head["types"][name]) for name in TYPE_TEXTS},
            numbers={name: arrays[f"types.{name}"] for name in TYPE_NUMBERS},
        ),
    )


def snapshot_dates() -> dict[tuple[str, str], tuple[datetime, datetime]]:
    """The oldest and the newest observation by (cloud, market)."""
    found: dict[tuple[str, str], tuple[datetime, datetime]] = {}
    table = snapshot_table()
    for cloud, market, seen in zip(table.cloud, table.market, table.observed, strict=True):
        if not np.isnan(seen):
            moment = datetime.fromtimestamp(float(seen), UTC)
            low, high = found.get((cloud, market), (moment, moment))
            found[cloud, market] = (min(low, moment), max(high, moment))
    return found
