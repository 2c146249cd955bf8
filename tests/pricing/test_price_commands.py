"""`estimator offers` and `estimator prices ...`, in process, against clouds on loopback ports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pricing.offers import Market
from pricing.store import Store
from tests.pricing.conftest import Estimator
from tests.pricing.sets import NOW, hours, price_set
from tests.pricing.sources.clouds import Clouds, aws_refusal, sky
from tests.pricing.sources.loopback import Reply, Request
from tests.pricing.sources.reading import expected
from tests.pricing.sources.world import AS_OF

NAMES = "us-east-1 us-west-2 eu-west-1 us-central1 europe-west4 asia-southeast1 us-east4 eastus westeurope westus3"
REGIONS = [f"--region={name}" for name in NAMES.split()]


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    found = Store(str(home / "prices.db"))
    yield found
    found.close()


@pytest.fixture
def clouds(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clouds]:
    with sky() as up:
        for name, value in up.settings().environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ESTIMATOR_NOW", AS_OF.isoformat())
        yield up


def fetched_offers(text: str) -> dict[tuple[str, str, str, str, str], float]:
    rows = json.loads(text)["offers"]
    return {
        (o["cloud"], o["region"], o["zone"] or "", o["instance_type"], o["market"]): o["price_usd_per_hour"]
        for o in rows
        if o["state"] in ("live", "stale") and o["price_usd_per_hour"] is not None
    }


def test_a_refresh_of_all_clouds_gives_the_right_answers_row_by_row(clouds: Clouds, estimator: Estimator) -> None:
    code, _, told = estimator("prices", "refresh", *REGIONS)
    assert code == 0, told
    found = fetched_offers(estimator("offers", "--all", "--format", "json")[1])
    for key, price in expected().items():
        assert found[key] == pytest.approx(float(price), abs=1.1e-6), key
    assert not {key for key in found.keys() - expected().keys() if "+" not in key[3]}
    code, _, told = estimator("prices", "refresh", *REGIONS)
    assert code == 0
    assert "0 prices changed" in told


def test_one_failing_region_of_each_cloud_is_told_and_the_others_are_fresh(
    clouds: Clouds, estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert estimator("prices", "refresh", *REGIONS)[0] == 0
    plain = {name: getattr(clouds, name).answer for name in ("pricing", "azure", "compute")}

    def pricing(request: Request) -> Reply:
        if b'"us-west-2"' in request.body:
            return aws_refusal("AccessDeniedException")
        return plain["pricing"](request)  # type: ignore[no-any-return]

    def azure(request: Request) -> Reply:
        refused = "westus3" in str(request.query) + request.path
        return Reply(b"gone", 404, "text/plain") if refused else plain["azure"](request)

    def compute(request: Request) -> Reply:
        reply = plain["compute"](request)
        if not request.path.endswith("machineTypes"):
            return reply  # type: ignore[no-any-return]
        listing = json.loads(reply.body)
        silent = [zone for zone in listing["items"] if zone.startswith(("zones/us-east4", "zones/us-central1-a"))]
        listing["items"] = {zone: part for zone, part in listing["items"].items() if zone not in silent}
        listing["unreachables"] = [f"projects/test-project/{zone}" for zone in silent]
        return replace(reply, body=json.dumps(listing).encode())  # type: ignore[no-any-return]

    clouds.pricing.answer = pricing
    clouds.azure.answer = azure
    clouds.compute.answer = compute
    monkeypatch.setenv("ESTIMATOR_NOW", (AS_OF + timedelta(minutes=2)).isoformat())
    code, _, told = estimator("prices", "refresh", *REGIONS, "--deadline", "8s")
    assert code == 1
    assert "aws us-west-2 on-demand" in told
    assert "azure westus3" in told
    assert "gcp us-east4" in told
    assert "partial: gcp us-central1 on-demand: no answer for us-central1-a" in told
    rows = json.loads(estimator("prices", "status", "--format", "json")[1])["sets"]
    states = {(r["cloud"], r["region"], r["market"]): (r["state"], r["why"]) for r in rows}
    assert states["aws", "us-west-2", "on-demand"][0] == "stale"
    assert states["aws", "us-west-2", "spot"][0] == "live"
    assert states["azure", "westus3", "on-demand"][0] == "stale"
    assert states["azure", "eastus", "on-demand"][0] == "live"
    assert states["gcp", "us-east4", "on-demand"][0] == "stale"
    assert states["gcp", "us-central1", "on-demand"][0] == "live"
    assert "prices kept from before" in states["gcp", "us-central1", "on-demand"][1]
    assert states["gcp", "europe-west4", "spot"] == ("live", "")
    found = fetched_offers(estimator("offers", "--all", "--format", "json")[1])
    for key, price in expected().items():
        assert found[key] == pytest.approx(float(price), abs=1.1e-6), key


def test_a_cloud_without_credentials_is_skipped_with_what_is_missing(
    clouds: Clouds, estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ESTIMATOR_GCP_PROJECT")
    monkeypatch.delenv("ESTIMATOR_GCP_COMPUTE_ENDPOINT")
    monkeypatch.delenv("ESTIMATOR_GCP_BILLING_ENDPOINT")
    code, _, told = estimator("prices", "refresh", "--cloud", "azure", "--region", "eastus")
    assert code == 0, told
    code, _, told = estimator("prices", "refresh", "--cloud", "gcp")
    assert code == 1
    assert "skipped: gcp" in told


def test_offers_are_the_documents_of_the_contract_and_all_adds_what_has_no_price(estimator: Estimator) -> None:
    code, out, _ = estimator("offers", "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["version"], document["currency"]) == ("1", "USD")
    assert all(o["price_usd_per_hour"] for o in document["offers"])
    every = json.loads(estimator("offers", "--all", "--format", "json")[1])["offers"]
    assert [o for o in every if o["state"] == "unpriced" and o["price_usd_per_hour"] is None]
    assert len(every) > len(document["offers"])


def test_offers_can_be_narrowed_by_cloud_region_gpu_and_market(estimator: Estimator) -> None:
    out = estimator("offers", "--cloud", "Amazon", "--region", "us-*", "--gpu", "H100:8", "--market", "spot",
                    "--format", "json")[1]  # fmt: skip
    rows = json.loads(out)["offers"]
    assert rows
    for row in rows:
        assert (row["cloud"], row["market"], row["gpus_per_node"]) == ("aws", "spot", 8.0)
        assert row["region"].startswith("us-")
        assert row["gpu"].startswith("H100")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["offers", "--cloud", "azur"], "azure"),
        (["offers", "--region", "us-esat-1"], "us-east-1"),
        (["offers", "--market", "sport"], "spot"),
        (["offers", "--instance", "p5.48xlrge"], "p5.48xlarge"),
        (["offers", "--as-of", "yesterday"], "not a date"),
        (["prices", "diff", "2026-09-01", "soon"], "not a date"),
        (["offers", "--as-of", "2030-01-01"], "lies ahead"),
        (["prices", "diff", "2026-09-01", "tomorrow"], "DATE2"),
        (["prices", "history", "p5.48xlrge"], "p5.48xlarge"),
        (["prices", "refresh", "--market", "own"], "on-demand"),
        (["prices", "refresh", "--deadline", "-3m"], "--deadline"),
        (["prices", "refresh", "--watch", "1s"], "minute"),
        (["prices", "refresh", "--offline"], "offline"),
        (["prices", "refresh", "--cloud", "aws", "--region", "moon-*"], "moon-*"),
        (["prices", "import", "/nonexistent.json"], "cannot be read"),
        (["prices", "show", "H1000"], "H100"),
    ],
)
def test_bad_input_is_named_with_the_nearest_and_exits_2(estimator: Estimator, words: list[str], told: str) -> None:
    code, out, errors = estimator(*words)
    assert (code, out) == (2, "")
    assert told in errors


def test_max_age_that_leaves_nothing_exits_4(estimator: Estimator) -> None:
    code, out, told = estimator("offers", "--max-age", "24h")
    assert (code, out) == (4, "")
    assert "no price is at most" in told


def test_show_lists_a_gpu_or_an_instance_cheapest_first(estimator: Estimator, store: Store) -> None:
    store.switch(price_set({"p5.48xlarge@us-east-1a": 30.0, "p5.48xlarge@us-east-1b": 20.0}, market=Market.SPOT))
    for what in ("H100:8", "p5.48xlarge"):
        rows = json.loads(estimator("prices", "show", what, "--region", "us-east-1", "--market", "spot", "--format",
                                    "json")[1])["offers"]  # fmt: skip
        assert [r["price_usd_per_hour"] for r in rows] == [20.0, 30.0]
        assert {r["state"] for r in rows} == {"live"}


def test_stale_prices_are_warned_of_on_standard_error(
    estimator: Estimator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.switch(price_set({"p5.48xlarge@us-east-1a": 30.0}, market=Market.SPOT))
    monkeypatch.setenv("ESTIMATOR_NOW", hours(3).isoformat())
    code, out, told = estimator("offers", "--format", "json")
    assert code == 0
    assert json.loads(out)
    assert "1 spot prices of aws are stale: the oldest is 3.0 h old" in told
    monkeypatch.setenv("ESTIMATOR_FRESH_SPOT_HOURS", "4")
    assert "stale" not in estimator("offers", "--format", "json")[2]


def test_status_tells_what_is_stored_shipped_and_rejected(estimator: Estimator, store: Store) -> None:
    code, out, told = estimator("prices", "status")
    assert code == 0
    assert "snapshot" in out
    assert "none yet" in told
    store.switch(price_set({"a": -1, "b": 2}))
    rows = json.loads(estimator("prices", "status", "--cloud", "aws", "--format", "json")[1])["sets"]
    assert [r["state"] for r in rows] == ["live", "snapshot", "snapshot"]
    rejected = json.loads(estimator("prices", "status", "--rejected", "--format", "json")[1])["rejected"]
    assert [(r["instance_type"], r["reason"]) for r in rejected] == [("a", "negative price")]


def test_history_prints_quantiles_and_draws_a_plot(estimator: Estimator, store: Store, tmp_path: Path) -> None:
    for hour, usd in ((-30, 20.0), (-10, 30.0), (-1, 25.0)):
        store.switch(price_set({"p5.48xlarge@us-east-1a": usd}, market=Market.SPOT, at=hours(hour)))
    picture = tmp_path / "p5.svg"
    code, out, _ = estimator("prices", "history", "p5.48xlarge", "--days", "2", "--plot", str(picture), "--format",
                             "json")  # fmt: skip
    assert code == 0
    (series,) = json.loads(out)["history"]
    assert (series["min"], series["median"], series["max"], series["changes"]) == (20.0, 20.0, 30.0, 2)
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "us-east-1a" in drawn
    code, out, told = estimator("prices", "history", "p5.48xlarge", "--days", "0.01", "--market", "on-demand")
    assert code == 0
    assert "prices refresh" in told


def test_diff_lists_changes_and_exits_1_beyond_the_limit(estimator: Estimator, store: Store) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0, "g5.xlarge": 1.0}, at=hours(-30)))
    store.switch(price_set({"p5.48xlarge": 55.0, "g5.xlarge": 1.0}, at=hours(-5)))
    dates = [hours(h).isoformat() for h in (-20, -1)]
    code, out, _ = estimator("prices", "diff", *dates, "--format", "json")
    assert code == 0
    (change,) = json.loads(out)["changes"]
    assert (change["instance_type"], change["before"], change["after"]) == ("p5.48xlarge", 50.0, 55.0)
    assert change["percent"] == pytest.approx(10)
    assert estimator("prices", "diff", *dates, "--limit", "5")[0] == 1
    assert estimator("prices", "diff", *dates, "--limit", "15")[0] == 0


def test_what_one_machine_exports_another_imports(
    estimator: Estimator, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0}))
    store.switch(price_set({"p5.48xlarge@us-east-1a": 20.0}, market=Market.SPOT))
    file = tmp_path / "prices.json"
    assert estimator("prices", "export", "-o", str(file))[0] == 0
    there = estimator("offers", "--all", "--format", "json")[1]
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path / "other"))
    code, _, told = estimator("prices", "import", str(file))
    assert code == 0
    assert "2 sets read" in told
    assert json.loads(estimator("offers", "--all", "--format", "json")[1]) == json.loads(there)
    assert estimator("prices", "import", str(file))[0] == 0


@pytest.mark.parametrize("how", ["csv", "markdown", "table"])
def test_other_formats_carry_the_same_rows(estimator: Estimator, how: str) -> None:
    code, out, _ = estimator("offers", "--cloud", "aws", "--region", "us-west-1", "--format", how)
    assert code == 0
    assert "us-west-1" in out
    if how == "csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(out)))
        assert all(float(r["price_usd_per_hour"]) > 0 for r in rows)
        assert all(datetime.fromisoformat(r["observed_at"]).astimezone(UTC) < NOW for r in rows)


NEGOTIATED = """
discounts:
  - {name: EDP, cloud: aws, percent: 12}
blocks:
  - {name: b, cloud: aws, term: 14d, instance_types: [p5.48xlarge], usd_per_hour: 31}
"""


def test_negotiated_prices_come_from_a_flag_a_variable_or_the_data_directory(
    estimator: Estimator, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("prices", "show", "p5.48xlarge", "--region", "us-east-1", "--market", "on-demand", "--format", "json")

    def price(*more: str) -> tuple[float, float | None]:
        rows = json.loads(estimator(*words, *more)[1])["offers"]
        return rows[0]["price_usd_per_hour"], rows[0]["list_price_usd_per_hour"]

    file = tmp_path / "edp.yaml"
    file.write_text(NEGOTIATED, encoding="utf-8")
    assert price() == (55.04, None)
    reduced = (pytest.approx(55.04 * 0.88), 55.04)
    assert price("--overrides", str(file)) == reduced
    monkeypatch.setenv("ESTIMATOR_OVERRIDES", str(file))
    assert price() == reduced
    assert price("--overrides", "none") == (55.04, None)
    monkeypatch.delenv("ESTIMATOR_OVERRIDES")
    file.rename(home / "overrides.yaml")
    assert price() == reduced
    table = estimator(*words[:-2], "--market", "block")[1]
    assert "prepaid rate (b)" in table
    assert "10,416" in table  # 14 days x 24 h x 31 USD


def test_an_exported_price_is_the_list_price(estimator: Estimator, home: Path, store: Store) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0}))
    (home / "overrides.yaml").write_text(NEGOTIATED, encoding="utf-8")
    rows = json.loads(estimator("prices", "export", "--region", "us-east-1")[1])["offers"]
    assert {o["price_usd_per_hour"] for o in rows if o["instance_type"] == "p5.48xlarge" and o["state"] == "live"} == {
        50
    }
    assert {o["market"] for o in rows} == {"on-demand", "spot"}


def test_a_plan_and_an_estimate_use_negotiated_prices(estimator: Estimator, tmp_path: Path) -> None:
    file = tmp_path / "edp.yaml"
    file.write_text("discounts:\n  - {name: EDP, cloud: aws, percent: 50}\n", encoding="utf-8")
    job = ("--model", "resnet50", "--images", "1M", "--gpu", "H100:8", "--cloud", "aws", "--market", "on-demand",
           "--format", "json")  # fmt: skip
    plain, reduced = (json.loads(estimator("plan", *job, *more)[1])["plans"][0]["price"]
                      for more in ((), ("--overrides", str(file))))  # fmt: skip
    assert reduced["usd_per_hour"] == pytest.approx(plain["usd_per_hour"] / 2)
    assert reduced["source"].endswith("negotiated -50% (EDP)")
    file.write_text("discounts:\n  - {name: EDP, cloud: aws, percent: much}\n", encoding="utf-8")
    code, out, told = estimator("plan", *job, "--overrides", str(file))
    assert (code, out) == (2, "")
    assert "edp.yaml, line 2" in told
    assert "discounts[0].percent" in told
