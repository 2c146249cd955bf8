"""When is somebody told that a price has come down (or gone up)? Once for each time that it crosses the limit.

An alert compares the cheapest of the offers it is about with a limit; only prices that are live count, because nobody
wants to be woken by an old one. What was last said is kept in the price database under the alert's own words, so that
a restart repeats nothing. It is told first and kept afterwards: a process killed in between tells once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from benchmarks_db.errors import EstimatorError, WorkloadError
from pricing.market import Offer, PriceState, iso
from pricing.store import Store

if TYPE_CHECKING:
    import httpx

CROSSED, WAITING = "crossed", "waiting"
COUNTED = (PriceState.LIVE, PriceState.OWN)
TRIES = 3
SECONDS = 10.0  # for one try of a webhook


class WebhookFailed(EstimatorError):  # noqa: N818  (reads as what happened)
    """The webhook did not take the message; it will be told again at the next look."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What is watched, in the words that were asked, and the limit (USD per hour of one instance, or of one GPU)."""

    what: str
    limit_usd: float
    above: bool = False
    per_gpu: bool = False
    clouds: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    market: str | None = None

    @property
    def id(self) -> str:
        """The same for the same words, whatever their order."""
        words = asdict(self) | {"clouds": sorted(self.clouds), "regions": sorted(self.regions)}
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:32]

    def price(self, offer: Offer) -> float | None:
        """The offer's price in the alert's unit; None where it is not known."""
        usd = offer.price_usd_per_hour
        if usd is None or not self.per_gpu:
            return usd
        return usd / offer.gpus_per_node if offer.gpus_per_node else None


@dataclass(frozen=True, slots=True)
class Seen:
    """One look: the cheapest live offer (None: no live price), whether the limit is crossed, and whether to tell."""

    offer: Offer | None
    usd: float | None
    state: str
    tell: bool


def look(alert: Alert, offers: Sequence[Offer], before: str | None) -> Seen:
    """Compare the cheapest live offer with the limit; `before` is the state of the look before (None = never).

    Without any live price nothing is said and the state stays.
    """
    priced = [(usd, offer) for offer in offers if offer.state in COUNTED and (usd := alert.price(offer)) is not None]
    if not priced:
        return Seen(None, None, before or WAITING, tell=False)
    usd, offer = min(priced, key=lambda pair: pair[0])
    crossed = usd > alert.limit_usd if alert.above else usd <= alert.limit_usd
    state = CROSSED if crossed else WAITING
    return Seen(offer, usd, state, tell=crossed and before != CROSSED)


def last_state(store: Store, alert: Alert) -> str | None:
    """What the look before found; None if there was none."""
    if not store.exists():
        return None
    with store.reading() as ask:
        rows = ask("SELECT last_state FROM alerts WHERE id = :id", id=alert.id)
    return str(rows[0][0]) if rows else None


def remember(store: Store, alert: Alert, seen: Seen, at: datetime) -> None:
    """Keep what this look found, and when somebody was told."""
    from sqlalchemy import text

    sql = """INSERT INTO alerts (id, last_state, last_usd, notified_at) VALUES (:id, :state, :usd, :told)
             ON CONFLICT (id) DO UPDATE SET last_state = excluded.last_state, last_usd = excluded.last_usd,
             notified_at = coalesce(excluded.notified_at, alerts.notified_at)"""
    values = {"id": alert.id, "state": seen.state, "usd": seen.usd, "told": at.timestamp() if seen.tell else None}
    with store.writing() as connection:
        connection.execute(text(sql), values)


def message(alert: Alert, seen: Seen, now: datetime) -> dict[str, Any]:
    """What a webhook is sent: `text` for people (Slack and its like show it), the rest for programs."""
    assert seen.offer is not None
    assert seen.usd is not None
    offer = seen.offer
    unit = "USD per GPU-hour" if alert.per_gpu else "USD per hour"
    place = " ".join(filter(None, (offer.cloud, offer.region, offer.zone or offer.zone_id)))
    crossed = "above" if alert.above else "at or below"
    text = (
        f"{alert.what}: {seen.usd:.4f} {unit}, {crossed} {alert.limit_usd:g} "
        f"({offer.instance_type} on {place}, {offer.market}, seen {iso(offer.observed_at)})"
    )
    return {
        "version": "1",
        "text": text,
        "alert": {"id": alert.id, "what": alert.what, "limit_usd": alert.limit_usd,
                  "direction": "above" if alert.above else "below", "per_gpu": alert.per_gpu},
        "usd": seen.usd,
        "offer": offer.document(),
        "at": iso(now),
    }  # fmt: skip


def checked_url(url: str, field: str) -> str:
    """The address of a webhook: http or https, with a host."""
    import httpx

    try:
        parts = httpx.URL(url)
        parts.host.encode("idna")  # what connecting would trip over
        port = 80 if parts.port is None else parts.port
        good = parts.scheme in ("http", "https") and bool(parts.host) and 0 < port < 65536
    except (httpx.InvalidURL, ValueError):
        good = False
    if not good:
        raise WorkloadError("is not an http(s) address", field=field, nearest=("https://hooks.example.com/...",))
    return url


def send(url: str, body: dict[str, Any], *, pause_s: float = 1.0) -> None:
    """Post a message; WebhookFailed when it was not taken within three tries (a refusal is final at once).

    Redirects are not followed, nothing of the answer is read, and the address (it holds a secret) is never printed.
    """
    import httpx
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    def passing(error: BaseException) -> bool:
        refused = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 503
        return isinstance(error, httpx.HTTPError) and (refused >= 500 or refused in (408, 429))

    try:
        with httpx.Client(timeout=httpx.Timeout(SECONDS, connect=5.0), trust_env=not _loopback(url)) as client:
            for attempt in Retrying(
                stop=stop_after_attempt(TRIES),
                wait=wait_random_exponential(multiplier=pause_s, max=10 * pause_s),
                retry=retry_if_exception(passing),
                reraise=True,
            ):
                with attempt:
                    _post(client, url, body)
    except httpx.HTTPStatusError as error:
        raise WebhookFailed(f"the webhook answered {error.response.status_code}", field="webhook") from None
    except httpx.HTTPError as error:
        raise WebhookFailed(f"the webhook did not answer: {type(error).__name__}", field="webhook") from None


def _loopback(url: str) -> bool:
    from pricing.sources.plain_http import is_loopback

    return is_loopback(url)


def _post(client: httpx.Client, url: str, body: dict[str, Any]) -> None:
    import httpx

    with client.stream("POST", url, json=body) as reply:
        if not reply.is_success:
            raise httpx.HTTPStatusError("refused", request=reply.request, response=reply)
