"""Every fault that a cloud's price API is known for, from the wire to the price database: what becomes of the prices.

Each row is played against servers on loopback ports, over a database that holds a good refresh. Afterwards every price
must be the right one, and either live or marked stale with its reason; nothing may be missing, free or made up.
`docs/prices.md` shows this table (`python -m tests.pricing.test_fault_table` writes it).
"""

from __future__ import annotations

import gzip
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pricing.offers import Freshness, Market, Offer
from pricing.refresh import Summary, refresh
from pricing.sources import plain_http
from pricing.sources.base import SourceSettings, Wanted
from pricing.store import Store
from tests.pricing.sources import clouds as sky
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.loopback import (
    Fault,
    Reply,
    Request,
    cut_gzip,
    cut_off,
    drip,
    elsewhere,
    first,
    instead,
    only,
    refused,
    reset,
    web_page,
)
from tests.pricing.sources.reading import expected
from tests.pricing.sources.test_wire_faults import asks_with_a_token
from tests.pricing.sources.world import AS_OF

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "prices.md"
LATER = AS_OF + timedelta(minutes=2)
REGIONS = {"aws": ("us-east-1", "us-west-2"), "gcp": ("us-central1",), "azure": ("eastus", "westeurope")}
T4, H100, A100 = "Standard_NC4as_T4_v3", "Standard_ND96isr_H100_v5", "Standard_NC24ads_A100_v4"


@dataclass(frozen=True)
class Row:
    """A fault, how it is played, and what must come of it."""

    name: str  # id of its test
    fault: str  # in words, for the document
    means: str  # what the client does, for the document
    cloud: str
    play: Callable[[Clouds], None]
    reason: str = ""  # "" = the refresh goes right; else what the failed part is told to be
    stale: frozenset[str] = frozenset()  # instance types whose last good price stays; empty: all of the failed part
    new: Mapping[str, float] = field(default_factory=dict)  # on-demand prices that are rightly there besides
    settings: Mapping[str, Any] = field(default_factory=dict)
    rejected: str = ""  # what stands in the quarantine


def azure(fault: Fault, region: str = "") -> Callable[[Clouds], None]:
    """The fault on Azure's endpoint, of one region or of all."""
    when = (lambda r: sky.azure_region(r) == region) if region else (lambda r: True)
    return lambda clouds: clouds.azure.faults.append(only(fault, when))


def items(change: Callable[[dict[str, Any]], Any], size: str = "", **match: Any) -> Callable[[Clouds], None]:
    """Azure's items, those of eastus and of a size and with these values changed (in place, or replaced by a list)."""

    def each(row: dict[str, Any]) -> list[Any]:
        mine = row["armRegionName"] == "eastus" and size in ("", row["armSkuName"])
        if not mine or any(row.get(key) != value for key, value in match.items()):
            return [row]
        row = dict(row)
        found = change(row)
        return found if isinstance(found, list) else [row]

    def fault(request: Request, good: Reply, n: int) -> Reply | None:
        page = json.loads(good.body)
        page["Items"] = [one for row in page["Items"] for one in each(row)]
        return replace(good, body=json.dumps(page).encode())

    return azure(fault)


def on_demand(size: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Clouds], None]:
    """Azure's plain Linux on-demand row of a size in eastus, changed."""
    price = float(expected()["azure", "eastus", "", size, Market.ON_DEMAND])
    return items(change, size, type="Consumption", retailPrice=price)


def priced(usd: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(retailPrice=usd, unitPrice=usd)


def raw_price(size: str, text: str) -> Callable[[Clouds], None]:
    """A price in the JSON text itself, for what no JSON writer writes."""

    def fault(request: Request, good: Reply, n: int) -> Reply:
        return replace(good, body=good.body.replace(b'"<raw>"', text.encode()))

    def play(clouds: Clouds) -> None:
        on_demand(size, priced("<raw>"))(clouds)
        before = clouds.azure.faults.pop()

        def both(request: Request, good: Reply, n: int) -> Reply | None:
            changed = before(request, good, n)
            return fault(request, changed or good, n)

        clouds.azure.faults.append(both)

    return play


def aws(endpoint: str, fault: Fault) -> Callable[[Clouds], None]:
    return lambda clouds: getattr(clouds, endpoint).faults.append(fault)


def west(request: Request) -> bool:
    return "us-west-2" in (sky.signed_region(request), sky.asked_region(request) if request.body[:1] == b"{" else "")


def gone(row: dict[str, Any]) -> list[Any]:
    return []


def shifted(request: Request, good: Reply, n: int) -> Reply:
    """Rows of the page before come again on the next one."""
    page = json.loads(good.body)
    again = sky.retail(replace(request, query={**request.query, "$skip": "0"}))
    page["Items"] = json.loads(again.body)["Items"][-3:] + page["Items"]
    return replace(good, body=json.dumps(page).encode())


def empty_first(request: Request, good: Reply, n: int) -> Reply | None:
    """An empty page with a token that leads to the first page."""
    form = request.form
    if form.get("Action") != "DescribeSpotPriceHistory" or form.get("NextToken"):
        return None
    return sky.ec2_reply("DescribeSpotPriceHistory", {"SpotPriceHistory": [], "NextToken": "0"})


def to_itself(request: Request, good: Reply, n: int) -> Reply:
    page = json.loads(good.body) | {"NextPageLink": f"{request.base}/api/retail/prices?$skip=0"}
    return replace(good, body=json.dumps(page).encode())


def abroad(request: Request, good: Reply, n: int) -> Reply:
    page = json.loads(good.body) | {"NextPageLink": "http://prices.invalid/api/retail/prices?$skip=10"}
    return replace(good, body=json.dumps(page).encode())


def more_pages(request: Request, good: Reply, n: int) -> Reply:
    page = json.loads(good.body) | {"NextPageLink": f"{request.base}/api/retail/prices?$skip={n}"}
    return replace(good, body=json.dumps(page).encode())


def silent_zone(request: Request, good: Reply, n: int) -> Reply | None:
    if not request.path.endswith("machineTypes") or request.query.get("pageToken"):
        return None
    listing = json.loads(good.body)
    listing["items"].pop("zones/us-central1-a", None)
    listing["unreachables"] = ["projects/test-project/zones/us-central1-a"]
    return replace(good, body=json.dumps(listing).encode())


def twice_and_marked(request: Request, good: Reply, n: int) -> Reply:
    text = good.body.replace(b'"currencyCode": "USD"', b'"currencyCode": "EUR", "currencyCode": "USD"')
    return replace(good, body=b"\xef\xbb\xbf" + text)


def nested(request: Request, good: Reply, n: int) -> Reply:
    return replace(good, body=b'{"Items": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@cache
def blanks() -> bytes:
    return gzip.compress(b" " * 2**24)


def bomb(request: Request, good: Reply, n: int) -> Reply:
    """The good body behind 16 MB of blanks that are 16 kB on the wire."""
    return replace(good, body=blanks() + gzip.compress(good.body), headers={"Content-Encoding": "gzip"})


def packed(request: Request, good: Reply, n: int) -> Reply:
    return replace(good, body=gzip.compress(good.body), headers={"Content-Encoding": "gzip"})


def spot_rows(change: Callable[[dict[str, Any]], Any], size: str) -> Callable[[Clouds], None]:
    price = float(expected()["azure", "eastus", "", size, Market.SPOT])
    return items(change, size, retailPrice=price)


def beside(**changed: Any) -> Callable[[dict[str, Any]], list[Any]]:
    return lambda row: [row, row | changed]


ROWS = (
    Row("throttled", "429 with Retry-After", "waits as asked (up to 20 s), tries again", "azure",
        azure(first(2, refused(429, **{"Retry-After": "1"})))),
    Row("throttled_for_ever", "429 for ever", "gives up after 4 tries; the host's other requests pause too", "azure",
        azure(refused(429)), "throttled"),
    Row("aws_throttled", "RequestLimitExceeded (503), ThrottlingException (400)", "the same: AWS's own words", "aws",
        aws("ec2", first(2, instead(sky.ec2_refusal("RequestLimitExceeded", 503))))),
    Row("server_error_once", "500 once", "tries again", "gcp",
        lambda c: c.billing.faults.append(first(1, refused(500)))),
    Row("server_errors", "5xx for ever", "gives up within the deadline (Google's own 600 s of retries are off)", "gcp",
        lambda c: c.compute.faults.append(refused(503)), "server-error"),
    Row("truncated", "a body cut off, its length agreeing", "a failed page, tried again", "azure",
        azure(first(1, cut_off))),
    Row("truncated_for_ever", "bodies cut off for ever", "failed; never a short list", "aws",
        aws("pricing", cut_off), "malformed"),
    Row("web_page", "HTML with status 200", "not the API; tried once more", "aws", aws("ec2", web_page), "not-the-api"),
    Row("empty_page", "an empty page with a token", "goes on", "aws", aws("ec2", empty_first)),
    Row("link_to_itself", "a token that repeats, a link to itself", "an error, the run is discarded", "azure",
        azure(to_itself, "eastus"), "paging"),
    Row("page_cap", "pages without end", "an error at the cap, not a short list", "azure", azure(more_pages, "eastus"),
        "paging"),
    Row("foreign_link", "a next-page link to another host", "not followed", "azure", azure(abroad, "eastus"), "paging"),
    Row("token_expired", "a token that expired between pages", "starts again from page 1, once", "aws",
        aws("pricing", only(first(1, instead(sky.aws_refusal("ExpiredNextTokenException"))), asks_with_a_token))),
    Row("shifted_pages", "rows that shift between pages", "read once", "azure",
        azure(only(shifted, asks_with_a_token))),
    Row("shrunk", "a set that shrank by more than 20 %", "suspect: the old set stays", "azure",
        items(gone, type="Consumption", currencyCode="USD", isPrimaryMeterRegion=True), "suspect"),
    Row("region_off", "one region that is off for the account", "said; asked once; the others go on", "aws",
        aws("ec2", only(instead(sky.ec2_refusal("AuthFailure", 401)), west)), "region-off"),
    Row("right_missing", "a right is missing", "final; the right is named", "aws",
        aws("pricing", instead(sky.aws_refusal("AccessDeniedException"))), "permission"),
    Row("credentials_expired", "expired or refused credentials", "final, all regions; prices stay, stale", "aws",
        aws("ec2", instead(sky.ec2_refusal("ExpiredToken", 403))), "credentials"),
    Row("gzip", "a compressed body", "read", "azure", azure(packed)),
    Row("gzip_cut", "a compressed body cut off", "a failed page", "azure", azure(cut_gzip), "malformed"),
    Row("gzip_bomb", "a few kB that unfold to many MB", "dropped at the limit (256 MiB; here 4)", "azure",
        azure(bomb), "malformed"),
    Row("nested", "JSON nested 100,000 deep", "refused", "azure", azure(nested), "malformed"),
    Row("connection_cut", "a connection cut, nobody listening, no DNS", "a short retry, then the host is given up",
        "azure", azure(reset), "unreachable"),
    Row("hang", "a server that says nothing", "timeout", "azure", azure(instead(Reply(act="hang"))), "timeout",
        settings={"read_timeout_s": 0.3}),
    Row("slow_drip", "a byte now and then", "a deadline of wall clock around the whole call", "azure",
        azure(drip), "timeout", settings={"deadline_s": 2.0}),
    Row("redirect", "a redirect to another host", "not followed", "azure", azure(elsewhere), "not-the-api"),
    Row("unknown_field", "fields that nobody knows", "ignored", "azure",
        items(lambda row: row.update(someNewField={"a": [1]}))),
    Row("retyped_field", "a price that is a list", "that row is rejected, its last good price stays", "azure",
        on_demand(T4, priced([1])), stale=frozenset({T4}), rejected="not a number"),
    Row("missing_fields", "more than 5 % of the rows without their price", "the set is refused", "azure",
        items(lambda row: row.pop("retailPrice"), type="Consumption"), "suspect"),
    Row("price_zero", "a price of 0", "dropped and counted, never free", "azure", on_demand(T4, priced(0.0)),
        stale=frozenset({T4}), rejected="price 0"),
    Row("negative", "a negative price", "rejected", "azure", on_demand(T4, priced(-0.5)), stale=frozenset({T4}),
        rejected="negative price"),
    Row("nan", "NaN in the JSON", "rejected", "azure", raw_price(T4, "NaN"), stale=frozenset({T4}), rejected="not a"),
    Row("infinite", "1e400 in the JSON", "rejected", "azure", raw_price(T4, "1e400"), stale=frozenset({T4}),
        rejected="price"),
    Row("ten_times", "a list price ten times the last good one", "quarantined until a second fetch says it again",
        "azure", on_demand(T4, priced(5.26)), stale=frozenset({T4}), rejected="price jumped"),
    Row("spot_above", "spot above on-demand", "quarantined, not confirmed by repetition", "azure",
        spot_rows(priced(0.6), T4), stale=frozenset({T4}), rejected="spot above on-demand"),
    Row("currency", "another currency", "rejected; never converted", "azure",
        on_demand(T4, lambda row: row.update(currencyCode="EUR")), stale=frozenset({T4}), rejected="currency"),
    Row("duplicate", "one row twice", "folded", "azure", on_demand(T4, lambda row: [row, row])),
    Row("conflict", "two prices for one key", "a conflict on record; the last good one, else the lower", "azure",
        on_demand(T4, beside(retailPrice=0.789, unitPrice=0.789, meterId="another")), rejected="two prices"),
    Row("new_type", "a size, with a GPU, that no table knows", "kept, listed as unknown, nothing guessed", "azure",
        on_demand(T4, beside(armSkuName="Standard_NC8as_Z900_v9", retailPrice=9.0, unitPrice=9.0, meterId="new")),
        new={"Standard_NC8as_Z900_v9": 9.0}),
    Row("type_gone", "a type that is no longer sold", "no longer current; stays in the history", "azure",
        on_demand(H100, gone)),
    Row("silent_zone", "zones that gave no answer (unreachables)", "their old rows stay, flagged; others are renewed",
        "gcp", lambda c: c.compute.faults.append(silent_zone), "partial"),
    Row("key_twice", "a key twice, a byte order mark", "harmless", "azure", azure(twice_and_marked)),
    Row("huge", "a reply without end", "stopped at the size limit; offer files are read line by line", "azure",
        azure(lambda r, good, n: replace(good, body=b" " * (5 * 2**20) + good.body)), "malformed"),
)  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database after one good refresh of everything."""
    path = tmp_path_factory.mktemp("good") / "prices.db"
    store = Store(str(path))
    with sky.sky() as up:
        regions = tuple(name for names in REGIONS.values() for name in names)
        assert refresh(store, up.settings(), wanted=Wanted(regions=regions, interruptions=False)).exit_code == 0
    store.close()
    return path


@pytest.fixture
def store(good: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(good, tmp_path / "prices.db")
    found = Store(str(tmp_path / "prices.db"))
    yield found
    found.close()


@pytest.fixture
def clouds() -> Iterator[Clouds]:
    with sky.sky() as up:
        yield up


def again(store: Store, clouds: Clouds, cloud: str, **changes: Any) -> Summary:
    """The next refresh, two minutes later."""
    patient = {"read_timeout_s": 5.0, "deadline_s": 20.0} | changes
    settings: SourceSettings = replace(clouds.settings(**patient), clock=lambda: LATER)
    wanted = Wanted(regions=REGIONS[cloud], interruptions=False)
    return refresh(store, settings, clouds=(cloud,), wanted=wanted)


def offers(store: Store, cloud: str) -> dict[tuple[str | None, str, str, str], Offer]:
    table, _ = store.current_table(now=LATER, freshness=Freshness())
    return {(o.region, o.zone or "", o.instance_type, o.market.value): o for o in table.offers() if o.cloud == cloud}


def right(cloud: str) -> dict[tuple[str | None, str, str, str], float]:
    return {
        (region, zone, name, market.value): float(usd)
        for (where, region, zone, name, market), usd in expected().items()
        if where == cloud and region in REGIONS[cloud]
    }


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_a_fault_leaves_every_price_right_and_live_or_stale_with_its_reason(
    row: Row, store: Store, clouds: Clouds
) -> None:
    wanted = {key: o.price_usd_per_hour for key, o in offers(store, row.cloud).items()}
    assert {key: wanted[key] for key in right(row.cloud)} == pytest.approx(right(row.cloud), abs=1.1e-6)
    row.play(clouds)
    summary = again(store, clouds, row.cloud, **row.settings)
    told = [f"{o.outcome} {o.detail}" for o in summary.outcomes if o.outcome not in ("switched", "unchanged")]
    if row.reason:
        assert summary.exit_code == 1, told
        assert told
        assert all(row.reason in text for text in told), told
    else:
        assert (summary.exit_code, told) == (0, [])
    found = offers(store, row.cloud)
    if row.name == "type_gone":
        del wanted["eastus", "", H100, "on-demand"]
    prices = {key: o.price_usd_per_hour for key, o in found.items()}
    new = {("eastus", "", name, "on-demand"): usd for name, usd in row.new.items()}
    assert prices.keys() == (wanted | new).keys()
    assert prices == pytest.approx(wanted | new, abs=1.1e-6)
    stale = {key[2] for key, o in found.items() if o.state == "stale"}
    assert all(o.note for o in found.values() if o.state == "stale")
    assert stale == row.stale if not row.reason else stale
    if row.rejected:
        said = [f"{q.reason} {q.detail}" for q in store.quarantined()]
        assert any(row.rejected in text for text in said), said


def test_missing_credentials_are_said_and_everything_else_is_fetched(store: Store, clouds: Clouds) -> None:
    settings = replace(clouds.settings(credentials=False), clock=lambda: LATER)
    summary = refresh(store, settings, wanted=Wanted(regions=("us-east-1", "eastus"), interruptions=False))
    assert summary.exit_code == 0
    skipped = [o for o in summary.outcomes if o.outcome == "skipped"]
    assert {(o.cloud, o.market) for o in skipped} == {("aws", "spot")}
    assert "AWS_ACCESS_KEY_ID" in skipped[0].detail
    assert {o.outcome for o in summary.outcomes if o.cloud == "azure"} == {"unchanged"}


def test_a_clock_far_off_is_warned_of(
    store: Store, clouds: Clouds, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_http, "_warned", set())
    settings = replace(clouds.settings(), clock=lambda: AS_OF + timedelta(hours=2))
    wanted = Wanted(regions=("eastus",), interruptions=False)
    summary = refresh(store, settings, clouds=("azure",), wanted=wanted)
    assert summary.exit_code == 0
    assert any("clock of 127.0.0.1" in record.message for record in caplog.records)


def test_loopback_endpoints_are_asked_past_any_proxy(
    store: Store, clouds: Clouds, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for cloud in REGIONS:
        summary = again(store, clouds, cloud)
        assert summary.exit_code == 0, (cloud, summary.outcomes)


def test_a_new_region_is_accepted_from_the_api(store: Store, clouds: Clouds) -> None:
    wanted = Wanted(regions=("us-west-2-lax-1", "moonbase1", "westus3"), interruptions=False)
    summary = refresh(store, replace(clouds.settings(), clock=lambda: LATER), clouds=("azure",), wanted=wanted)
    assert {o.region for o in summary.outcomes} == {"westus3"}
    assert ("westus3", "", "Standard_NC6s_v3", "on-demand") in offers(store, "azure")


def test_two_refreshes_at_once_end_in_one_right_set(store: Store, clouds: Clouds) -> None:
    summaries: list[Summary] = []
    threads = [threading.Thread(target=lambda: summaries.append(again(store, clouds, "azure"))) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert [s.exit_code for s in summaries] == [0, 0]
    prices = {key: o.price_usd_per_hour for key, o in offers(store, "azure").items() if o.price_usd_per_hour}
    assert prices == pytest.approx(right("azure"), abs=1.1e-6)


OTHERS = {
    "no credentials": ("said at once, what is missing; Azure and AWS's offer files are read without",
                       test_missing_credentials_are_said_and_everything_else_is_fetched),
    "a clock far from the server's": ("warned of beyond 5 min; records more than 5 min ahead are not taken",
                                      test_a_clock_far_off_is_warned_of),
    "a proxy in the environment": ("used, but not for loopback addresses",
                                   test_loopback_endpoints_are_asked_past_any_proxy),
    "a new region": ("accepted from the API", test_a_new_region_is_accepted_from_the_api),
    "two refreshes at once": ("one after the other, set by set", test_two_refreshes_at_once_end_in_one_right_set),
}  # fmt: skip


def table() -> str:
    """The table of docs/prices.md: fault, what the client does, the test that shows it (all in this file)."""
    lines = ["| fault | what is done | test (`tests/pricing/test_fault_table.py`) |", "| --- | --- | --- |"]
    main = test_a_fault_leaves_every_price_right_and_live_or_stale_with_its_reason.__name__
    lines += [f"| {row.fault} | {row.means} | `...[{row.name}]` |" for row in ROWS]
    lines += [f"| {fault} | {means} | `{test.__name__}` |" for fault, (means, test) in OTHERS.items()]
    return "\n".join(lines) + f"\n\n`...` is `{main}`.\n"


def with_table(text: str) -> str:
    """The document with the present table between its marks."""
    before, begin, rest = text.partition("<!-- faults -->\n")
    _, end, after = rest.partition("<!-- end of faults -->")
    assert begin
    assert end
    return before + begin + table() + end + after


def test_the_document_shows_this_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: python -m tests.pricing.test_fault_table"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
