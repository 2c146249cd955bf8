"""Where does the time of a request go? OpenTelemetry spans, when the settings ask for them; else nothing at all.

The standard variables say where they are sent (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, samplers). Spans
carry method, route and status: no query, header or body, since these hold a company's plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import route_of
from api.problems import REQUEST_ID
from benchmarks_db.errors import WorkloadError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

NAME = "gpu-cost-estimator"
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})


class Tracing:
    """The tracer of one server; without a provider every span is nothing."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = provider.get_tracer(NAME) if provider is not None else None

    @property
    def on(self) -> bool:
        """Whether anything is traced."""
        return self._tracer is not None

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A part of a request."""
        if self._tracer is None:
            yield
            return
        with self._tracer.start_as_current_span(name):
            yield

    def close(self) -> None:
        """Send what is still here."""
        if self._provider is not None:
            self._provider.shutdown()

    async def request(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request inside its span, which continues that of the caller."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        assert self._tracer is not None
        context = extract(dict(Headers(scope=scope)))
        method = str(scope["method"])
        with self._tracer.start_as_current_span(method, context=context, kind=SpanKind.SERVER) as span:
            span.set_attribute("http.request.method", method)
            span.set_attribute("request_id", REQUEST_ID.get() or "")

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            try:
                await app(scope, receive, watched)
            finally:
                route = route_of(scope)
                span.set_attribute("http.route", route)
                span.update_name(f"{method} {route}")


class Traced:
    """ASGI middleware: each request but those of monitors has a span."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self.app = app
        self.tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, traced."""
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self.app(scope, receive, send)
        else:
            await self.tracing.request(self.app, scope, receive, send)


def tracing_of(wanted: bool) -> Tracing:
    """The tracing that the settings ask for; WorkloadError where its extra is not installed."""
    if not wanted:
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        words = "traces need their extra: pip install 'gpu-cost-estimator[tracing]'"
        raise WorkloadError(words, field="tracing") from None
    resource = Resource({"service.name": NAME}).merge(Resource.create())  # OTEL_SERVICE_NAME wins
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
