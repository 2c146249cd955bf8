"""The URL is the state of the page, and the state is a request."""

from __future__ import annotations

import contextlib
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web.state import LISTS, TEXTS, VIEW, State, body_of, pasted, state_of, unfolded, workload_of
from benchmarks_db.errors import WorkloadError

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool)


def asked(**texts: str) -> State:
    return state_of(texts.items())


@given(st.dictionaries(st.sampled_from([*TEXTS, *VIEW]), TEXT, min_size=1), st.lists(TEXT, max_size=4, unique=True))
def test_a_state_comes_back_from_its_url(texts: dict[str, str], compared: list[str]) -> None:
    state = State(texts, {"compare": tuple(compared)} if compared else {})
    assert state_of(parse_qsl(state.query[1:])) == state


def test_without_a_query_an_example_is_answered() -> None:
    assert body_of(state_of([]))["model"] == "llama3-8b"


def test_all_clouds_ticked_is_no_limit() -> None:
    every = [("model", "llama3-8b"), *(("cloud", cloud) for cloud in ("aws", "gcp", "azure"))]
    assert "constraints" not in body_of(state_of(every))
    assert body_of(state_of(every[:3]))["constraints"] == {"clouds": ["aws", "gcp"]}


def test_the_last_of_a_repeated_field_counts_even_when_it_is_empty() -> None:
    assert state_of([("model", "a"), ("pick", "x"), ("pick", "y")])["pick"] == "y"
    assert state_of([("model", "a"), ("show", "all"), ("show", "")])["show"] == ""


def test_fields_of_the_api_are_understood() -> None:
    assert body_of(asked(model="resnet50", images="50k")) == {"model": "resnet50", "images": "50k"}


def test_an_own_machine_stays_within_the_clouds_and_markets_asked_for() -> None:
    body = body_of(state_of([("model", "m"), ("cloud", "aws"), ("market", "spot"), ("own_gpu", "RTX-3090")]))
    assert body["own"] == [{"name": "own", "gpu": "RTX-3090"}]
    assert body["constraints"] == {"clouds": ["aws", "own"], "markets": ["spot", "own"]}


def test_a_pasted_config_json_is_the_model() -> None:
    state = asked(model="llama3-8b", config='{"model_type": "llama", "hidden_size": 8}')
    assert body_of(state) == {"hf_config": {"model_type": "llama", "hidden_size": 8}}
    assert unfolded(state)["model"] == ""


def test_a_pasted_request_fills_the_form_and_keeps_what_the_form_lacks() -> None:
    text = """
model: llama2-7b
tokens: 2T
lora: {rank: 8}
method: lora
constraints: {deadline: 24h, gpus: [H100:8], clouds: aws, max_usd_per_hour: 30}
run: {evaluation: false}
"""
    found = unfolded(asked(config=text))
    assert (found["model"], found["amount"], found["unit"]) == ("llama2-7b", "2T", "tokens")
    assert (found["deadline"], found["gpu"], found.lists["cloud"]) == ("24h", "H100:8", ("aws",))
    assert pasted(found).body == {
        "lora": {"rank": 8},
        "run": {"evaluation": False},
        "constraints": {"max_usd_per_hour": 30},
    }
    assert workload_of(found) == workload_of(asked(config=text, method="lora"))


def test_a_pasted_config_of_a_trainer_is_read_and_says_what_is_lost() -> None:
    text = "base_model: meta-llama/Meta-Llama-3-8B\nadapter: lora\nmicro_batch_size: 2\nsequence_len: 4096\nlora_r: 8\n"
    found = unfolded(asked(config=text))
    assert found["method"] == "lora"
    assert found["seq_len"] == "4096"
    assert "# read as a config of axolotl" in found["config"]
    assert workload_of(found.with_(amount="50M")).lora


@pytest.mark.parametrize("text", ["- a list", "a: [", "a: b: c", "x" * 20_001])
def test_what_cannot_be_read_names_the_field(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        body_of(asked(config=text))
    assert caught.value.field == "config"


@pytest.mark.parametrize("text", ["hf_config: /etc/passwd", "measured: [/etc/passwd]"])
def test_no_path_is_opened(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"content of config|command line only"):
        workload_of(asked(config=text, model="" if "hf" in text else "llama3-8b"))


@given(st.lists(st.tuples(st.sampled_from([*TEXTS, *VIEW, *LISTS, "tokens"]), st.text(max_size=60)), max_size=8))
def test_no_query_breaks_the_state(pairs: list[tuple[str, str]]) -> None:
    state = state_of(pairs)
    for reader in (body_of, unfolded, workload_of):
        with contextlib.suppress(WorkloadError):
            reader(state)
