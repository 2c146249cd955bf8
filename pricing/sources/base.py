"""What is a source of prices? The one interface that every file in `pricing/sources/` fills, and the values it yields.

A live source is a module with two functions and a name:

    NAME: str                                                        # "aws", "gcp", "azure", ...: also the cloud
    def scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]
    def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]

`scopes` splits the work into pieces that can be fetched side by side (AWS and Azure: one per region; GCP: one for
all, because its catalogue knows no regions). It may ask the cloud for its regions. It raises `SourceUnavailable`
when nothing can be fetched at all, saying what is missing ("no AWS credentials: set AWS_ACCESS_KEY_ID ...").

`fetch` yields, in any order:

* `PriceSet`: every price of one (cloud, region, market), *complete*. Yield a set only when its last page has been
  read and understood; a set is switched into the store as a whole. A region that truly sells nothing of the kind
  yields a set without observations (the gate then decides whether to believe it).
* `Failure`: this (cloud, region, market) could not be had whole, and why. The last good set stays. Every region and
  market of the scope ends in exactly one `PriceSet` or `Failure`: nothing is swallowed.
* `InstanceType`: machine facts read from the cloud (new types first of all). `gpu` is a canonical name of
  `benchmarks_db`, or None for an accelerator that no table knows (then `notes` keeps the cloud's own word).
* `InterruptionFact`: a statistic of how often spot machines are taken back.

Sources fetch and translate; they judge nothing but what the wire format itself says (Windows, another tenancy, a
Capacity Block, a reservation total are not Linux on-demand and are left out silently; a row that should have been
a price and cannot be read becomes a `Rejection` in the set). Plausibility is `pricing.quality`'s business: zero,
negative, jumps, spot above on-demand, shrunk sets, duplicates. Retries and back-off (at most `settings.tries`, full
jitter, within `settings.deadline_s` of wall clock per scope) are the source's own business; `fetch` must not raise
for what the network or the cloud does: it yields a `Failure`. What does escape is caught by the refresh and recorded
as a failure of the whole scope.

No clock and no environment is read here or in a source: `settings.clock()` tells the time, and everything the
environment may say is a field of `SourceSettings` (boto3's own credential chain excepted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from pricing.instances import InstanceType
from pricing.interruptions import InterruptionFact as InterruptionFact
from pricing.offers import Market


class FailureReason(StrEnum):
    """Why a (cloud, region, market) could not be fetched, as far as it changes what a person should do."""

    NOT_CONFIGURED = "not-configured"  # no credentials, project or extra: skipped, `detail` says what is missing
    CREDENTIALS = "credentials"  # refused or expired: all regions
    PERMISSION = "permission"  # a right is missing: `detail` names it
    REGION_OFF = "region-off"  # not enabled for this account: no price here is not "no price"
    THROTTLED = "throttled"  # still refused after the retries
    UNREACHABLE = "unreachable"  # DNS, refused, TLS, proxy
    TIMEOUT = "timeout"  # deadline of the scope passed
    SERVER_ERROR = "server-error"  # 5xx after the retries
    NOT_THE_API = "not-the-api"  # HTML with 200, wrong content type, a redirect to another host
    MALFORMED = "malformed"  # cut off, not parseable, a required key is missing
    PAGING = "paging"  # a repeated token, a page cap, an expired token twice
    PARTIAL = "partial"  # the cloud itself says that part is missing (unreachables)
    SUSPECT = "suspect"  # whole, but not believed (set by the gate, not by sources)
    INTERNAL = "internal"  # our own mistake


@dataclass(frozen=True, slots=True)
class Observation:
    """One price as a source states it, before anybody judged it.

    `price_usd_per_hour` is for one whole instance, Linux, pay as you go. `effective_at` is the cloud's own stamp of
    the last change where it gives one (AWS spot: weeks-old stamps are valid prices); the age of a price counts from
    the set's `fetched_at`, not from it. `raw_id` is the sku or meter the price came from, for people who look closer.
    """

    cloud: str
    region: str
    instance_type: str
    market: Market
    price_usd_per_hour: Decimal
    zone: str | None = None  # us-east-1a, us-central1-a; None where the price is regional
    zone_id: str | None = None  # AWS only: use1-az6
    effective_at: datetime | None = None
    raw_id: str | None = None
    gpu: str | None = None  # canonical name; None = unknown accelerator
    gpus_per_node: float | None = None  # fractions allowed


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that should have been a price and could not be read or believed; `detail` quotes what was wrong.

    A reason that begins with "no price" is not a fault: the cloud lists the machine and states no (whole) price for
    it, so it becomes an unpriced row. All other reasons count towards the share above which a set is refused.
    """

    cloud: str
    region: str
    market: Market
    reason: str  # short and countable: "price missing", "currency CNY", "not a number"
    instance_type: str | None = None
    zone: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PriceSet:
    """All prices of one (cloud, region, market), whole: the unit that is switched at once.

    `source` is written to every price as it reaches a person, e.g. "aws:pricing", "aws:spot-history",
    "azure:retail", "gcp:catalog". `silent_zones` gave no answer: their last good prices stay, flagged, and their
    absence is neither a shrink nor the end of an offer.
    """

    cloud: str
    region: str
    market: Market
    source: str
    fetched_at: datetime
    observations: tuple[Observation, ...]
    rejected: tuple[Rejection, ...] = ()
    silent_zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """One (cloud, region, market) that could not be fetched; None in `region` or `market` means all of the scope.

    `prices` is False where something else failed (reclaim statistics, machine facts): no price grows stale by it.
    """

    cloud: str
    region: str | None
    market: Market | None
    reason: FailureReason
    detail: str
    source: str
    prices: bool = True


Fetched = PriceSet | Failure | InstanceType | InterruptionFact


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a refresh asks for. Empty `regions` = all; entries are canonical names or globs (`us-*`)."""

    regions: tuple[str, ...] = ()
    markets: frozenset[Market] = frozenset({Market.ON_DEMAND, Market.SPOT})
    interruptions: bool = True

    def wants(self, region: str) -> bool:
        """Whether this region is asked for (case ignored, globs as in `fnmatch`)."""
        from fnmatch import fnmatchcase

        return not self.regions or any(fnmatchcase(region.casefold(), asked.casefold()) for asked in self.regions)


@dataclass(frozen=True, slots=True)
class Scope:
    """One piece of a refresh. `region` None = the source goes through all regions of `wanted` in one go."""

    cloud: str
    region: str | None
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def name(self) -> str:
        """For progress and messages: `aws us-east-1`, `gcp`."""
        return f"{self.cloud} {self.region}" if self.region else self.cloud


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Everything a source may need to know, decided at the edge (`settings_from_environment`)."""

    clock: Callable[[], datetime]
    deadline_s: float = 120.0  # wall clock for one scope, all pages and retries
    tries: int = 4  # attempts per request, first one included
    read_timeout_s: float = 20.0
    connect_timeout_s: float = 5.0
    max_pages: int = 400  # per listing; reaching it is an error, never a short list
    max_body_bytes: int = 256 * 2**20  # decoded, per reply
    max_workers: int = 8  # threads a source may use inside one scope
    backoff_cap_s: float = 20.0  # also caps Retry-After
    aws_pricing_url: str | None = None  # AWS_ENDPOINT_URL_PRICING (botocore reads it by itself too)
    aws_ec2_url: str | None = None  # AWS_ENDPOINT_URL_EC2
    aws_sts_url: str | None = None  # AWS_ENDPOINT_URL_STS
    aws_bulk_url: str | None = None  # bare base; `/offers/v1.0/aws/...` is appended
    aws_spot_advisor_url: str | None = None  # full URL
    gcp_billing_endpoint: str | None = None  # http://host:port
    gcp_compute_endpoint: str | None = None
    gcp_project: str | None = None
    gcp_api_key: str | None = field(default=None, repr=False)
    azure_retail_url: str | None = None  # full URL
    azure_graph_url: str | None = None  # full URL of Azure Resource Graph
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)  # the clouds' own credential variables


def settings_from_environment(
    environ: Mapping[str, str], clock: Callable[[], datetime], **changes: float | int
) -> SourceSettings:
    """Settings as the environment (a mapping passed in by the edge) states them; `changes` win over defaults."""

    def read(name: str) -> str | None:
        return environ.get(name) or None

    return SourceSettings(
        clock=clock,
        aws_pricing_url=read("AWS_ENDPOINT_URL_PRICING"),
        aws_ec2_url=read("AWS_ENDPOINT_URL_EC2"),
        aws_sts_url=read("AWS_ENDPOINT_URL_STS"),
        aws_bulk_url=read("ESTIMATOR_AWS_BULK_URL"),
        aws_spot_advisor_url=read("ESTIMATOR_AWS_SPOT_ADVISOR_URL"),
        gcp_billing_endpoint=read("ESTIMATOR_GCP_BILLING_ENDPOINT"),
        gcp_compute_endpoint=read("ESTIMATOR_GCP_COMPUTE_ENDPOINT"),
        gcp_project=read("ESTIMATOR_GCP_PROJECT"),
        gcp_api_key=read("ESTIMATOR_GCP_API_KEY"),
        azure_retail_url=read("ESTIMATOR_AZURE_RETAIL_URL"),
        azure_graph_url=read("ESTIMATOR_AZURE_GRAPH_URL"),
        environ=dict(environ),
        **changes,  # type: ignore[arg-type]
    )


class SourceUnavailable(Exception):  # noqa: N818  (reads as what happened)
    """A source cannot be asked at all (no credentials, an extra not installed): skipped, saying what is missing."""

    def __init__(self, cloud: str, missing: str) -> None:
        self.cloud = cloud
        self.missing = missing
        super().__init__(f"{cloud}: {missing}")


class Source(Protocol):
    """The two functions, for type checkers: a module of `pricing/sources/` satisfies it."""

    NAME: str

    def scopes(self, wanted: Wanted, settings: SourceSettings) -> list[Scope]:
        """The pieces of work; raises SourceUnavailable."""

    def fetch(self, scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
        """What one piece yields; see the module docstring."""
