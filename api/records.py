"""How do offers and measurements look on the wire? Rows of the listings that no domain type already describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from benchmarks_db import measurements
from pricing.market import Market, Offer, PriceState


class OfferRow(BaseModel):
    """An instance type in a place and a market, at a price of one instance."""

    model_config = ConfigDict(frozen=True)

    cloud: str
    region: str | None = Field(description="null = no region is known to sell it")
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: Market
    gpu: str | None
    gpus_per_node: float | None
    price_usd_per_hour: float | None = Field(description="of one instance; null = unpriced")
    source: str
    observed_at: datetime | None = Field(description="when a source last stated the price, UTC")
    state: PriceState
    ranked: bool = Field(description="whether plans may use it")
    note: str | None = Field(description="why the price is stale or the offer is not ranked")
    list_price_usd_per_hour: float | None = Field(None, description="what the list says, where one pays otherwise")
    term_hours: float | None = Field(None, description="length of a commitment, or fixed time of a prepaid block")
    break_even_hours: float | None = Field(None, description="use within the term beyond which on demand is dearer")
    upfront_usd: float | None = Field(None, description="paid before a prepaid block begins, for one instance")


class Measured(BaseModel):
    """A measured training throughput; null = not stated by the source."""

    model_config = ConfigDict(frozen=True)

    id: str
    source: str
    date: str | None
    model: str | None
    task: str | None
    params_m: float | None
    gpu: str | None
    gpus: float | None
    nodes: float | None
    precision: str | None
    micro_batch: float | None
    global_batch: float | None
    seq_len: float | None
    image_size: float | None
    framework: str | None
    throughput: float | None
    unit: str | None
    scope: str | None
    quality: str | None
    notes: str | None


def offer_key(offer: Offer) -> tuple[str, ...]:
    """What tells one offer from every other one, and the order of the listing."""
    place = (offer.cloud, offer.region or "", offer.zone or "", offer.zone_id or "")
    return (*place, offer.instance_type, offer.market, offer.source)


def offer_rows(offers: Iterable[Offer]) -> list[OfferRow]:
    """Offers as rows of the listing."""
    return [OfferRow.model_validate(offer.document()) for offer in offers]


def _measured(row: Mapping[str, str]) -> Measured:
    return Measured.model_validate({name: row[name] or None for name in Measured.model_fields})


@cache
def measured_rows() -> tuple[Measured, ...]:
    """Every shipped measurement, built once for the life of the process."""
    return tuple(_measured(row) for row in measurements.load().rows())
