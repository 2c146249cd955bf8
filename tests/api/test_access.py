"""Who may ask what: keys, scopes, hosts, origins and rates."""

from __future__ import annotations

import asyncio
import base64
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from api.access import host_name, is_local, key_text
from api.app import create_app
from api.rates import Rates
from api.settings import Settings
from pricing.store import Store
from pricing.store_keys import Scope, add_key, keys, parts_of, revoke_key, rotate_key

from .conftest import NOW
from .test_problems import problem

PRESENT = datetime.now(UTC)
ELSEWHERE = ("203.0.113.9", 40000)
HERE = ("127.0.0.1", 40000)


def server(
    folder: Path, peer: tuple[str, int] = ELSEWHERE, base_url: str = "http://plan.example", **more: object
) -> TestClient:
    settings = Settings.model_validate({"now": NOW, "offline": True, "data_dir": folder, **more})
    return TestClient(create_app(settings), client=peer, base_url=base_url, raise_server_exceptions=False)


def key(folder: Path, *scopes: Scope) -> str:
    return add_key(Store(Settings(data_dir=folder).store_url), "team", scopes, now=PRESENT)[1]


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


@pytest.mark.parametrize(
    "path", ["/v1/gpus", "/v1/plan.csv", "/", "/answer.json", "/docs", "/openapi.json", "/nothing"]
)
def test_from_another_machine_nothing_is_answered_without_a_key(tmp_path: Path, path: str) -> None:
    answer = server(tmp_path).get(path)
    assert problem(answer)["status"] == 401
    assert answer.headers["www-authenticate"].startswith("Bearer" if path.startswith("/v1") else "Basic")


def test_probes_need_no_key(tmp_path: Path) -> None:
    assert server(tmp_path).get("/healthz").status_code == 200
    assert server(tmp_path).get("/readyz").status_code == 200


def test_a_key_opens_by_bearer_token_header_or_as_a_password(tmp_path: Path) -> None:
    text = key(tmp_path, Scope.READ)
    basic = base64.b64encode(f"anybody:{text}".encode()).decode()
    client = server(tmp_path)
    for headers in (bearer(text), {"x-api-key": text}, {"authorization": f"Basic {basic}"}):
        assert client.get("/v1/gpus", headers=headers).status_code == 200


def test_a_key_in_the_address_opens_nothing(tmp_path: Path) -> None:
    text = key(tmp_path, Scope.ADMIN)
    answer = server(tmp_path).get("/v1/gpus", params={"api_key": text, "x-api-key": text})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "wrong",
    ["", "est_", "est_000000000000_" + "a" * 43, "x" * 100_000, "est_" + "é" * 10, "' OR 1=1 --", "est_0_1\x00"],
)
def test_what_is_no_key_opens_nothing(tmp_path: Path, wrong: str) -> None:
    key(tmp_path, Scope.READ)
    answer = server(tmp_path).get("/v1/gpus", headers={b"x-api-key": wrong.encode()})
    assert problem(answer)["status"] == 401
    assert wrong[4:60] not in answer.text or not wrong[4:]


def test_the_right_id_with_another_secret_opens_nothing(tmp_path: Path) -> None:
    first, second = key(tmp_path, Scope.READ), key(tmp_path, Scope.READ)
    (first_id, _), (_, secret) = parts_of(first) or ("", ""), parts_of(second) or ("", "")
    assert server(tmp_path).get("/v1/gpus", headers=bearer(f"est_{first_id}_{secret}")).status_code == 401


def test_a_key_that_reads_may_not_plan_and_one_that_plans_may_read(tmp_path: Path) -> None:
    client, body = server(tmp_path), {"model": "resnet50", "images": "50k", "constraints": {"gpus": ["T4"]}}
    reads, plans = key(tmp_path, Scope.READ), key(tmp_path, Scope.PLAN)
    assert problem(client.post("/v1/estimate", json=body, headers=bearer(reads)))["status"] == 403
    assert client.post("/v1/estimate", json=body, headers=bearer(plans)).status_code == 200
    assert client.get("/v1/models", headers=bearer(plans)).status_code == 200


def test_a_revoked_or_expired_key_opens_nothing(tmp_path: Path) -> None:
    store = Store(Settings(data_dir=tmp_path).store_url)
    revoked = key(tmp_path, Scope.READ)
    revoke_key(store, (parts_of(revoked) or ("", ""))[0], now=PRESENT)
    _, expired = add_key(store, "old", [Scope.READ], now=PRESENT - timedelta(2), expires_at=PRESENT - timedelta(1))
    for text in (revoked, expired):
        assert server(tmp_path).get("/v1/gpus", headers=bearer(text)).status_code == 401


def test_a_rotated_key_holds_for_its_grace_beside_its_successor(tmp_path: Path) -> None:
    store = Store(Settings(data_dir=tmp_path).store_url)
    old = key(tmp_path, Scope.PLAN)
    old_id, secret = parts_of(old) or ("", "")
    successor, new = rotate_key(store, old_id, now=PRESENT, grace=timedelta(hours=1))
    assert (successor.name, successor.scopes) == ("team", (Scope.PLAN,))
    client = server(tmp_path)
    assert client.get("/v1/gpus", headers=bearer(old)).status_code == 200
    assert client.get("/v1/gpus", headers=bearer(new)).status_code == 200
    kept = next(one for one in keys(store) if one.id == old_id)
    assert not kept.opens(secret, PRESENT + timedelta(hours=1))


def test_no_secret_is_kept_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = key(tmp_path, Scope.READ)
    secret = (parts_of(text) or ("", ""))[1]
    with caplog.at_level(logging.DEBUG):
        server(tmp_path).get("/v1/gpus", headers=bearer(text))
        server(tmp_path).get("/v1/gpus", headers=bearer(text[:-1] + "x"))
    assert "/v1/gpus" in caplog.text
    assert secret not in caplog.text
    assert secret[:-1] not in caplog.text
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_on_the_same_machine_no_key_is_needed_unless_the_settings_say_so(tmp_path: Path) -> None:
    url = "http://127.0.0.1:8000"
    assert server(tmp_path, HERE, url).get("/v1/gpus").status_code == 200
    assert server(tmp_path, HERE, url, require_key="always").get("/v1/gpus").status_code == 401
    assert server(tmp_path, require_key="never").get("/v1/gpus").status_code == 200


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_what_a_proxy_passes_on_is_not_local(tmp_path: Path, header: str) -> None:
    answer = server(tmp_path, HERE, "http://127.0.0.1:8000").get("/v1/gpus", headers={header: "127.0.0.1"})
    assert answer.status_code == 401


def test_a_connection_without_a_known_peer_is_not_local() -> None:
    ends = ("127.0.0.1", 8000)
    assert is_local({"headers": [], "client": ends, "server": ends})
    assert not is_local({"headers": [], "client": None, "server": ends})
    assert not is_local({"headers": [], "client": ("", 0), "server": ends})
    assert not is_local({"headers": [], "client": ends, "server": ("192.0.2.1", 8000)})


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_a_name_that_another_site_made_point_here_is_refused(tmp_path: Path, host: str) -> None:
    client = server(tmp_path, HERE, "http://127.0.0.1:8000")
    answer = client.get("/v1/gpus", headers={"host": host})
    assert problem(answer)["status"] == 421
    assert host not in answer.text
    for name in ("localhost:8000", "[::1]:8000", "127.0.0.1"):
        assert client.get("/v1/gpus", headers={"host": name}).status_code == 200


@pytest.mark.parametrize("host", ["a@127.0.0.1", "127.0.0.1/../x", "a b", "é.example", "[::1", "x:99999", "a,b"])
def test_a_host_header_that_is_no_name_is_refused(tmp_path: Path, host: str) -> None:
    answer = server(tmp_path, HERE).get("/v1/gpus", headers={"host": host.encode()})
    assert problem(answer)["status"] == 400
    assert host_name(host) is None


def test_only_the_hosts_of_the_settings_are_answered(tmp_path: Path) -> None:
    client = server(tmp_path, require_key="never", allowed_hosts="plan.example, other.example")
    assert client.get("/v1/gpus").status_code == 200
    assert client.get("/v1/gpus", headers={"host": "Other.Example:443"}).status_code == 200
    assert client.get("/v1/gpus", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_page_of_another_site_may_not_post(tmp_path: Path, headers: dict[str, str]) -> None:
    client = server(tmp_path, HERE, "http://127.0.0.1:8000")
    assert problem(client.post("/v1/plan", json={"model": "x"}, headers=headers))["status"] == 403
    same = client.post("/v1/plan", json={"model": "x"}, headers={"origin": "http://127.0.0.1:8000"})
    assert same.status_code == 422


def test_pages_of_the_named_origins_may_call_and_no_others(tmp_path: Path) -> None:
    client = server(tmp_path, require_key="never", cors_origins="https://tools.example/")
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}
    good = client.options("/v1/plan", headers=asks | {"origin": "https://tools.example"})
    assert good.status_code == 200
    assert good.headers["access-control-allow-origin"] == "https://tools.example"
    bad = client.options("/v1/plan", headers=asks | {"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in bad.headers
    assert (
        "access-control-allow-origin" not in server(tmp_path).get("/healthz", headers={"origin": "https://a.b"}).headers
    )


def counted(answer: Response) -> int:
    return int(answer.headers["ratelimit"].partition("r=")[2].partition(";")[0])


def test_requests_are_counted_by_key_and_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    client, first, second = (
        server(tmp_path, key_rate_per_minute=2),
        key(tmp_path, Scope.READ),
        key(tmp_path, Scope.READ),
    )
    answers = [client.get("/v1/gpus", headers=bearer(first)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [counted(answer) for answer in answers] == [1, 0, 0]
    assert problem(answers[2])["type"] == "urn:estimator:problem:rate-limited"
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert answers[0].headers["ratelimit-policy"] == '"key";q=2;w=60'
    assert client.get("/v1/gpus", headers=bearer(second)).status_code == 200


def test_who_guesses_keys_is_counted_by_address(tmp_path: Path) -> None:
    client = server(tmp_path, rate_per_minute=3)
    wrong = [client.get("/v1/gpus", headers=bearer(f"guess{n}")).status_code for n in range(5)]
    assert wrong == [401, 401, 401, 429, 429]
    assert client.get("/v1/gpus", headers=bearer(key(tmp_path, Scope.READ))).status_code == 200


def test_a_bucket_refills_evenly() -> None:
    moment = 0.0
    rates = Rates(clock=lambda: moment)

    def served() -> bool:
        return asyncio.run(rates.take("key", "a", 2)).served

    assert [served() for _ in range(3)] == [True, True, False]
    moment = 29.0
    assert not served()
    moment = 31.0
    assert served()
    assert not served()


def test_buckets_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.rates.MOST_BUCKETS", 10)
    rates = Rates()
    for n in range(100):
        asyncio.run(rates.take("address", str(n), 60))
    assert len(rates._buckets) == 10


def test_key_text_never_fails() -> None:
    from starlette.datastructures import Headers

    for value in ("Basic !!!", "Basic " + base64.b64encode(b"\xff\xfe").decode(), "Bearer", "Digest x", ""):
        key_text(Headers({"authorization": value}))


def test_a_slow_body_is_refused(tmp_path: Path) -> None:
    app = create_app(Settings(now=NOW, offline=True, data_dir=tmp_path, body_seconds=0.05))
    sent: list[dict[str, object]] = []

    async def never() -> dict[str, object]:
        await asyncio.sleep(30)
        raise AssertionError

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/v1/plan",
        "raw_path": b"/v1/plan", "query_string": b"", "root_path": "", "scheme": "http",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"10")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    asyncio.run(app(scope, never, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408
