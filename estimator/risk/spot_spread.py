"""How far may a spot price be from the one that was seen, where no history tells how it moves?

What is known is how much places differ that rent the same machine on spot at one moment. A price is taken to wander
like a random walk of its logarithm until it is as uncertain as places differ:

    share  w = sqrt(min(1, (age + hours / 2) / SETTLED))
    above    = exp(w max(Z80 s, ln(median of all places / this price)))      one run in ten pays more than so many times
    below    = exp(-w Z80 s)                                                 ... less

with s the standard deviation of the logarithm over places, (ln q90 - ln q10) / (2 Z80). The cheapest of many places is
more likely to have been caught at a good moment, hence the distance to the median. Where fewer than `FEWEST` places
rent a machine, s is the median over those machines of the market of which more do. The median of the dollars stays that
of the price that was seen: no source says which way it went.

`SETTLED` is an assumption, 90 days: AWS keeps spot prices so long, and an older one is taken to say no more than where
it was seen. Between 30 days (GCP changes spot prices at most so often) and a year would be as good a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from estimator.risk.simulate import Z80
from pricing.offers import Market, OfferTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SETTLED_DAYS = 90.0
FEWEST = 3


@dataclass(frozen=True, slots=True)
class SpotSpread:
    """How places differ that rent the same machine on spot; arrays over the instance types of a market, NaN unknown."""

    log_sd: Floats
    median: Floats  # USD an hour
    places: Ints
    now: float  # seconds since 1970

    def age_days(self, table: OfferTable, offer: Ints) -> Floats:
        """Whole days since the prices of some offers were seen, 0 where nobody knows."""
        return np.nan_to_num(np.maximum(np.rint((self.now - table.observed[offer]) / 86400.0), 0.0))

    def around(self, table: OfferTable, offer: Ints, hours: Floats) -> tuple[Floats, Floats]:
        """(below, above): factors on the price of some spot offers over runs of `hours`, 1 for every other offer."""
        spot = table.where("market", lambda market: market == Market.SPOT)[offer]
        if len(self.places) != len(table.types) or not spot.any():
            return np.ones(len(offer)), np.ones(len(offer))
        kind = table.type_index[offer]
        share = np.sqrt(np.minimum((self.age_days(table, offer) + hours / 48.0) / SETTLED_DAYS, 1.0))
        own = Z80 * np.nan_to_num(self.log_sd[kind])
        with np.errstate(divide="ignore", invalid="ignore"):
            cheap = np.nan_to_num(np.log(self.median[kind] / table.usd_per_hour[offer]), posinf=0.0, neginf=0.0)
        above = np.exp(share * np.maximum(own, cheap))
        return np.where(spot, np.exp(-share * own), 1.0), np.where(spot, above, 1.0)


def spot_spread(table: OfferTable, now: datetime) -> SpotSpread:
    """The spread of a whole market, before any filter leaves places out."""
    spot = table.where("market", lambda market: market == Market.SPOT) & table.ranked & (table.usd_per_hour > 0)
    rows = np.flatnonzero(spot)
    rows = rows[np.lexsort((table.usd_per_hour[rows], table.type_index[rows]))]
    places = np.bincount(table.type_index[rows], minlength=len(table.types)).astype(np.int64)
    first = np.cumsum(places) - places
    prices = np.append(table.usd_per_hour[rows], np.nan)

    def quantile(share: float) -> Floats:
        at = first + share * np.maximum(places - 1, 0)
        below = np.minimum(np.floor(at).astype(np.int64), len(prices) - 1)
        above = np.minimum(np.ceil(at).astype(np.int64), len(prices) - 1)
        found = prices[below] + (prices[above] - prices[below]) * (at - below)
        return np.where(places >= FEWEST, found, np.nan)

    low, middle, high = (quantile(share) for share in (0.1, 0.5, 0.9))
    log_sd = np.log(high / low) / (2.0 * Z80)
    known = np.isfinite(log_sd)
    usual = float(np.median(log_sd[known])) if known.any() else 0.0
    return SpotSpread(np.where(known, log_sd, usual), middle, places, now.timestamp())


def widened(quantiles: Floats, below: Floats, above: Floats) -> Floats:
    """10%, 50% and 90% quantiles (rows) of a product with an independent factor of median 1; shape (3, n).

    Variances of logarithms add up on each side of the median, exactly so for log-normal figures.
    """
    middle, (up, down) = quantiles[1], _sides(quantiles)
    low, high = np.hypot(down, np.log(below)), np.hypot(up, np.log(above))
    return np.stack([middle * np.exp(-low), middle, middle * np.exp(high)])


def mean_factor(below: Floats, above: Floats) -> Floats:
    """The mean of a factor of median 1 that is log-normal on each side of it; shape (n,).

    With s above and t below: e^(s^2/2) Phi(s) + e^(t^2/2) Phi(-t).
    """
    up, down = np.log(above) / Z80, -np.log(below) / Z80
    return np.exp(up * up / 2.0) * _normal(up) + np.exp(down * down / 2.0) * _normal(-down)


def _normal(z: Floats) -> Floats:
    """The standard normal distribution function."""
    return np.array([0.5 * (1.0 + erf(value / sqrt(2.0))) for value in z.tolist()])


def _sides(quantiles: Floats) -> tuple[Floats, Floats]:
    low, middle, high = quantiles
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = np.log(high / middle), np.log(middle / low)
    return np.maximum(np.nan_to_num(up), 1e-9), np.maximum(np.nan_to_num(down), 1e-9)
