import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.rows.cells import READS
from estimator.rows.predict import ADDED, predict_rows
from estimator.terms import EvidenceKind

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

KNOWN = {
    "source": "mosaicml/llm-foundry@8c8dd48:scripts/train/benchmarking/README.md",
    "date": "2024-01", "model": "mpt-7b", "task": "llm-pretrain", "gpu": "H100-SXM5-80GB", "gpus": "8", "nodes": "1",
    "precision": "amp-bf16", "micro_batch": "6", "global_batch": "48", "seq_len": "2048", "act_ckpt": "none",
    "sharding": "fsdp", "tp": "1", "pp": "1", "attention": "flash", "framework": "llm-foundry/composer",
    "unit": "tokens/s", "scope": "total",
}  # fmt: skip


def test_every_row_comes_out_in_order_and_a_bad_one_does_not_stop_the_others():
    rows = [
        KNOWN | {"x": "1"},
        {"model": "?", "gpu": "", "x": "2"},
        KNOWN | {"gpu": "Gaudi2", "x": "3"},
        KNOWN | {"x": "4"},
    ]
    out = predict_rows(rows)
    assert [row["x"] for row in out] == ["1", "2", "3", "4"]
    assert [bool(row["error"]) for row in out] == [False, True, True, False]
    assert all(set(ADDED) <= set(row) for row in out)
    assert out[1]["predicted_throughput"] == ""


def test_a_known_row_is_near_its_measurement_inside_its_interval():
    out = predict_rows([KNOWN])[0]
    low, value, high = (float(out[f"predicted_{k}"]) for k in ("low", "throughput", "high"))
    assert low <= value <= high
    assert value == pytest.approx(86_000, rel=0.25)
    assert out["evidence"] == EvidenceKind.GROUP
    assert out["predicted_unit"] == "tokens/s"
    assert out["fits"] in ("yes", "tight", "no", "unknown")
    low, memory, high = (float(out[f"predicted_memory_{name}gib"]) for name in ("low_", "", "high_"))
    assert 0 < low < memory < high < 2 * memory


def test_the_interval_is_ordered_for_times_too():
    out = predict_rows([KNOWN | {"unit": "s/step"}])[0]
    assert float(out["predicted_low"]) <= float(out["predicted_throughput"]) <= float(out["predicted_high"])
    assert 0.1 < float(out["predicted_throughput"]) < 10


def test_a_stranger_gets_a_wider_interval_than_a_known_group():
    def width(row):
        out = predict_rows([row])[0]
        return float(out["predicted_high"]) / float(out["predicted_low"]), out["evidence"]

    known, kind = width(KNOWN)
    stranger, far = width(KNOWN | {"source": "someone/else@1:README"})
    assert (kind, far) == ("group", "unseen-lab")
    assert stranger > known


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"unit": "furlongs"}, "unit: unknown unit 'furlongs'"),
        ({"unit": "samples/sec"}, "unit: unknown unit 'samples/sec' (did you mean samples/s"),
        ({"gpus": "-1"}, "gpus: '-1' is not a number above 0"),
        ({"gpus": "eight"}, "gpus: 'eight' is not a number above 0"),
        ({"tp": "0"}, "tp: '0' is not a number above 0"),
        ({"seq_len": "2.048"}, "seq_len: '2.048' is not a whole number (did you mean 2?)"),
        ({"micro_batch": "many"}, "micro_batch: 'many' is not a number above 0"),
        ({"params_m": "-7000"}, "params_m: '-7000' is not a number above 0"),
        ({"precision": "int3"}, "precision: unknown precision 'int3' (did you mean int8"),
        ({"scope": "cluster"}, "scope: unknown scope 'cluster' (did you mean"),
        ({"gpu": "H1000"}, "gpu: unknown GPU 'H1000' (did you mean H100"),
        ({"model": "lama"}, "model: unknown model 'lama' and no size to derive its shape from (did you mean"),
    ],
)
def test_a_cell_that_makes_no_sense_is_refused_with_what_would(wrong, error):
    out = predict_rows([KNOWN | wrong])[0]
    assert out["error"].startswith(error)
    assert out["predicted_throughput"] == ""


@pytest.mark.parametrize(
    "same",
    [
        {"seq_len": "2,048"}, {"seq_len": "2 048"}, {"micro_batch": "6,0"}, {"scope": "Total "}, {"pp": "none"},
        {"precision": "bf16-mixed"}, {"sharding": "FSDP2"}, {"sharding": "full_shard"}, {"act_ckpt": "False"},
        {"params_m": "n/a"},
    ],
)  # fmt: skip
def test_other_spellings_of_the_same_cell_give_the_same_answer(same):
    told, usual = predict_rows([KNOWN | same, KNOWN])
    assert [told[name] for name in ADDED] == [usual[name] for name in ADDED]


def test_throughput_of_one_gpu_is_so_however_the_scope_is_written():
    rows = predict_rows([KNOWN | {"scope": scope} for scope in ("per_gpu", "per GPU", "per-device")])
    assert len({row["predicted_throughput"] for row in rows}) == 1
    assert float(rows[0]["predicted_throughput"]) * 8 == pytest.approx(
        float(predict_rows([KNOWN])[0]["predicted_throughput"]), rel=1e-5
    )


def test_weights_in_four_bits_are_no_format_to_compute_in():
    plain = predict_rows([KNOWN | {"precision": "", "peft": "qlora"}])[0]
    for stated in ("nf4", "4bit", "nf4+bf16"):
        assert predict_rows([KNOWN | {"precision": stated, "peft": "qlora"}])[0][ADDED[0]] == plain[ADDED[0]]


def test_answers_do_not_depend_on_what_must_not_be_read():
    told = predict_rows(
        [KNOWN | {"throughput": "1", "mfu": "0.01", "notes": "x", "tflops_per_gpu": "1", "mem_gib_per_gpu": "1"}]
    )
    silent = predict_rows([KNOWN])
    assert [told[0][name] for name in ADDED] == [silent[0][name] for name in ADDED]


cells = st.one_of(
    st.sampled_from(["", "nan", "-1", "0", "1e30", "8", "3.5", "text", "ünïcode", "1,024"]), st.text(max_size=8)
)


@given(st.dictionaries(st.sampled_from(READS), cells, max_size=12), st.booleans())
def test_weird_cells_give_an_answer_or_an_error_never_an_exception(row, known):
    out = predict_rows([KNOWN | row if known else row])[0]
    assert bool(out["error"]) != bool(out["predicted_throughput"])
    if not out["error"]:
        assert 0 < float(out["predicted_low"]) <= float(out["predicted_throughput"]) <= float(out["predicted_high"])


def test_it_reads_what_a_csv_reader_yields():
    text = "model,gpu,seq_len\nllama3-8b,A100-SXM4-80GB\n"
    out = predict_rows(list(csv.DictReader(io.StringIO(text))))
    assert out[0]["error"] == ""
    assert predict_rows([]) == []
