"""Traces reach a collector: one span for a request, one for its computation, and no query in either."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings

pytest.importorskip("opentelemetry.sdk", reason="needs the extra tracing")


def test_spans_of_a_request_are_sent_and_continue_the_caller_s_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    settings = Settings(now=datetime(2026, 9, 15, tzinfo=UTC), offline=True, data_dir=tmp_path, tracing=True)
    parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    with TestClient(create_app(settings)) as client:
        body = {"model": "llama3-8b", "tokens": "10M", "options": {"top": 1}}
        assert client.post("/v1/plan?secret=1", json=body, headers={"traceparent": parent}).status_code == 200
        client.get("/healthz")
    collector.shutdown()
    collector.server_close()
    spans = {
        span.name: span
        for text in bodies
        for resource in ExportTraceServiceRequest.FromString(text).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert set(spans) == {"POST /v1/plan", "computed"}
    outer, inner = spans["POST /v1/plan"], spans["computed"]
    assert outer.trace_id.hex() == "0123456789abcdef0123456789abcdef"
    assert inner.parent_span_id == outer.span_id
    attributes = {one.key: one.value.string_value or one.value.int_value for one in outer.attributes}
    assert (attributes["http.route"], attributes["http.response.status_code"]) == ("/v1/plan", 200)
    assert b"secret" not in b"".join(bodies)
