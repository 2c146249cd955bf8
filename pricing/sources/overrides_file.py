"""How does a customer write down what it pays? The YAML file of negotiated prices, checked key by key.

    discounts:                     # each matching rule applies, one after the other, to what the rules before left
      - {name: EDP 2026, cloud: aws, percent: 12, until: 2026-12-31}                    # on-demand, unless markets says
      - {name: EA, cloud: azure, instance_types: ['Standard_ND*'], markets: [on-demand, spot], percent: 20}
    commitments:                   # adds offers of the market `reserved` beside the on-demand ones
      - {name: 3-year CUD, cloud: gcp, instance_types: ['a3-*'], regions: ['us-*'], percent: 55, term: 3y}
      - {name: Savings Plan, cloud: aws, instance_types: [p5.48xlarge], usd_per_hour: 28.9, term: 1y}
    blocks:                        # prepaid capacity for a fixed time: adds offers of the market `block`
      - {name: October block, cloud: aws, regions: [us-east-2], instance_types: [p5.48xlarge], term: 14d,
         upfront_usd: 10450}       # for one instance; or usd_per_hour
    prices:                        # replaces the price, or adds an offer where there was none
      - {name: quote 4711, cloud: aws, region: us-east-1, instance_type: p5e.48xlarge, usd_per_hour: 39.8}

Every rule may have `from` and `until` (dates, the last day included). A price of 0 is refused: only own machines may
be free. Unknown keys, keys given twice and wrong values are refused with their line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks_db.errors import WorkloadError
from pricing.offers import BOUGHT, Market
from pricing.regions import resolve_cloud
from pricing.sources.overrides import Commitment, CustomPrice, Discount, Matching, Overrides, Rule, apply_overrides

if TYPE_CHECKING:
    from yaml import Node

    from pricing.offers import OfferTable

T = TypeVar("T")
MAX_RULES = 100  # of one request; each looks at all offers
MAX_BYTES = 4 * 2**20
HOURS = {"h": 1.0, "d": 24.0, "w": 168.0, "m": 730.0, "y": 8760.0}  # a month is a twelfth of a year
SECTIONS = ("discounts", "commitments", "blocks", "prices")
RULE_KEYS = ("name", "from", "until")
MATCH_KEYS = (*RULE_KEYS, "cloud", "regions", "instance_types", "markets")


def read_overrides(path: Path) -> Overrides:
    """The overrides of a YAML (or JSON) file; WorkloadError names the file, the line and the field."""
    import yaml

    def refuse(message: str) -> WorkloadError:
        return WorkloadError(message, field="overrides", value=str(path))

    try:
        if path.stat().st_size > MAX_BYTES:
            raise refuse(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        places: dict[str, str] = {}
        for name, line in _lines(root):
            if name in places:
                raise refuse(f"{path}, line {line}: {name} is given twice ({places[name]})")
            places[name] = f"{path}, line {line}"
        content = yaml.safe_load(text)
    except OSError as error:
        raise refuse(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise refuse(f"{path} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise refuse(f"{path} is not YAML{where}") from None
    except (ValueError, RecursionError) as error:  # 2026-13-45 where YAML expects a date; brackets without end
        raise refuse(f"{path} cannot be read: {str(error)[:200]}") from None
    try:
        return replace(overrides({} if content is None else content), places=places)
    except WorkloadError as error:
        rules = Overrides(places=places)
        named = error.field or "overrides"
        raise rules.error(error.message, named, error.value, error.nearest) from None


def _lines(root: Node | None) -> Iterator[tuple[str, int]]:
    """Every field of the file with the line it begins on: `discounts`, `discounts[0]`, `discounts[0].percent`."""
    import yaml

    todo: list[tuple[str, Node, int]] = [] if root is None else [("", root, 0)]
    while todo:
        name, node, depth = todo.pop()
        if depth > 3:
            continue
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                child = f"{name}.{key.value}".lstrip(".")
                yield child, key.start_mark.line + 1
                todo.append((child, value, depth + 1))
        elif isinstance(node, yaml.SequenceNode):
            for n, value in enumerate(node.value):
                yield f"{name}[{n}]", value.start_mark.line + 1
                todo.append((f"{name}[{n}]", value, depth + 1))


def overrides(content: object) -> Overrides:
    """The overrides of a mapping as in the module docstring; WorkloadError names the field."""
    entries = _mapping(content, "overrides", SECTIONS)
    return Overrides(
        discounts=tuple(_discount(e, f) for e, f in _entries(entries, "discounts")),
        commitments=(
            *(_commitment(e, f, Market.RESERVED) for e, f in _entries(entries, "commitments")),
            *(_commitment(e, f, Market.BLOCK) for e, f in _entries(entries, "blocks")),
        ),
        prices=tuple(_price(e, f) for e, f in _entries(entries, "prices")),
    )


def stated(content: object, field: str) -> Overrides:
    """The rules that a request carries itself under the key `field`, at most `MAX_RULES` of them.

    WorkloadError names the place below `field`.
    """
    rules = _below(field, lambda: overrides(content))
    if len(rules.discounts) + len(rules.commitments) + len(rules.prices) > MAX_RULES:
        raise WorkloadError(f"has more than {MAX_RULES} rules", field=field)
    return rules


def apply_stated(table: OfferTable, content: object, field: str, *, now: datetime) -> OfferTable:
    """The table as the rules of a request make it (see `stated`)."""
    rules = stated(content, field)
    return _below(field, lambda: apply_overrides(table, rules, now=now))


def _below(field: str, what: Callable[[], T]) -> T:
    try:
        return what()
    except WorkloadError as error:
        place = field if error.field in (None, "overrides") else f"{field}.{error.field}"
        raise WorkloadError(error.message, field=place, value=error.value, nearest=error.nearest) from None


def _mapping(value: object, field: str, known: Sequence[str]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise WorkloadError("must be a mapping", field=field, value=value)
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, n=2)
            raise WorkloadError(
                f"unknown key {key!r}; known are {', '.join(known)}",
                field=(str(key) or field) if field == "overrides" else f"{field}.{key}",
                value=key,
                nearest=near,
            )
    return value


def _entries(content: Mapping[str, object], kind: str) -> list[tuple[object, str]]:
    entries = content.get(kind)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise WorkloadError("must be a list of rules", field=kind, value=entries)
    return [(entry, f"{kind}[{n}]") for n, entry in enumerate(entries)]


def _discount(entry: object, field: str) -> Discount:
    values = _mapping(entry, field, (*MATCH_KEYS, "percent"))
    percent = _percent(values.get("percent"), f"{field}.percent")
    return Discount(_rule(values, field), _matching(values, field), percent)


def _commitment(entry: object, field: str, market: Market) -> Commitment:
    block = market is Market.BLOCK
    keys = tuple(key for key in MATCH_KEYS if key != "markets")
    prices = ("usd_per_hour", "upfront_usd") if block else ("percent", "usd_per_hour")
    values = _mapping(entry, field, (*keys, *prices, "term"))
    stated = [name for name in prices if values.get(name) is not None]
    if len(stated) != 1:
        raise WorkloadError(f"needs either {prices[0]} or {prices[1]}", field=field)
    if block and values.get("term") is None:
        raise WorkloadError("is needed: a block is paid for a fixed time", field=f"{field}.term", nearest=("14d",))
    term = None if values.get("term") is None else _term(values["term"], f"{field}.term")
    percent = usd = None
    if stated == ["percent"]:
        percent = _percent(values["percent"], f"{field}.percent")
    elif stated == ["usd_per_hour"]:
        usd = _usd(values["usd_per_hour"], f"{field}.usd_per_hour")
    else:
        paid = _number(values["upfront_usd"], f"{field}.upfront_usd")
        usd = _usd(paid / (term or 1.0), f"{field}.upfront_usd")
    return Commitment(_rule(values, field), _matching(values, field), market, percent, usd, term)


def _price(entry: object, field: str) -> CustomPrice:
    values = _mapping(entry, field, (*RULE_KEYS, "cloud", "region", "instance_type", "market", "usd_per_hour"))
    for key in ("cloud", "region", "instance_type", "usd_per_hour"):
        if values.get(key) in (None, ""):
            raise WorkloadError("is needed", field=f"{field}.{key}")
    return CustomPrice(
        _rule({"name": "overrides", **values}, field),
        resolve_cloud(str(values["cloud"]), field=f"{field}.cloud"),
        str(values["region"]),
        str(values["instance_type"]),
        _market(values.get("market", Market.ON_DEMAND), f"{field}.market"),
        _usd(values["usd_per_hour"], f"{field}.usd_per_hour"),
    )


def _rule(values: Mapping[str, object], field: str) -> Rule:
    name = values.get("name")
    text = "" if name is None else str(name).strip()
    if not text or len(text) > 60 or not text.isprintable():
        raise WorkloadError(
            "a name of 1 to 60 printable characters is needed: it is printed beside every price that it changes",
            field=f"{field}.name",
            value=name,
        )
    since, until = (_date(values.get(key), f"{field}.{key}") for key in ("from", "until"))
    if since and until and until < since:
        raise WorkloadError(f"ends ({until}) before it begins ({since})", field=f"{field}.until", value=str(until))
    return Rule(text, field, since, until)


def _date(value: object, field: str) -> date | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise WorkloadError(f"{value!r} is not a date", field=field, value=value, nearest=("2026-12-31",)) from None


def _matching(values: Mapping[str, object], field: str) -> Matching:
    cloud = values.get("cloud")
    markets = _texts(values.get("markets"), f"{field}.markets")
    return Matching(
        cloud=resolve_cloud(str(cloud), field=f"{field}.cloud") if cloud else None,
        regions=_texts(values.get("regions"), f"{field}.regions"),
        instance_types=_texts(values.get("instance_types"), f"{field}.instance_types"),
        markets=tuple(_market(m, f"{field}.markets") for m in markets) or (Market.ON_DEMAND,),
    )


def _texts(value: object, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise WorkloadError("must be a text or a list of texts", field=field, value=value)
    return tuple(value)


def _market(value: object, field: str) -> Market:
    names = [m.value for m in BOUGHT]
    if value not in names:
        near = get_close_matches(str(value), names, n=2)
        raise WorkloadError(f"{value!r} is not one of {', '.join(names)}", field=field, value=value, nearest=near)
    return Market(str(value))


def _term(value: object, field: str) -> float:
    """Hours of `3y`, `14d`, `2 weeks`, `36 months`, `168h`; a bare number is hours."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).casefold())
    unit = found[2] if found else ""
    names = {"hours": "h", "days": "d", "weeks": "w", "months": "m", "years": "y"}
    short = next((letter for word, letter in names.items() if unit in (letter, word, word[:-1])), None)
    if found is None or isinstance(value, bool) or (unit and short is None):
        raise WorkloadError(f"{value!r} is not a time", field=field, value=value, nearest=("14d", "3y"))
    hours = float(found[1]) * HOURS[short or "h"]
    if not 1 <= hours <= 10 * HOURS["y"]:
        raise WorkloadError("must be between 1 hour and 10 years", field=field, value=value)
    return hours


def _percent(value: object, field: str) -> float:
    number = _number(value, field)
    if not 0 < number < 100:
        raise WorkloadError("is percent off the list price, between 0 and 100", field=field, value=value)
    return number


def _usd(value: object, field: str) -> float:
    number = _number(value, field)
    if not 0 < number <= 1e6:
        raise WorkloadError("must be above 0 USD per hour (only own machines may be free)", field=field, value=value)
    return number


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkloadError(f"{value!r} is not a number", field=field, value=value)
    return float(value)
