"""What an attacker tries on the wire and in a request; each line of docs/threat-model.md that stands nowhere else."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from estimator import Workload

from .conftest import NOW, serving

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"gpus": ["H100:8"]}}
TEMPLATES = [
    "{{7919*7907}}", "${7919*7907}", "<%= 7919*7907 %>", "#{7919*7907}", "{{config}}", "%(x)s", "{0.__class__}",
    "{% for x in ().__class__.__base__.__subclasses__() %}", "__import__('os').system('id')",
]  # fmt: skip
LONG = 20_000


def talk(port: int, sent: bytes, seconds: float = 5.0) -> bytes:
    """Everything that the server says on one connection."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(sent)
        try:
            while part := connection.recv(65536):
                got += part
        except (TimeoutError, ConnectionResetError):
            pass
    return got


def test_pipelined_requests_are_answered_one_by_one_in_order(client: TestClient) -> None:
    asked = (b"/healthz", b"/v1/gpus?limit=1", b"/nowhere", b"/healthz")
    lines = [b"GET %s HTTP/1.1\r\nHost: localhost\r\n" % path for path in asked]
    with serving(client.app) as port:  # type: ignore[arg-type]
        got = talk(port, b"\r\n".join(lines) + b"Connection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d{3})", got) == [b"200", b"200", b"404", b"200"]
    assert got.index(b'"gpus"') < got.index(b"not-found")


@pytest.mark.parametrize("spread", ["bytes=0-4", "bytes=0-0,1-1" + ",2-2" * 5000, "bytes=99999999999-", "lines=x"])
def test_ranges_are_not_served(client: TestClient, spread: str) -> None:
    """A whole answer is right for any range; thousands of parts of one answer would not be."""
    for path in ("/v1/gpus", "/static/page.css"):
        answer = client.get(path, headers={"range": spread})
        assert answer.status_code == 200
        assert "content-range" not in answer.headers


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=1&limit=2", 200), ("limit=1&limit=", 422), ("name=A*&name=H*", 200), ("limit=NaN", 422),
        ("limit=1e400", 422), ("limit=9" + "9" * 5000, 422), ("limit=-0", 422), ("vendor=%00", 200),
        ("vendor=%ff", 200), ("vendor=%ed%a0%80", 200), ("name=%ff", 422), ("na%6De=T4", 200), ("name[]=T4", 422),
        ("limit=0x1", 422),
    ],
)  # fmt: skip
def test_odd_query_parameters_are_read_once_or_refused(client: TestClient, query: str, status: int) -> None:
    answer = client.get(f"/v1/gpus?{query}")
    assert answer.status_code == status, answer.text
    if answer.status_code == 200:
        assert len(answer.json()["gpus"]) <= 100


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 5000, "1e-400", "-0", "1E999999999", "true"]
)
@pytest.mark.parametrize("field", ["tokens", "epochs", "global_batch", "seq_len"])
def test_numbers_that_are_none_are_refused_and_never_a_fault(client: TestClient, field: str, number: str) -> None:
    body = f'{{"model": "llama3-8b", "tokens": 1000000, "constraints": {{"gpus": ["H100:8"]}}, "{field}": {number}}}'
    answer = client.post("/v1/plan", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("text", [*TEMPLATES, "\\ud800", "\\u0000", "\u202eevil", "a\u0301" * 3000, "\ufeff"])
def test_texts_with_a_meaning_elsewhere_have_none_here(client: TestClient, text: str) -> None:
    field = f'"{text}"' if text.startswith("\\") else '"' + text.replace('"', '\\"') + '"'
    for body in (
        f'{{"model": {field}, "tokens": 5}}',
        f'{{"model": "llama3-8b", "tokens": 5, "name": {field}}}',
        f'{{"model": "llama3-8b", "tokens": 5, "constraints": {{"regions": [{field}], "gpus": [{field}]}}}}',
        f'{{"model": "llama3-8b", "tokens": 5, "measured": [{field}]}}',
    ):
        answer = client.post("/v1/plan", content=body.encode(), headers={"content-type": "application/json"})
        assert answer.status_code in (200, 422), answer.text
        assert "62615533" not in answer.text
    page = client.get(
        f"/?model={quote(text.encode('utf-8', 'replace'))}&amount=5&gpu={quote(text)}&measured={quote(text)}"
    )
    assert page.status_code == 200
    assert "62615533" not in page.text


UNITS = ["1", "1,", "1 ", "a ", "1x", "1 x ", "h", "-", "1h ", " ", "\t", "a.b-", "(", "'", "1.1."]
BOMBS = [unit * LONG + end for unit in UNITS for end in ("", "!")]
FIELDS = ["model", "tokens", "deadline", "budget", "gpus", "regions", "measured", "own", "epochs", "name"]


@pytest.mark.parametrize("field", FIELDS)
def test_long_texts_are_judged_in_time_that_grows_with_their_length(client: TestClient, field: str) -> None:
    """Every pattern that a request meets; a quadratic one would need minutes for these."""
    began = time.monotonic()
    for bomb in BOMBS:
        asked: dict[str, object] = {"model": "llama3-8b", "tokens": 5, "constraints": {}}
        limits: dict[str, object] = {"deadline": bomb, "budget": bomb, "gpus": [bomb], "regions": [bomb]}
        if field in limits:
            asked["constraints"] = {field: limits[field]}
        else:
            asked[field] = {"measured": [bomb], "own": [{"name": bomb, "gpu": bomb}]}.get(field, bomb)
        answer = client.post("/v1/plan", json=asked)
        assert answer.status_code in (200, 422), (field, bomb[:20], answer.text[:300])
    assert time.monotonic() - began < 30


COLUMNS = [
    "source", "date", "model", "task", "gpu", "gpus", "interconnect", "precision", "sharding", "act_ckpt", "peft",
    "optimizer", "framework", "unit", "attention", "stack", "params_m", "micro_batch",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_long_texts_in_rows_are_judged_in_time_too(client: TestClient, column: str) -> None:
    """A description of links of 20,000 digits took minutes before this test asked."""
    usual = {"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": 8, "seq_len": 2048, "micro_batch": 1}
    began = time.monotonic()
    answer = client.post("/v1/predict", json={"rows": [usual | {column: bomb} for bomb in BOMBS]})
    assert answer.status_code == 200
    assert len(answer.json()["rows"]) == len(BOMBS)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("path", ["/", "/v1/plan", "/v1/gpus", "/v1/cell", "/docs", "/static/page.js", "/nowhere"])
def test_no_method_is_a_fault_on_any_path(client: TestClient, path: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND"):
        answer = client.request(method, path)
        assert answer.status_code < 500, (method, path)
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_connections_that_say_nothing_leave_the_others_alone(tmp_path: Path) -> None:
    """Slow headers take no thread and no planner: two hundred of them and the server answers at once."""
    app = create_app(Settings(now=NOW, offline=True, data_dir=tmp_path))
    with serving(app) as port:
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(200)]
        for one in idle:
            one.sendall(b"GET /healthz HTTP/1.1\r\nX-A: ")
        assert b" 200 " in talk(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 10)
        for one in idle:
            one.close()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("plan", '{"model": "llama3-8b", "tokens": 5, "name": "a\\ud800"}', "name"),
        ("plan", '{"model": "llama3-8b", "tokens": 5, "own": [{"name": "\\udfff", "gpu": "T4"}]}', "own.0.name"),
        ("plan", '{"model": "llama3-8b", "tokens": 5, "\\ud800": 1}', "?"),
        ("predict", '{"rows": [{"model": "llama3-8b", "notes": "\\ud83d"}]}', "rows.0.notes"),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_stands(client: TestClient, path: str, body: str, field: str) -> None:
    answer = client.post(f"/v1/{path}", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    batch = client.post(
        "/v1/batch", content=f'{{"workloads": [{body}]}}', headers={"content-type": "application/json"}
    ).json()
    assert batch["results"][0]["problem"]["status"] == 422


def test_a_request_read_from_text_is_the_one_that_json_gives() -> None:
    """Look-alike digits are not numbers: what a person reads and what is planned cannot differ."""
    for text in ("５0M", "50Ｍ", "५०"):
        with pytest.raises(Exception, match="tokens"):
            Workload(model="llama3-8b", tokens=text)
