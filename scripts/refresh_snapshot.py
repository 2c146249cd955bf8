"""Bring a folder of collected price tables over into `pricing/data`, and pack it.

usage: python scripts/refresh_snapshot.py FOLDER     read FOLDER/{instances,prices_snapshot,spot_advisor_aws}.csv
       python scripts/refresh_snapshot.py --pack     only rebuild pricing/data/snapshot.pack

Rules, the same for every refresh: the newest price of each (cloud, region, zone, instance type, market) wins, each
market with its own date; GCP machines with attached GPUs are written as Google names them
(`n1-standard-32+4*nvidia-tesla-t4`); AWS zone ids (`use1-az1`) go to `zone_id`; AWS on-demand is regional, so that
its rows lose the zone they were listed under, but for Local Zones, which have prices of their own; a cell that is
empty stays no price; a price of 0 is refused.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks_db import gpus as gpu_table
from pricing import snapshot

DATA = Path(__file__).resolve().parent.parent / "pricing" / "data"
ATTACHED = re.compile(r"(?P<host>n1-[a-z]+-\d+)\+(?P<card>[A-Z0-9]+)x(?P<count>\d+)")
ZONE_ID = re.compile(r"[a-z]+\d(-[a-z]+\d)?-az\d+")
LOCAL_ZONE_ID = re.compile(r"[a-z]+\d-[a-z]+\d-az\d+")
INSTANCE_COLUMNS = (
    "cloud", "instance_type", "family", "accelerator", "gpu", "gpus", "gpu_mem_gib", "vcpus", "mem_gib",
    "local_ssd_gb", "network_gbps", "rdma", "gpu_interconnect", "notes", "source",
)  # fmt: skip
PRICE_COLUMNS = (
    "cloud", "region", "zone", "zone_id", "instance_type", "market", "usd_per_hour", "observed_at", "source",
)  # fmt: skip
ADVISOR_COLUMNS = (
    "cloud", "region", "instance_type", "reclaimed_low_pct", "reclaimed_high_pct", "savings_pct", "observed_at",
    "source",
)  # fmt: skip


def machine_name(cloud: str, name: str) -> str:
    """`n1-standard-32+T4x4` -> `n1-standard-32+4*nvidia-tesla-t4`; other names as they are."""
    match = ATTACHED.fullmatch(name) if cloud == "gcp" else None
    if match is None:
        return name
    return f"{match['host']}+{match['count']}*nvidia-tesla-{match['card'].lower()}"


def gpu_name(name: str) -> str:
    """The canonical name of benchmarks_db."""
    return gpu_table.resolve_gpu(name).gpu.name


def moment(date: str) -> str:
    """A date as midnight UTC."""
    return f"{date}T00:00:00Z"


def instances(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """The catalogue in the project's columns."""
    found = []
    for row in rows:
        name = gpu_name(row["gpu"])
        found.append(
            {column: row.get(column, "") for column in INSTANCE_COLUMNS}
            | {
                "instance_type": machine_name(row["cloud"], row["instance_type"]),
                "accelerator": gpu_table.gpu(name).kind,
                "gpu": name,
                "notes": row["generation_note"],
            }
        )
    return sorted(found, key=lambda r: (r["cloud"], r["instance_type"]))


def prices(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One row a price: the newest of each key."""
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        zone_id = row["zone"] if row["cloud"] == "aws" and ZONE_ID.fullmatch(row["zone"]) else ""
        zone = "" if zone_id else row["zone"]
        for market, column in (("on-demand", "on_demand_usd_per_hour"), ("spot", "spot_usd_per_hour")):
            text = row[column]
            if not text:
                continue
            if float(text) <= 0:
                raise SystemExit(f"refusing a price of {text}: {row}")
            regional = row["cloud"] == "aws" and market == "on-demand" and not LOCAL_ZONE_ID.fullmatch(zone_id)
            name = machine_name(row["cloud"], row["instance_type"])
            place = ("", "") if regional else (zone, zone_id)
            key = (row["cloud"], row["region"], *place, name, market)
            if key not in newest or newest[key]["observed_at"] < moment(row["observed"]):
                values = (*key, text, moment(row["observed"]), row["source"])
                newest[key] = dict(zip(PRICE_COLUMNS, values, strict=True))
    return [newest[key] for key in sorted(newest)]


def advisor(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Buckets as bounds in percent of instances reclaimed in the trailing month."""
    found = []
    for row in rows:
        text = row["interruption_bucket"]
        low, high = (
            ("0", text[1:-1]) if text[0] == "<" else (text[1:-1], "") if text[0] == ">" else text[:-1].split("-")
        )
        values = ("aws", row["region"], row["instance_type"], low, high, row["savings_pct"], moment(row["observed"]),
                  row["source"])  # fmt: skip
        found.append(dict(zip(ADVISOR_COLUMNS, values, strict=True)))
    return sorted(found, key=lambda r: (r["region"], r["instance_type"]))


def read(path: Path) -> list[dict[str, str]]:
    """A CSV file as rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
    """Rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{path.name}: {len(rows)} rows")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    if sys.argv[1] != "--pack":
        folder = Path(sys.argv[1])
        write(DATA / "instances.csv", INSTANCE_COLUMNS, instances(read(folder / "instances.csv")))
        write(DATA / "prices_snapshot.csv", PRICE_COLUMNS, prices(read(folder / "prices_snapshot.csv")))
        write(DATA / "spot_advisor_aws.csv", ADVISOR_COLUMNS, advisor(read(folder / "spot_advisor_aws.csv")))
    snapshot.PACK.write_bytes(snapshot.pack_table(snapshot.build_table()))
    for (cloud, market), (low, high) in sorted(snapshot.snapshot_dates().items()):
        print(f"{cloud} {market}: {low:%Y-%m-%d} .. {high:%Y-%m-%d}")


if __name__ == "__main__":
    main()
