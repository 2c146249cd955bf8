"""What is the answer to a question of flat keys? One plan for each distinct question and state of the prices.

A sheet asks the same question many times: once for the cost, once for the hours, and again at every refresh. The
answers are kept until the prices change, so 500 cells cost as many plans as there are different questions in them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock

import numpy as np

from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, UnknownName, WorkloadError
from estimator.planning.evidence import Measured
from estimator.planning.planner import plan
from estimator.planning.step_times import StepTimes
from estimator.request.fields import MARKETS
from estimator.request.sections import split_gpu
from estimator.request.workload import Workload, nested
from estimator.sheets.values import CELL_VALUES, Value, values_of
from estimator.terms import Verdict
from pricing.offers import OfferTable, PriceState
from pricing.spot_history import SpotHistory

MOST_KEPT = 8192
SPOT = ("spot", *(name for name, market in MARKETS.items() if market == "spot"))
Question = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Market:
    """What plans of a moment rest on beside the request, and a name that changes when it does."""

    offers: OfferTable = field(repr=False)
    now: datetime
    state: str
    history: SpotHistory | None = field(default=None, repr=False)  # how spot prices moved
    history_state: str = ""
    measured: Measured = field(default=(), repr=False)  # a team's measurements

    def state_for(self, question: Question) -> str:
        """The name of what the answer to a question rests on: the past of spot prices matters to spot plans alone."""
        return self.state + self.history_state if asks_spot(question) else self.state

    def with_past(self, history: SpotHistory | None, measured: Measured, history_state: str = "") -> Market:
        """The same with the past of spot prices, which the caller names, and with measurements."""
        told = hashlib.blake2b(repr(list(measured)).encode(), digest_size=8).hexdigest() if measured else ""
        return replace(self, state=self.state + told, history=history, history_state=history_state, measured=measured)


def market_at(offers: OfferTable, now: datetime) -> Market:
    """The offers with the name of their state."""
    return Market(offers, now, price_state(offers))


def price_state(offers: OfferTable) -> str:
    """A fingerprint of everything a plan reads of the offers: equal exactly when prices, dates and places are."""
    digest = hashlib.blake2b(digest_size=16)
    terms = (offers.list_usd_per_hour, offers.term_hours, offers.break_even_hours)
    stated = offers.where("state", lambda state: state == PriceState.OWN)  # by the customer, now and ever anew
    observed = np.where(stated, np.nan, offers.observed)
    for array in (offers.usd_per_hour, observed, offers.ranked, offers.type_index, *terms):
        digest.update(array.tobytes())
    for name in sorted(offers.codes):
        digest.update(offers.codes[name].tobytes())
        digest.update("\0".join(offers.names[name]).encode())
    for key, fact in sorted(offers.reclaims.items()):
        digest.update(repr((key, fact.low_pct, fact.high_pct, fact.source)).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures of the cheapest plan, or why there is none."""

    values: Mapping[str, Value]
    error: EstimatorError | None = None

    def value(self, name: str, now: datetime) -> Value:
        """One figure; the age of the price counts to `now`. Raises what stood in the way of a plan."""
        if self.error is not None and self.values.get(name) is None:
            raise self.error
        seen = self.values.get("price_date")
        if self.values.get("price_state") == PriceState.OWN:  # the customer says it now
            seen = now
        if name == "price_date":
            return seen
        if name == "price_age_hours" and isinstance(seen, datetime):
            return max(0.0, (now - seen).total_seconds() / 3600.0)
        return self.values.get(name)


class Answers:
    """Answers by question, the latest `most` of them; safe to ask from several threads at once."""

    def __init__(self, measured: Measured = (), most: int = MOST_KEPT) -> None:
        self._measured = measured
        self._most = most
        self._step_times = StepTimes()
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, Question], Future[Answer]] = OrderedDict()
        self.planned = 0

    def known(self, question: Question, market: Market) -> Answer | None:
        """The answer if it is at hand, without any work."""
        key = (market.state_for(question), question)
        with self._lock:
            future = self._kept.get(key)
            if future is not None:
                self._kept.move_to_end(key)
        return future.result() if future is not None and future.done() else None

    def ask(self, question: Question, market: Market) -> Answer:
        """The answer; who asks the same while it is worked out waits for it."""
        key = (market.state_for(question), question)
        with self._lock:
            future = self._kept.get(key)
            mine = future is None
            if future is None:
                future = self._kept[key] = Future()
                self.planned += 1
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
        if mine:
            try:
                future.set_result(answered(question, market, self._measured, self._step_times))
            except BaseException as fault:
                with self._lock:
                    self._kept.pop(key, None)
                future.set_exception(fault)
                raise
        return future.result()


def question_of(flat: Mapping[str, object]) -> Question:
    """Flat keys in one order, without blanks; `gpu` and `gpus` as two columns become one `GPU:COUNT`.

    >>> question_of({"gpus": 8, "gpu": "H100", "model": "llama3-8b", "region": ""})
    (('gpu', 'H100:8'), ('market', 'on-demand'), ('model', 'llama3-8b'))
    """
    given = {key: str(value).strip() for key, value in flat.items() if value is not None and str(value).strip()}
    _count_of_gpus(given)
    if not {"market", "markets", "constraints.markets"} & given.keys():
        given["market"] = "on-demand,own" if "own" in given else "on-demand"
    return tuple(sorted(given.items()))


def asks_spot(question: Question) -> bool:
    """Whether spot plans are among those asked for."""
    texts = [text.casefold() for key, text in question if key.rpartition(".")[2] in ("market", "markets")]
    return any(name in text for text in texts for name in SPOT)


def _count_of_gpus(given: dict[str, str]) -> None:
    """A column of counts beside a column of names."""
    count = given.get("gpus", "")
    if not count.replace(".", "", 1).isdigit():
        return
    gpu = given.get("gpu")
    if gpu is None:
        raise WorkloadError(f"{count} GPUs of which kind?", field="gpu", nearest=(f"H100:{count}",))
    name, said = split_gpu(gpu)
    if said is not None and said != float(count):
        raise WorkloadError(f"{gpu} and {count} GPUs contradict each other", field="gpus", value=count)
    del given["gpus"]
    given["gpu"] = f"{name}:{float(count):g}"


def workload_of(question: Question) -> Workload:
    """The request of a question: the cheapest plan alone."""
    without_files(dict(question))
    for key, value in question:
        if key in ("top", "sort") or key.startswith("options"):
            raise WorkloadError("a cell is the cheapest plan", field=key, value=value)
    return Workload.model_validate(nested(dict(question) | {"top": 1, "sort": "cost"}))


def without_files(flat: Mapping[str, str]) -> None:
    """Refuse keys that name files of this machine: neither a cell nor a URL may open them."""
    for key in ("hf_config", "measured"):
        if key in flat:
            raise WorkloadError("files are read on the command line only", field=key, value=flat[key])


def answered(question: Question, market: Market, measured: Measured, step_times: StepTimes | None = None) -> Answer:
    """Plan once. What is wrong with the question is part of the answer, as is what no plan satisfies."""
    try:
        document = plan(
            workload_of(question),
            offers=market.offers,
            now=market.now,
            measured=[*measured, *market.measured],
            history=market.history if asks_spot(question) else None,
            step_times=step_times,
        )
    except EstimatorError as error:
        return Answer({}, error)
    if document.plans:
        return Answer(values_of(document.plans[0]))
    hint = f": {document.hints[0]}" if document.hints else ""
    none = NoFeasiblePlan(f"no plan satisfies the request, {document.binding} stands in the way{hint}")
    fits: dict[str, Value] = {"fits": Verdict.NO.value} if document.binding == "memory" else {}
    return Answer(fits, none)


def value_named(name: str) -> str:
    """A name of `CELL_VALUES`; UnknownName with the nearest otherwise, or with all where none is near."""
    word = name.strip().casefold().replace("-", "_")
    if word not in CELL_VALUES:
        unknown = UnknownName("value", name, CELL_VALUES, field="value")
        if not unknown.nearest:
            unknown.message += f"; known are {', '.join(CELL_VALUES)}"
        raise unknown
    return word


def one_line(error: EstimatorError) -> str:
    """A failure as one readable line: `unknown GPU 'H1000', did you mean H100`."""
    lines = []
    for one in getattr(error, "errors", (error,)):
        field = one.field or ""
        named = field.rpartition(".")[2].removesuffix("s").casefold() in one.message.casefold()
        where = "" if not field or named else f"{field}: "
        hint = f", did you mean {' or '.join(one.nearest)}" if one.nearest else ""
        lines.append(f"{where}{one.message}{hint}")
    text = "; ".join(lines)
    return "".join(c if c.isprintable() else " " for c in text)[:1000]
