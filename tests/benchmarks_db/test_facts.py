"""Every row of the shipped tables holds: names, units, ranges, vocabularies, sources, one figure a key."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from benchmarks_db import gpus, models, schema
from benchmarks_db.measurements import FILES as MEASUREMENT_FILES
from benchmarks_db.names import fold
from benchmarks_db.runs import FILES as RUN_FILES
from benchmarks_db.tables import DATA, read

TABLES = [
    *((name, schema.MEASUREMENT) for name in MEASUREMENT_FILES),
    *((name, schema.RUN) for name in RUN_FILES),
    ("microbench.csv", schema.MICROBENCH),
]


@pytest.mark.parametrize(("name", "columns"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_every_row_of_a_table_obeys_its_schema(name: str, columns: tuple[schema.Column, ...]) -> None:
    with (DATA / name).open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        assert tuple(reader.fieldnames or ()) == schema.names(columns)
        for row in reader:
            schema.check(columns, row, f"{name} line {reader.line_num}")


@pytest.mark.parametrize(("name", "columns"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_ids_are_unique_and_every_doubtful_row_says_why(name: str, columns: tuple[schema.Column, ...]) -> None:
    rows = list(read(DATA / name))
    assert len({row["id"] for row in rows}) == len(rows)
    if "quality_reason" in schema.names(columns):
        assert all(bool(row["quality_reason"]) == (row["quality"] != "ok") for row in rows)


def test_no_measurement_stands_twice() -> None:
    keys = Counter(
        tuple(cell for column, cell in row.items() if column != "id")
        for name in MEASUREMENT_FILES
        for row in read(DATA / name)
    )
    assert [key for key, n in keys.items() if n > 1] == []


def test_measurements_and_runs_name_models_and_gpus_that_exist() -> None:
    for name in MEASUREMENT_FILES:
        for row in read(DATA / name):
            assert row["model"] in models.models(), row["id"]
            match = gpus.resolve_gpu(row["gpu"])
            assert match.gpu.name == row["gpu"] or match.loose, row["id"]
    for name in RUN_FILES:
        for row in read(DATA / name):
            if row["quality"] != "unusable":
                assert row["model"] in models.models(), row["id"]
                if row["gpu"]:
                    gpus.resolve_gpu(row["gpu"])


def test_a_measured_throughput_has_its_unit_and_scope() -> None:
    for name in MEASUREMENT_FILES:
        for row in read(DATA / name):
            assert bool(row["throughput"]) == bool(row["unit"]) == bool(row["scope"]), row["id"]
            assert row["throughput"] or row["tflops_per_gpu"] or row["mfu"], row["id"]


def test_gradient_accumulation_agrees_with_the_batches() -> None:
    for name in MEASUREMENT_FILES:
        for row in read(DATA / name):
            if row["grad_accum"] and row["micro_batch"] and row["global_batch"] and row["gpus"] and not row["ep"]:
                degrees = float(row["tp"] or 1) * float(row["pp"] or 1) * float(row["cp"] or 1)
                samples = float(row["micro_batch"]) * float(row["grad_accum"]) * float(row["gpus"]) / degrees
                # The last micro-batch of a step may be smaller
                assert float(row["global_batch"]) <= samples * 1.001, row["id"]


def test_mlperf_rows_are_tuned_by_vendors_but_for_those_of_tinygrad_and_others_plain() -> None:
    for name in MEASUREMENT_FILES:
        for row in read(DATA / name):
            vendors = "mlperf" in name and "tinygrad" not in row["framework"]
            assert row["stack"] == ("tuned" if vendors else "plain"), row["id"]


def test_gpus_have_sources_and_figures_in_range() -> None:
    ranges = {
        "memory_gib": (1, 600), "usable_gib": (1, 600), "memory_bandwidth_gbps": (100, 25_000), "fp32_tflops": (1, 300),
        "fp16_tflops": (4, 6_000), "fp8_tflops": (30, 12_000), "tdp_w": (30, 1_500), "nvlink_gbps": (0, 4_000),
        "launch_year": (2013, 2027), "boost_mhz": (800, 3_500),
    }  # fmt: skip
    for name, card in gpus.gpus().items():
        assert card.name == name
        assert card.source, name
        assert card.kind in ("gpu", "tpu", "trainium"), name
        for field, (low, high) in ranges.items():
            value = getattr(card, field)
            assert value is None or low <= value <= high, (name, field, value)


def test_every_card_leaves_less_memory_to_software_than_its_label_and_says_whence() -> None:
    for name, card in gpus.gpus().items():
        if card.usable_gib is None:
            continue
        assert card.memory_gib is not None, name
        assert 0.9 * card.memory_gib <= card.usable_gib <= card.memory_gib, name
        assert card.usable_source, name


def test_a_cards_rates_are_dense_and_fall_with_precision() -> None:
    for name, card in gpus.gpus().items():
        if card.kind != "gpu":
            continue  # TPU and Trainium run every format at the same width
        assert not (card.tf32_tflops and card.fp16_tflops) or card.tf32_tflops < card.fp16_tflops, name
        assert not (card.fp8_tflops and card.fp16_tflops) or 1.8 < card.fp8_tflops / card.fp16_tflops < 2.2, name
        if card.compute_capability and float(card.compute_capability) < 8:
            assert card.bf16_tflops is None, f"{name} has no bf16 units"
            assert card.fp8_tflops is None, name


def test_geforce_rates_are_those_of_fp32_accumulation() -> None:
    # 4 x fp32 would be the rate with fp16 accumulation
    for name, card in gpus.gpus().items():
        if card.geforce and name.startswith("RTX-"):
            assert card.fp16_tflops is not None, name
            assert card.fp32_tflops is not None, name
            assert card.fp16_tflops < 4.5 * card.fp32_tflops, name
            if card.arch != "Turing":
                assert card.fp16_tflops < 2.2 * card.fp32_tflops, name
            assert not card.pcie_p2p, name


def test_models_have_sources_and_sane_sizes() -> None:
    kinds = {"decoder", "moe", "encoder", "encoder-decoder", "vision", "profiled", "size-only"}
    for name, facts in models.models().items():
        assert facts.name == name
        assert facts.source, name
        assert facts.kind in kinds, name
        assert facts.params_m is None or 0.05 < facts.params_m < 3e6, name
        if facts.kind == "vision":
            assert facts.image_size, name
            assert facts.forward_gmacs, name
        if facts.active_params_m is not None and facts.params_m is not None:
            assert facts.active_params_m <= facts.params_m, name


def _recomputed_params_m(f: models.ModelFacts) -> float:
    """Parameters of a decoder or mixture of experts from its shape, biases and norms left out."""
    assert f.layers
    assert f.hidden
    assert f.heads
    assert f.ffn_hidden
    assert f.vocab
    kv = f.kv_heads or f.heads
    dim = f.head_dim or f.hidden / f.heads
    if f.kv_lora_rank:  # multi-head latent attention
        assert f.rope_head_dim
        assert f.v_head_dim
        query = f.hidden * (f.q_lora_rank or 0) + (f.q_lora_rank or f.hidden) * f.heads * dim
        attention = query + f.hidden * (f.kv_lora_rank + f.rope_head_dim) + f.heads * f.v_head_dim * f.hidden
        attention += f.kv_lora_rank * f.heads * (dim - f.rope_head_dim + f.v_head_dim)
    else:
        attention = 2 * f.hidden * dim * (f.heads + kv)
    gates = 3 if f.gated_ffn else 2
    dense = f.dense_layers or (0 if f.experts else f.layers)
    wide = f.dense_ffn or f.ffn_hidden
    latent = f.expert_hidden or f.hidden
    every = f.hidden * (dense * wide + (f.layers - dense) * (f.shared_experts or 0) * f.ffn_hidden)
    ffn = gates * (every + latent * (f.layers - dense) * (f.experts or 0) * f.ffn_hidden)
    ffn += 2 * f.hidden * latent * f.layers if f.expert_hidden else 0
    embeddings = f.vocab * f.hidden * (1 if f.tied_embeddings else 2)
    state = (f.recurrent_layers or 0) * f.hidden * (3 * (f.recurrent_width or 0) + 2048)  # 8 groups x 128 states, twice
    return ((f.attention_layers or f.layers) * attention + state + ffn + embeddings) / 1e6


def test_parameter_counts_follow_from_the_shapes() -> None:
    checked = 0
    for name, facts in models.models().items():
        shape = (facts.layers, facts.hidden, facts.heads, facts.ffn_hidden, facts.vocab, facts.params_m)
        if facts.kind in ("decoder", "moe") and all(shape) and not name.startswith(("opt-350m", "bloom-dev")):
            assert facts.params_m
            checked += 1
            assert _recomputed_params_m(facts) == pytest.approx(facts.params_m, rel=0.06), name
    assert checked > 200


def test_heads_divide_the_width_they_share() -> None:
    for name, facts in models.models().items():
        if facts.heads and facts.kv_heads and facts.kind in ("decoder", "moe"):
            assert facts.heads % facts.kv_heads == 0, name
        if facts.heads and facts.hidden and not facts.head_dim:
            assert facts.hidden % facts.heads == 0, name


def test_every_alias_leads_to_a_row_and_no_two_aliases_collide() -> None:
    for file, target, known in [
        ("gpu_aliases.csv", "gpu", gpus.gpus()),
        ("model_aliases.csv", "model", models.models()),
    ]:
        seen: dict[str, str] = {}
        owners = {fold(name): name for name in reversed(list(known))}
        for row in read(DATA / file):
            assert row[target] in known, row
            assert row["loose"] in ("yes", "no"), row
            assert seen.setdefault(fold(row["alias"]), row[target]) == row[target], row
            if row["alias"] != "unet_3d_medical":
                assert owners.get(fold(row["alias"]), row[target]) == row[target], row


def test_mends_all_carry_a_reason() -> None:
    for row in read(DATA / "mends.csv"):
        assert row["reason"], row
        assert row["match"], row


def test_no_row_comes_from_a_source_that_may_not_be_shipped() -> None:
    barred = [row["source"] for row in read(DATA / "left_out_sources.csv")]
    for name, _ in TABLES:
        for row in read(DATA / name):
            assert not any(source in row["source"] for source in barred), row["id"]


def test_every_repository_named_in_a_source_is_in_the_notice() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
    labs = {
        row["source"].split("@")[0]
        for name, _ in TABLES
        for row in read(DATA / name)
        if "@" in row["source"] and "/" in row["source"].split("@")[0] and " " not in row["source"].split("@")[0]
    }
    missing = sorted(lab for lab in labs if lab.partition("_results_v")[0] not in notice)
    assert missing == []
