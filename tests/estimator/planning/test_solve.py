"""The question turned round: the answer lies at the limit, neither short of it nor beyond."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks_db.errors import WorkloadError
from estimator import Workload, plan
from estimator.planning.solve import SolveFor, solve
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
LORA = {"model": "llama3-8b", "method": "lora"}


def asked(**changes: object) -> Workload:
    return Workload.model_validate(LORA | {"tokens": "50M"} | changes)


@pytest.mark.parametrize("limits", [{"budget": 100}, {"deadline": 5}, {"budget": 1, "deadline": 1}])
def test_the_most_tokens_use_the_limits_up(limits: dict[str, float]) -> None:
    answer = solve(asked(constraints=limits), SolveFor.TOKENS, offers=MARKET, now=NOW)
    assert answer.value is not None
    assert plan(asked(tokens=answer.value, constraints=limits), offers=MARKET, now=NOW).plans
    assert not plan(asked(tokens=answer.value * 1.01, constraints=limits), offers=MARKET, now=NOW).plans


def test_the_most_tokens_are_found_from_a_request_that_asks_for_too_many() -> None:
    few, many = (
        solve(asked(tokens=start, constraints={"budget": 20}), SolveFor.TOKENS, offers=MARKET, now=NOW).value
        for start in ("1M", "1T")
    )
    assert few == pytest.approx(many, rel=5e-3)


def test_samples_are_counted_as_asked() -> None:
    request = Workload.model_validate(LORA | {"samples": "10k", "constraints": {"budget": 5}})
    answer = solve(request, SolveFor.TOKENS, offers=MARKET, now=NOW)
    assert answer.unit == "samples"
    assert answer.value is not None
    assert answer.value > 10_000


def test_the_least_money_and_the_least_time_are_those_of_the_plans() -> None:
    limits = {"deadline": 3, "budget": 20}
    cheapest = plan(asked(constraints={"deadline": 3}), offers=MARKET, now=NOW).plans[0]
    answer = solve(asked(constraints=limits), SolveFor.BUDGET, offers=MARKET, now=NOW)
    assert cheapest.cost_usd is not None
    assert answer.value == pytest.approx(cheapest.cost_usd.p50)
    fastest = plan(asked(constraints={"budget": 20}, options={"sort": "time"}), offers=MARKET, now=NOW).plans[0]
    assert solve(asked(constraints=limits), SolveFor.DEADLINE, offers=MARKET, now=NOW).value == fastest.hours.p50


def test_what_cannot_be_had_names_the_limit() -> None:
    answer = solve(asked(constraints={"budget": 1e-5}), SolveFor.TOKENS, offers=MARKET, now=NOW)
    assert (answer.value, answer.binding) == (None, "budget")


def test_the_most_data_without_a_limit_is_no_question() -> None:
    with pytest.raises(WorkloadError, match="deadline or a budget"):
        solve(asked(), SolveFor.TOKENS, offers=MARKET, now=NOW)


def test_the_longest_sequence_is_one_that_a_plan_trains_and_a_longer_one_is_not() -> None:
    limits = {"gpus": ["RTX-PRO-6000-Blackwell-SE:1"], "clouds": ["aws"], "markets": ["on-demand"], "budget": 11}
    request = asked(model="llama3.1-8b", tokens="50M", constraints=limits)
    answer = solve(request, SolveFor.CONTEXT, offers=MARKET, now=NOW)
    assert answer.value is not None
    assert answer.unit == "tokens a sequence"
    assert plan(request.model_copy(update={"seq_len": int(answer.value)}), offers=MARKET, now=NOW).plans
    assert answer.binding in ("budget", "memory")
    longer = request.model_copy(update={"seq_len": int(answer.value * 1.1)})
    assert not plan(longer, offers=MARKET, now=NOW).plans


def test_a_sequence_ends_where_the_model_does() -> None:
    answer = solve(asked(constraints={"budget": 1000}), SolveFor.CONTEXT, offers=MARKET, now=NOW)
    assert (answer.value, answer.binding) == (8192, None)
    with pytest.raises(WorkloadError, match="only language models"):
        solve(Workload(model="resnet50", samples="1M"), SolveFor.CONTEXT, offers=MARKET, now=NOW)


def test_the_largest_model_grows_with_the_budget() -> None:
    sizes = []
    for budget in (1, 10):
        limits = {"budget": budget, "gpus": ["H100", "L4"], "clouds": ["aws"]}
        answer = solve(asked(constraints=limits), SolveFor.MODEL, offers=MARKET, now=NOW)
        assert answer.plan is not None
        assert answer.model is not None
        assert answer.plan.cost_usd.p50 <= budget
        sizes.append(answer.value)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_limit_that_no_model_keeps_is_named() -> None:
    answer = solve(asked(constraints={"budget": 1e-6}), SolveFor.MODEL, offers=MARKET, now=NOW)
    assert (answer.value, answer.model, answer.binding) == (None, None, "budget")
