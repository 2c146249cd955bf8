"""How does a refresh talk to AWS? boto3 clients with bounded bodies, and AWS's errors in the words of a source."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pricing.sources.base import FailureReason, SourceSettings
from pricing.sources.body_limits import limited, refuse_foreign
from pricing.sources.patience import HostGate, Patience, TokenExpired, WireFault
from pricing.sources.plain_http import is_loopback, retry_after_s, warn_of_clock_skew

T = TypeVar("T")

NO_CREDENTIALS = (
    "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile in AWS_PROFILE, "
    "or run on a machine with a role"
)
PRICING_REGION = "us-east-1"  # the price list API answers for all regions from the few where it lives

_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException", "SlowDown"}
_CREDENTIALS = {
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "RequestTimeTooSkewed",
    "IncompleteSignature",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
}
_PERMISSION = {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}
_REGION_OFF = {"AuthFailure", "OptInRequired"}
_TOKEN = {"ExpiredNextTokenException", "InvalidNextTokenException", "InvalidNextToken"}
_RIGHT = {
    "GetProducts": "pricing:GetProducts",
    "DescribeSpotPriceHistory": "ec2:DescribeSpotPriceHistory",
    "DescribeInstanceTypes": "ec2:DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings": "ec2:DescribeInstanceTypeOfferings",
    "DescribeRegions": "ec2:DescribeRegions",
    "GetCallerIdentity": "sts:GetCallerIdentity",
}


class AwsClients:
    """boto3 clients by service and region, made once and shared by the threads of a refresh."""

    def __init__(self, settings: SourceSettings) -> None:
        import boto3
        import botocore.session

        self.settings = settings
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}
        self._gates: dict[str, HostGate] = {}
        core = botocore.session.Session()
        core.set_config_variable("metadata_service_timeout", 1)
        core.set_config_variable("metadata_service_num_attempts", 1)
        if not _on_ec2():  # the role of a machine can only be asked for on one; elsewhere it costs seconds
            core.get_component("credential_provider").remove("iam-role")
        given = {
            name: settings.environ.get(f"AWS_{name.upper()}") or None for name in ("access_key_id", "secret_access_key")
        }
        both = all(given.values())  # half a key is left to botocore, which says what is missing
        self._until = threading.local()
        self._session: Any = boto3.Session(
            aws_access_key_id=given["access_key_id"] if both else None,
            aws_secret_access_key=given["secret_access_key"] if both else None,
            aws_session_token=settings.environ.get("AWS_SESSION_TOKEN") or None if both else None,
            botocore_session=core,
        )

    def has_credentials(self) -> bool:
        """Whether the credential chain finds any; never raises."""
        from botocore.exceptions import BotoCoreError

        try:
            with self._lock:
                return self._session.get_credentials() is not None
        except BotoCoreError:  # half a key, an unknown profile, a broken file
            return False

    def known_regions(self) -> list[str]:
        """The regions that botocore ships with: a guess for when AWS cannot be asked."""
        return [str(name) for name in self._session.get_available_regions("ec2")]

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        urls = {
            "pricing": self.settings.aws_pricing_url,
            "ec2": self.settings.aws_ec2_url,
            "sts": self.settings.aws_sts_url,
        }
        with self._lock:
            if (service, region) not in self._clients:
                url = urls[service]
                config = Config(
                    retries={"total_max_attempts": 1, "mode": "standard"},
                    connect_timeout=self.settings.connect_timeout_s,
                    read_timeout=self.settings.read_timeout_s,
                    max_pool_connections=32,
                    proxies={} if url and is_loopback(url) else None,
                )
                client = self._session.client(service, region_name=region, endpoint_url=url, config=config)
                client._endpoint.http_session = _Bounded(client._endpoint.http_session, self.settings, self._until)
                self._clients[service, region] = client
            return self._clients[service, region]

    def _gate(self, client: Any) -> HostGate:
        with self._lock:
            return self._gates.setdefault(client.meta.endpoint_url, HostGate())

    def ask(
        self, patience: Patience, service: str, region: str, operation: str, needs: str, **asked: Any
    ) -> dict[str, Any]:
        """The reply to one call of the API, `operation` named as on the wire; raises WireFault.

        `needs` is the key that every reply of this operation has: botocore makes an empty reply of a body that is
        cut off, without an error.
        """
        from botocore import xform_name

        try:
            client = self._client(service, region)
        except Exception as error:  # an unknown profile, a malformed endpoint, ...
            raise fault_of(error, operation) from None
        call: Callable[..., dict[str, Any]] = getattr(client, xform_name(operation))

        def once() -> dict[str, Any]:
            self._until.deadline = patience.deadline
            try:
                reply = call(**asked)
            except Exception as error:
                raise fault_of(error, operation) from None
            if needs not in reply:
                raise WireFault(
                    FailureReason.MALFORMED,
                    f"{operation}: cut off or not its reply, {needs} missing",
                    tries=WireFault.MANY,
                )
            headers = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            warn_of_clock_skew(headers.get("date"), self.settings.clock(), urlsplit(client.meta.endpoint_url).netloc)
            return reply

        return patience.call(self._gate(client), once)


class _Bounded:
    """A botocore HTTP session that reads bodies with a limit of size and time, and checks that they are whole.

    botocore itself reads whatever comes, does not compare the length with what was announced, and takes a web page
    for an empty reply of the API.
    """

    def __init__(self, inner: Any, settings: SourceSettings, until: threading.local) -> None:
        self._inner = inner
        self._settings = settings
        self._until = until  # its `deadline` is that of the scope whose thread is asking

    def send(self, request: Any) -> Any:
        request.stream_output = True
        reply = self._inner.send(request)
        try:
            return self._read(reply, str(request.url))
        except BaseException:
            reply.raw.close()
            raise

    def _read(self, reply: Any, url: str) -> Any:
        status, kind = reply.status_code, str(reply.headers.get("content-type", ""))
        if 200 <= status < 300:
            refuse_foreign(kind)
        elif 300 <= status < 400:
            target = str(reply.headers.get("location", "?"))[:120]
            raise WireFault(FailureReason.NOT_THE_API, f"redirected to {target}")
        elif status >= 500 and "xml" not in kind and "amz-json" not in kind:
            detail = f"HTTP {status} ({kind[:60]}), not from the service itself"
            raise WireFault(FailureReason.SERVER_ERROR, detail, tries=WireFault.MANY)
        headers = {key.lower(): value for key, value in reply.headers.items()}
        pieces = limited(
            _raw(reply.raw, url),
            headers,
            max_bytes=self._settings.max_body_bytes,
            deadline=getattr(self._until, "deadline", float("inf")),
        )
        reply._content = b"".join(pieces)
        reply.headers.pop("content-encoding", None)
        return reply

    def close(self) -> None:
        self._inner.close()


def _raw(raw: Any, url: str) -> Any:
    """The bytes as they come, in whatever portions; urllib3's errors become botocore's."""
    from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import ReadTimeoutError as RawReadTimeout

    try:
        while piece := raw.read1(1 << 16, decode_content=False) if hasattr(raw, "read1") else raw.read(1 << 16):
            yield piece
    except RawReadTimeout as error:
        raise ReadTimeoutError(endpoint_url=url, error=error) from None
    except (HTTPError, OSError) as error:
        raise ConnectionClosedError(endpoint_url=url, error=error) from None


def fault_of(error: Exception, operation: str) -> WireFault:
    """What an exception of boto3 means for a source."""
    from botocore import exceptions as boto

    many = WireFault.MANY
    if isinstance(error, WireFault):
        return error
    if isinstance(error, boto.ClientError):
        return _refused(error, operation)
    if isinstance(error, boto.NoCredentialsError):
        return WireFault(FailureReason.NOT_CONFIGURED, NO_CREDENTIALS)
    if isinstance(error, boto.PartialCredentialsError | boto.CredentialRetrievalError | boto.ProfileNotFound):
        return WireFault(FailureReason.CREDENTIALS, f"AWS credentials cannot be used: {error}")
    if isinstance(error, boto.ReadTimeoutError | boto.ConnectTimeoutError):
        return WireFault(FailureReason.TIMEOUT, f"{operation}: no answer in time", tries=2)
    if isinstance(error, boto.ConnectionClosedError):
        return WireFault(FailureReason.UNREACHABLE, f"{operation}: connection lost", tries=many)
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError):
        return WireFault(FailureReason.UNREACHABLE, f"{operation}: {error}", tries=2)
    if type(error).__name__ == "ResponseParserError":
        return WireFault(FailureReason.MALFORMED, f"{operation}: reply not readable: {str(error)[:200]}", tries=many)
    return WireFault(FailureReason.MALFORMED, f"{operation}: {type(error).__name__} {str(error)[:200]}")


def _refused(error: Any, operation: str) -> WireFault:
    said = error.response.get("Error", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))[:200]
    metadata = error.response.get("ResponseMetadata", {})
    status, headers = metadata.get("HTTPStatusCode", 0), metadata.get("HTTPHeaders", {})
    detail = f"{operation}: {code} {message}".strip()
    wait = retry_after_s(headers.get("retry-after"), headers.get("date"))
    if code in _THROTTLED or status == 429:
        return WireFault(FailureReason.THROTTLED, detail, tries=WireFault.MANY, retry_after_s=wait)
    if code in _TOKEN:
        return TokenExpired(detail)
    if code in _CREDENTIALS:
        return WireFault(FailureReason.CREDENTIALS, f"AWS refused the credentials: {detail}")
    if code in _PERMISSION:
        return WireFault(FailureReason.PERMISSION, f"missing right {_RIGHT.get(operation, operation)}: {detail}")
    if code in _REGION_OFF:
        return WireFault(FailureReason.REGION_OFF, f"region not enabled for this account: {detail}")
    if isinstance(status, int) and status >= 500:
        return WireFault(FailureReason.SERVER_ERROR, detail, tries=WireFault.MANY, retry_after_s=wait)
    return WireFault(FailureReason.INTERNAL, detail)


def _on_ec2() -> bool:
    """Whether this machine says that it is one of Amazon's (its firmware's vendor)."""
    for place in ("/sys/devices/virtual/dmi/id/sys_vendor", "/sys/devices/virtual/dmi/id/board_vendor"):
        try:
            if "Amazon" in Path(place).read_text(encoding="utf-8", errors="replace")[:100]:
                return True
        except OSError:
            continue
    return False
