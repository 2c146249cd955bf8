"""Smaller clouds through the real library `gpuhunt`, its tables served on a loopback port in its own format."""

from __future__ import annotations

import gc
import io
import logging
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from pricing.offers import Freshness, Market
from pricing.quality import LastGood, judge
from pricing.refresh import refresh
from pricing.sources import gpuhunt as source
from pricing.sources.base import (
    Failure,
    FailureReason,
    Fetched,
    PriceSet,
    SourceSettings,
    Wanted,
    settings_from_environment,
)
from pricing.store import Store
from tests.pricing.sources.loopback import Reply, Request, Wire

library = pytest.importorskip("gpuhunt", reason="needs the extra gpuhunt")
pytestmark = [  # the library leaves refused downloads to the collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NOW = datetime(2026, 8, 12, 9, tzinfo=UTC)
HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data"  # noqa: E501
LAMBDA = """
gpu_8x_h100_sxm5,us-east-1,23.92,208,1800.0,8,H100,80.0,False,22528.0,nvidia,,x86,{}
gpu_1x_h100_pcie,us-west-3,2.49,26,200.0,1,H100,80.0,False,1024.0,nvidia,,x86,{}
gpu_1x_a10,us-west-3,0.75,30,200.0,1,A10,24.0,False,1434.0,nvidia,,x86,{}
cpu_4x_general,us-west-3,0.08,4,16.0,0,,,False,100.0,,,x86,{}
gpu_1x_z900,us-west-3,9.00,30,200.0,1,Z900,384.0,False,1434.0,nvidia,,x86,{}
gpu_free,us-west-3,0.0,30,200.0,1,A10,24.0,False,1434.0,nvidia,,x86,{}
gpu_odd,us-west-3,cheap,30,200.0,1,A10,24.0,False,1434.0,nvidia,,x86,{}
gpu_hidden,us-west-3,0.10,30,200.0,1,A10,24.0,False,1434.0,nvidia,some-flag,x86,{}
"""
RUNPOD = """
NVIDIA H100 80GB HBM3,EU-RO-1,2.79,16,125.0,1,H100,80.0,False,,nvidia,,x86,{}
NVIDIA H100 80GB HBM3,EU-RO-1,1.75,16,125.0,1,H100,80.0,True,,nvidia,,x86,{}
AMD Instinct MI300X OAM,EU-RO-1,2.49,24,283.0,1,MI300X,192.0,False,,amd,,x86,{}
v5litepod-8,EU-RO-1,2.49,24,283.0,8,v5litepod,16.0,False,,google,,x86,{}
"""
TABLES = {"lambdalabs": LAMBDA, "runpod": RUNPOD}


def catalogues(request: Request) -> Reply:
    """The published layout: PROVIDER/version, PROVIDER/VERSION/catalog.zip."""
    provider, _, rest = request.path.strip("/").partition("/")
    if provider not in TABLES:
        return Reply(b"no such key", 404, "application/xml")
    if rest == "version":
        return Reply(b"20260811\n", 200, "text/plain")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"{provider}.csv", HEAD + TABLES[provider])
    return Reply(packed.getvalue(), 200, "application/zip")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Wire]:
    caplog.set_level(logging.CRITICAL, "gpuhunt")  # it tells of every provider that is not published
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    with Wire(catalogues) as up:
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", up.url)
        yield up
    gc.collect()  # here, where its warnings are expected


def settings(**more: float) -> SourceSettings:
    return settings_from_environment({}, lambda: NOW, **more)


def everything(provider: str, wanted: Wanted = Wanted(), **more: float) -> list[Fetched]:
    (scope,) = [s for s in source.scopes(wanted, settings(**more)) if s.cloud == provider]
    return list(source.fetch(scope, settings(**more)))


def sets(found: list[Fetched]) -> dict[tuple[str, Market], PriceSet]:
    return {(s.region, s.market): s for s in found if isinstance(s, PriceSet)}


def test_offers_carry_the_provider_as_cloud_and_the_day_of_its_catalogue(wire: Wire) -> None:
    found = sets(everything("lambdalabs"))
    assert set(found) == {("us-east-1", Market.ON_DEMAND), ("us-west-3", Market.ON_DEMAND)}
    (offer,) = found["us-east-1", Market.ON_DEMAND].observations
    assert (offer.cloud, offer.instance_type, float(offer.price_usd_per_hour)) == (
        "lambdalabs",
        "gpu_8x_h100_sxm5",
        23.92,
    )
    assert (offer.gpu, offer.gpus_per_node) == ("H100-SXM5-80GB", 8.0)
    assert found["us-east-1", Market.ON_DEMAND].fetched_at == datetime(2026, 8, 11, tzinfo=UTC)
    west = {o.instance_type: o.gpu for o in found["us-west-3", Market.ON_DEMAND].observations}
    assert west == {"gpu_1x_h100_pcie": "H100-PCIE-80GB", "gpu_1x_a10": "A10", "gpu_1x_z900": None, "gpu_free": "A10"}


def test_spot_and_other_makers_and_what_is_no_gpu(wire: Wire) -> None:
    found = sets(everything("runpod"))
    assert {o.gpu for o in found["EU-RO-1", Market.ON_DEMAND].observations} == {"H100-SXM5-80GB", "MI300X"}
    assert [float(o.price_usd_per_hour) for o in found["EU-RO-1", Market.SPOT].observations] == [1.75]
    only = sets(everything("runpod", Wanted(markets=frozenset({Market.SPOT}))))
    assert set(only) == {("EU-RO-1", Market.SPOT)}


def test_a_refresh_stores_named_smaller_clouds_and_drops_what_is_free(wire: Wire, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "prices.db"))
    summary = refresh(store, settings(), clouds=("lambdalabs", "runpod"))
    assert summary.exit_code == 0, summary.outcomes
    table, _ = store.current_table(now=NOW, freshness=Freshness())
    assert set(table.cloud) == {"lambdalabs", "runpod"}
    prices = {o.instance_type: (o.price_usd_per_hour, o.state.value) for o in table.offers() if o.market == "on-demand"}
    assert prices["gpu_8x_h100_sxm5"] == (23.92, "live")
    assert prices["gpu_free"] == (None, "unpriced")
    spot = [o.state.value for o in table.offers() if o.market == "spot"]
    assert spot == ["stale"]  # yesterday's catalogue is no spot price of this hour
    store.close()


def test_a_provider_without_a_catalogue_fails_and_is_not_read_as_selling_nothing(wire: Wire) -> None:
    (failure,) = everything("nebius")
    assert isinstance(failure, Failure)
    assert (failure.cloud, failure.reason) == ("nebius", FailureReason.PARTIAL)


def test_a_server_that_hangs_or_refuses_is_a_failure_in_time(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(lambda request: Reply(b"no", 500, "text/plain")) as broken:
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", broken.url)
        (failure,) = everything("runpod")
    assert isinstance(failure, Failure)
    assert failure.reason is FailureReason.UNREACHABLE
    monkeypatch.setattr(library.Catalog, "load", lambda self: time.sleep(1.0))
    (late,) = everything("runpod", deadline_s=0.05)
    assert isinstance(late, Failure)
    assert late.reason is FailureReason.TIMEOUT


def test_a_folder_of_tables_is_read_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runpod.csv").write_text(HEAD + RUNPOD, encoding="utf-8")
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    told = settings_from_environment({"GPUHUNT_CATALOG_DIR": str(tmp_path)}, lambda: NOW)
    found = {s.cloud: list(source.fetch(s, told)) for s in source.scopes(Wanted(), told)}
    assert len(sets(found["runpod"])) == 2
    assert [f.reason for f in found["nebius"] if isinstance(f, Failure)] == [FailureReason.MALFORMED]


cells = st.one_of(
    st.text(st.characters(exclude_characters='\r\n",', exclude_categories=("Cs",)), max_size=12),
    st.sampled_from(
        ["8", "80.0", "NaN", "inf", "-1", "1e400", "H100", "True", "nvidia", "amd", "eu-1", "{}", "x" * 300]
    ),
)


@settings_of_hypothesis(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(cells, min_size=14, max_size=14), min_size=1, max_size=4))
def test_whatever_stands_in_a_table_only_sane_prices_reach_the_store(tmp_path: Path, rows: list[list[str]]) -> None:
    text = "\n".join([HEAD, *(",".join(row) for row in rows)])
    (tmp_path / "verda.csv").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
        told = settings_from_environment({"GPUHUNT_CATALOG_DIR": str(tmp_path)}, lambda: NOW)
        (scope,) = [s for s in source.scopes(Wanted(), told) if s.cloud == "verda"]
        for one in source.fetch(scope, told):
            if isinstance(one, PriceSet):
                for accepted in judge(one, LastGood()).accepted.values():
                    assert 0 < accepted.usd_per_hour <= 5000
