"""The shipped catalogue and prices: whole, canonical, dated, and packed as the readable files say."""

import csv
import math
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks_db.gpus import gpus
from pricing import snapshot
from pricing.instances import ACCELERATOR_KINDS, instance_types
from pricing.offers import TEXT_COLUMNS, Market, PriceState, current_offers, listed, usable
from pricing.regions import regions

NOW = datetime(2026, 9, 1, tzinfo=UTC)
ROOT = Path(snapshot.__file__).parent.parent


def rows(name: str) -> list[dict[str, str]]:
    with (snapshot.DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_instance_type_has_a_canonical_gpu_sane_figures_and_a_source() -> None:
    for shape in instance_types().values():
        assert shape.gpu in gpus(), shape
        assert shape.accelerator in ACCELERATOR_KINDS
        assert shape.accelerator == gpus()[shape.gpu].kind
        assert shape.gpus is not None
        assert 0 < shape.gpus <= 16
        for figure in (shape.gpu_mem_gib, shape.vcpus, shape.mem_gib, shape.local_ssd_gb, shape.network_gbps):
            assert figure is None or 0 < figure < 100_000, shape
        assert shape.source
        assert shape.rdma in ("", "efa", "infiniband", "roce", "gpudirect-tcpx")
        assert shape.gpu_interconnect in (None, "pcie", "nvlink", "nvswitch", "infinity-fabric")


def test_every_price_is_positive_dated_sourced_and_of_a_known_type_and_region() -> None:
    for row in rows("prices_snapshot.csv"):
        assert (row["cloud"], row["instance_type"]) in instance_types(), row
        assert (row["cloud"], row["region"]) in regions(), row
        assert 0 < float(row["usd_per_hour"]) < 1000, row
        assert datetime.fromisoformat(row["observed_at"]).tzinfo is not None
        assert row["source"]
        assert row["market"] in ("on-demand", "spot")
        assert not (row["zone"] and row["zone_id"])
        assert not row["zone"].startswith(("use", "usw", "eu")) or "-az" not in row["zone"]


def test_each_place_type_and_market_has_one_current_price() -> None:
    keys = Counter(tuple(r[c] for c in ("cloud", "region", "zone", "zone_id", "instance_type", "market"))
                   for r in rows("prices_snapshot.csv"))  # fmt: skip
    assert max(keys.values()) == 1


def test_spot_never_costs_more_than_on_demand_of_the_same_date_beyond_rounding() -> None:
    asked = {}
    for row in rows("prices_snapshot.csv"):
        if row["market"] == "on-demand":
            asked[row["cloud"], row["region"], row["instance_type"]] = float(row["usd_per_hour"])
    for row in rows("prices_snapshot.csv"):
        on_demand = asked.get((row["cloud"], row["region"], row["instance_type"]))
        if row["market"] == "spot" and on_demand:
            assert float(row["usd_per_hour"]) <= on_demand * 1.0001, row


def test_attached_gpus_are_named_as_google_names_them() -> None:
    names = {name for cloud, name in instance_types() if cloud == "gcp" and name.startswith("n1-")}
    assert "n1-standard-32+4*nvidia-tesla-t4" in names
    assert all("*nvidia-tesla-" in name for name in names)


def test_the_packed_file_holds_what_the_readable_files_say() -> None:
    assert snapshot.packed_fingerprint() == snapshot.fingerprint(), "run scripts/refresh_snapshot.py --pack"
    assert snapshot.PACK.read_bytes() == snapshot.pack_table(snapshot.build_table())


def test_a_table_edited_after_packing_is_read_from_its_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.snapshot_table.cache_clear()
    monkeypatch.setattr(snapshot, "_sizes", lambda: [0, 0])
    built = snapshot.snapshot_table()
    snapshot.snapshot_table.cache_clear()
    monkeypatch.undo()
    packed = snapshot.snapshot_table()
    assert built.offers() == packed.offers()


def test_a_plan_reads_the_snapshot_without_csv_sqlalchemy_or_pydantic() -> None:
    code = (
        "import sys; from datetime import datetime, UTC; from pricing.offers import current_offers;"
        "t = current_offers(now=datetime(2026, 9, 1, tzinfo=UTC)); assert len(t) > 2000;"
        "heavy = {'csv', 'sqlalchemy', 'pydantic', 'sqlite3', 'httpx', 'boto3', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_types_without_a_price_are_unpriced_and_never_zero() -> None:
    table = current_offers(now=NOW, accelerators="any")
    unpriced = [o for o in table.offers() if o.price_usd_per_hour is None]
    assert {"a3-edgegpu-8g", "trn2.48xlarge", "p6e-gb200.36xlarge"} <= {o.instance_type for o in unpriced}
    assert all(o.state is PriceState.UNPRICED and not o.ranked for o in unpriced)
    p5e = [o for o in unpriced if o.instance_type == "p5e.48xlarge"]
    assert p5e
    assert all(o.market is Market.ON_DEMAND and o.region for o in p5e)
    assert all(o.price_usd_per_hour and o.state is PriceState.SNAPSHOT for o in listed(table))


def test_prices_a_year_behind_their_cloud_and_market_are_listed_and_not_ranked() -> None:
    offers = current_offers(now=NOW).offers()
    old = [o for o in offers if o.cloud == "azure" and o.market is Market.SPOT and o.region == "eastus"]
    assert old
    assert all(not o.ranked and "days older" in o.note for o in old)
    young = [o for o in offers if o.cloud == "azure" and o.market is Market.SPOT and o.region == "westeurope"]
    assert young
    assert all(o.ranked for o in young)
    p100 = [o for o in offers if o.gpu == "P100-PCIE-16GB" and o.market is Market.ON_DEMAND and o.cloud == "gcp"]
    assert p100
    assert not any(o.ranked for o in p100)


def test_trainium_is_left_out_unless_any_accelerator_is_asked_for() -> None:
    assert not [o for o in current_offers(now=NOW).offers() if o.gpu and o.gpu.startswith("Trainium")]
    anything = current_offers(now=NOW, accelerators="any").offers()
    assert [o for o in anything if o.instance_type == "trn1.32xlarge" and o.price_usd_per_hour]


def test_aws_zone_ids_are_zone_ids_and_on_demand_is_regional() -> None:
    aws = [o for o in current_offers(now=NOW).offers() if o.cloud == "aws"]
    assert not [o for o in aws if o.zone]
    assert [o for o in aws if o.zone_id == "use1-az1" and o.market is Market.SPOT]
    plain = [o for o in aws if o.market is Market.ON_DEMAND and o.zone_id]
    assert all("-atl" in (o.zone_id or "") for o in plain)  # only Local Zones have on-demand prices of their own
    p5 = [o for o in aws if (o.instance_type, o.region, o.market) == ("p5.48xlarge", "us-east-1", Market.ON_DEMAND)]
    assert [o.price_usd_per_hour for o in p5 if not o.zone_id] == [55.04]


def test_the_table_and_its_offers_agree_in_every_column() -> None:
    table = current_offers(now=NOW)
    assert usable(table) == sum(o.ranked for o in table.offers())
    for n, offer in enumerate(table.offers()):
        for column in TEXT_COLUMNS:
            assert (getattr(offer, column) or "") == table.column(column)[n]
        assert offer.gpu == (table.gpu[n] or None)
        assert offer.gpus_per_node == table.gpus_per_node[n]
        assert math.isnan(table.usd_per_hour[n]) == (offer.price_usd_per_hour is None)


def test_the_document_of_an_offer_has_the_keys_of_the_contract() -> None:
    document = listed(current_offers(now=NOW))[0].document()
    assert list(document)[:12] == [
        "cloud", "region", "zone", "zone_id", "instance_type", "market", "gpu", "gpus_per_node",
        "price_usd_per_hour", "source", "observed_at", "state",
    ]  # fmt: skip
    assert str(document["observed_at"]).endswith("Z")
