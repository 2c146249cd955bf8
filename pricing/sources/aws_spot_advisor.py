"""How often does AWS take spot machines back? The Spot Advisor's buckets, looked up by their index. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from pricing.sources.base import FailureReason, InterruptionFact
from pricing.sources.patience import WireFault
from pricing.sources.readings import NotJson, listing, mapping, read_json

SOURCE = "aws:spot-advisor"
_LABEL = re.compile(r"\s*(?:(<)\s*(\d+)|(>)\s*(\d+)|(\d+)\s*-\s*(\d+))\s*%?\s*")


def interruptions(body: bytes, observed_at: datetime) -> list[InterruptionFact]:
    """Linux buckets of every (region, instance type) in the file; a bucket that no range explains is left out.

    `ranges` is not in index order, so a row's `r` is looked up by `index`, never by position; the bounds are read
    off the label (">20%" is above 20 with no upper bound). Raises WireFault for a file that is not the advisor's.
    """
    try:
        advisor = read_json(body)
    except NotJson as error:
        raise WireFault(FailureReason.MALFORMED, str(error), tries=WireFault.MANY) from None
    if not isinstance(advisor, dict) or not isinstance(advisor.get("spot_advisor"), dict):
        raise WireFault(FailureReason.NOT_THE_API, "not the spot advisor's file: spot_advisor missing")
    bounds: dict[int, tuple[float, float | None]] = {}
    for each in listing(advisor.get("ranges")):
        index, label = mapping(each).get("index"), mapping(each).get("label")
        match = _LABEL.fullmatch(label) if isinstance(label, str) and len(label) < 40 else None
        if match and isinstance(index, int) and not isinstance(index, bool):
            below, most, above, least, low, high = match.groups()
            bounds[index] = (
                (0.0, float(most)) if below else (float(least), None) if above else (float(low), float(high))
            )
    if not bounds:
        raise WireFault(FailureReason.MALFORMED, "the spot advisor's file has no ranges")
    facts: list[InterruptionFact] = []
    for region, systems in advisor["spot_advisor"].items():
        for instance_type, row in mapping(mapping(systems).get("Linux")).items():
            bucket, saving = mapping(row).get("r"), mapping(row).get("s")
            if not isinstance(bucket, int) or isinstance(bucket, bool) or bucket not in bounds:
                continue
            low_pct, high_pct = bounds[bucket]
            known = isinstance(saving, int) and not isinstance(saving, bool) and 0 <= saving <= 100
            facts.append(
                InterruptionFact(
                    cloud="aws",
                    region=region,
                    instance_type=instance_type,
                    low_pct=low_pct,
                    high_pct=high_pct,
                    savings_pct=float(saving) if known and isinstance(saving, int) else None,
                    observed_at=observed_at,
                    source=SOURCE,
                )
            )
    return facts
