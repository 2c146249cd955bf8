"""How does a refresh talk to Google Cloud? Its client libraries with bounded bodies, and their errors as faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pricing.sources.base import FailureReason, SourceSettings, SourceUnavailable
from pricing.sources.body_limits import limited, refuse_foreign
from pricing.sources.gcp_skus import part_of
from pricing.sources.patience import HostGate, Patience, TokenExpired, WireFault
from pricing.sources.plain_http import is_loopback, retry_after_s, same_host, warn_of_clock_skew
from pricing.sources.readings import mapping

T = TypeVar("T")

COMPUTE_ENGINE = "services/6F81-5844-456A"
NO_CREDENTIALS = (
    "no Google Cloud credentials: set ESTIMATOR_GCP_API_KEY (prices) or GOOGLE_APPLICATION_CREDENTIALS, "
    "or run `gcloud auth application-default login`"
)
NO_PROJECT = "no Google Cloud project: set ESTIMATOR_GCP_PROJECT"
_SCOPES = (
    "https://www.googleapis.com/auth/cloud-billing.readonly",
    "https://www.googleapis.com/auth/compute.readonly",
)
_MOST_BODY_BYTES = 64 * 2**20
_PAGE_SKUS = 5000
_PAGE_COMPUTE = 500


class GcpClients:
    """The clients of one refresh; `compute` is possible only with credentials and a project."""

    def __init__(self, settings: SourceSettings) -> None:
        """Raises SourceUnavailable when an extra or every credential is missing."""
        try:
            import google.auth.credentials  # noqa: F401
            from google.cloud import billing_v1, compute_v1  # noqa: F401
        except ImportError as error:
            missing = f"the extra `gcp` is not installed (pip install 'gpu-cost-estimator[gcp]'): {error}"
            raise SourceUnavailable("gcp", missing) from None
        self.settings = settings
        self._billing_gate, self._compute_gate = HostGate(), HostGate()
        self._until = threading.local()
        billing_local = is_loopback(settings.gcp_billing_endpoint or "")
        compute_local = is_loopback(settings.gcp_compute_endpoint or "")
        found, found_project = (None, None)
        if not (compute_local and (billing_local or settings.gcp_api_key)):
            found, found_project = _default_credentials(settings)
        self._credentials = found
        self.project = settings.gcp_project or found_project or settings.environ.get("GOOGLE_CLOUD_PROJECT")
        if not (billing_local or settings.gcp_api_key or found):
            raise SourceUnavailable("gcp", NO_CREDENTIALS)
        self.compute_missing = (
            ""
            if (compute_local or found) and self.project
            else NO_PROJECT
            if compute_local or found
            else NO_CREDENTIALS
        )
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def _client(self, name: str) -> Any:
        from google.api_core.client_options import ClientOptions
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import billing_v1, compute_v1

        with self._lock:
            if name not in self._made:
                billing = name == "billing"
                endpoint = self.settings.gcp_billing_endpoint if billing else self.settings.gcp_compute_endpoint
                options: dict[str, Any] = {"api_endpoint": endpoint} if endpoint else {}
                credentials = self._credentials
                if endpoint and is_loopback(endpoint):
                    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
                elif billing and self.settings.gcp_api_key:
                    options["api_key"], credentials = self.settings.gcp_api_key, None
                given: dict[str, Any] = {"credentials": credentials, "client_options": ClientOptions(**options)}
                makers: Mapping[str, Callable[[], Any]] = {
                    "billing": lambda: billing_v1.CloudCatalogClient(transport="rest", **given),
                    "machines": lambda: compute_v1.MachineTypesClient(**given),
                    "accelerators": lambda: compute_v1.AcceleratorTypesClient(**given),
                }
                client = makers[name]()
                session = client.transport._session
                adapter = _bounded_adapter(self.settings, self._until, slim_skus if billing else slim_machines)
                session.mount("https://", adapter)
                session.mount("http://", adapter)
                session.trust_env = not (endpoint and is_loopback(endpoint))
                self._made[name] = client
            return self._made[name]

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            for client in self._made.values():
                client.transport.close()
            self._made.clear()

    def _ask(self, patience: Patience, gate: HostGate, what: str, call: Callable[[], T]) -> T:
        def once() -> T:
            self._until.deadline = patience.deadline
            try:
                return call()
            except Exception as error:
                raise fault_of(error, what) from None

        return patience.call(gate, once)

    def sku_page(self, patience: Patience, token: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """One page of Compute Engine SKUs in JSON shape (those that can price a part of a machine), next token."""
        from google.cloud import billing_v1
        from google.protobuf.json_format import MessageToDict

        request = billing_v1.ListSkusRequest(
            parent=COMPUTE_ENGINE, page_size=_PAGE_SKUS, page_token=token or "", currency_code="USD"
        )

        def call() -> Any:
            client = self._client("billing")
            pager = client.list_skus(request=request, retry=None, timeout=self.settings.read_timeout_s)
            return next(iter(pager.pages))

        page = self._ask(patience, self._billing_gate, "ListSkus", call)
        message = type(page).pb(page)
        return [MessageToDict(sku) for sku in message.skus], message.next_page_token or None

    def compute_page(
        self, patience: Patience, kind: str, token: str | None
    ) -> tuple[dict[str, Any], list[str], str | None]:
        """One page of an aggregated list ("machines" or "accelerators"): items in JSON shape, zones that did not
        answer, next token. Machines without accelerators are left out but for N1 hosts."""
        from google.cloud import compute_v1
        from google.protobuf.json_format import MessageToDict

        asked = {"project": self.project, "max_results": _PAGE_COMPUTE, "page_token": token or ""}
        machines = kind == "machines"
        request = (
            compute_v1.AggregatedListMachineTypesRequest(**asked)
            if machines
            else compute_v1.AggregatedListAcceleratorTypesRequest(**asked)
        )

        def call() -> Any:
            client = self._client(kind)
            pager = client.aggregated_list(request=request, retry=None, timeout=self.settings.read_timeout_s)
            return next(iter(pager.pages))

        page = self._ask(patience, self._compute_gate, f"{kind} aggregatedList", call)
        message = type(page).pb(page)
        items: dict[str, Any] = {}
        for scope, part in message.items.items():
            rows = part.machine_types if machines else part.accelerator_types
            items[scope] = {"machineTypes" if machines else "acceleratorTypes": [MessageToDict(row) for row in rows]}
        return items, list(message.unreachables), message.next_page_token or None


def _default_credentials(settings: SourceSettings) -> tuple[Any, str | None]:
    """Application default credentials and their project, or nothing.

    The metadata server is asked only on Google's own hosts: elsewhere it takes many seconds to find that there is none.
    """
    import google.auth
    import google.auth.exceptions
    from google.auth import _cloud_sdk

    named = settings.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    well_known = Path(_cloud_sdk.get_application_default_credentials_path())  # type: ignore[no-untyped-call]
    if not named and not well_known.is_file() and not _on_google(settings.environ):
        return None, None
    try:
        credentials, project = google.auth.default(scopes=_SCOPES)
    except (google.auth.exceptions.GoogleAuthError, OSError, ValueError):
        return None, None
    return credentials, project


def _on_google(environ: Mapping[str, str]) -> bool:
    if environ.get("K_SERVICE") or environ.get("GAE_ENV") or environ.get("GCE_METADATA_HOST"):
        return True
    try:
        name = Path("/sys/class/dmi/id/product_name").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "Google" in name[:100]


def slim_skus(page: dict[str, Any]) -> None:
    """Takes out of a page of SKUs all but those that can price a part of a machine: 1 in 30."""
    rows = page.get("skus")
    if isinstance(rows, list):
        page["skus"] = [
            row
            for row in rows
            if not isinstance(row, dict) or part_of(row.get("description"), mapping(row.get("category"))) is not None
        ]


def slim_machines(page: dict[str, Any]) -> None:
    """Takes out of a page of machine types those without accelerators, but for N1 hosts."""
    for part in mapping(page.get("items")).values():
        rows = mapping(part).get("machineTypes")
        if isinstance(rows, list):
            part["machineTypes"] = [
                row
                for row in rows
                if not isinstance(row, dict) or row.get("accelerators") or str(row.get("name")).startswith("n1-")
            ]


def _slimmed(body: bytes, slim: Callable[[dict[str, Any]], None]) -> bytes:
    """The body with the rows taken out that nobody needs: Google's library takes 20 times longer to decode a row.

    A body that is no JSON object stays as it is: the library says what is wrong with it.
    """
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(page, dict):
        return body
    slim(page)
    return json.dumps(page).encode()


def _bounded_adapter(settings: SourceSettings, until: threading.local, slim: Callable[[dict[str, Any]], None]) -> Any:
    """A requests adapter that reads bodies with a limit of size and time, and refuses web pages and other hosts."""
    import requests.adapters

    class Bounded(requests.adapters.HTTPAdapter):
        def send(self, request: Any, *args: Any, **more: Any) -> Any:
            more.update(stream=True, timeout=(settings.connect_timeout_s, settings.read_timeout_s))
            reply = super().send(request, **more)
            try:
                if reply.is_redirect:
                    target = reply.headers.get("location", "")
                    if not same_host(str(request.url), target):
                        raise WireFault(FailureReason.NOT_THE_API, f"redirected to another host: {target[:120]}")
                if reply.status_code == 200:
                    refuse_foreign(reply.headers.get("content-type"))
                warn_of_clock_skew(reply.headers.get("date"), settings.clock(), urlsplit(str(request.url)).netloc)
                headers = {key.lower(): value for key, value in reply.headers.items()}
                pieces = limited(
                    _raw(reply.raw),
                    headers,
                    max_bytes=min(settings.max_body_bytes, _MOST_BODY_BYTES),
                    deadline=getattr(until, "deadline", float("inf")),
                )
                body = b"".join(pieces)
                reply._content = _slimmed(body, slim) if reply.status_code == 200 else body
                reply._content_consumed = True
            except BaseException:
                reply.close()
                raise
            return reply

    return Bounded()


def _raw(raw: Any) -> Iterator[bytes]:
    while piece := raw.read1(1 << 16, decode_content=False):
        yield piece


def fault_of(error: Exception, what: str) -> WireFault:
    """What an exception of Google's libraries (or of requests below them) means for a source."""
    import requests.exceptions as http
    import urllib3.exceptions as raw
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.protobuf.json_format import ParseError

    many = WireFault.MANY
    if isinstance(error, WireFault):
        return error
    if isinstance(error, GoogleAPICallError):
        return _refused(error, what)
    if isinstance(error, ParseError):
        return WireFault(FailureReason.MALFORMED, f"{what}: not its reply: {str(error)[:200]}", tries=many)
    if isinstance(error, http.Timeout | raw.TimeoutError):
        return WireFault(FailureReason.TIMEOUT, f"{what}: no answer in time", tries=2)
    if isinstance(error, http.SSLError | http.ProxyError | http.InvalidURL | http.InvalidSchema):
        return WireFault(FailureReason.UNREACHABLE, f"{what}: {str(error)[:200]}", tries=2)
    if isinstance(error, http.ConnectionError):
        lost = "aborted" in str(error) or "reset" in str(error)
        return WireFault(FailureReason.UNREACHABLE, f"{what}: {str(error)[:200]}", tries=many if lost else 2)
    if isinstance(error, http.RequestException | raw.HTTPError):
        return WireFault(FailureReason.MALFORMED, f"{what}: {type(error).__name__} {str(error)[:200]}", tries=many)
    if isinstance(error, TransportError):
        return WireFault(FailureReason.UNREACHABLE, f"{what}: {str(error)[:200]}", tries=2)
    if isinstance(error, GoogleAuthError):
        return WireFault(FailureReason.CREDENTIALS, f"Google refused the credentials: {str(error)[:200]}")
    return WireFault(FailureReason.MALFORMED, f"{what}: {type(error).__name__} {str(error)[:200]}", tries=2)


def _refused(error: Any, what: str) -> WireFault:
    status = int(error.code or 0)
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    wait = retry_after_s(headers.get("Retry-After"), headers.get("Date"))
    detail = f"{what}: HTTP {status} {str(error.message)[:200]}"
    if status in (408, 429):
        return WireFault(FailureReason.THROTTLED, detail, tries=WireFault.MANY, retry_after_s=wait)
    if status >= 500:
        return WireFault(FailureReason.SERVER_ERROR, detail, tries=WireFault.MANY, retry_after_s=wait)
    if status == 401 or (status == 400 and "API key" in detail):
        return WireFault(FailureReason.CREDENTIALS, f"Google refused the credentials: {detail}")
    if status == 403:
        right = (
            "the Cloud Billing API enabled"
            if what == "ListSkus"
            else "compute.machineTypes.list and acceleratorTypes.list"
        )
        return WireFault(FailureReason.PERMISSION, f"missing right ({right}): {detail}")
    if status == 400 and "oken" in detail:
        return TokenExpired(detail)
    if 300 <= status < 400:
        return WireFault(FailureReason.NOT_THE_API, detail)
    return WireFault(FailureReason.INTERNAL, detail)
