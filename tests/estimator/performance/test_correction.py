import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks_db import measurements
from estimator.fitting.kinship import _labs, _loss, _prior, learn
from estimator.performance import evidence as packed
from estimator.performance import per_row, step_time
from estimator.performance.constants import PARAMETERS, Constants, committed_fingerprint, fitted
from estimator.performance.correction import correct, nearest
from estimator.performance.evidence import Labels, evidence_of, features_of
from estimator.performance.intervals import (
    KINDS,
    conformal,
    half_widths,
    model_class,
    series_labs,
    weighted_quantile,
    widths_of,
)
from estimator.performance.kriging import described, kinship_of, kriged, with_pull
from estimator.rows.arrays import labels_of, prepare
from estimator.rows.own import own_measurements
from estimator.terms import EvidenceKind

ROW = {
    "source": "mosaicml/llm-foundry@8c8dd48:README.md", "model": "mpt-7b", "task": "llm-pretrain",
    "gpu": "H100-SXM5-80GB", "gpus": "8", "precision": "bf16", "micro_batch": "6", "global_batch": "48",
    "seq_len": "2048", "sharding": "fsdp", "attention": "flash", "framework": "llm-foundry/composer",
}  # fmt: skip


def features(*rows):
    prepared = prepare(list(rows))
    parts = prepared.work, prepared.hardware, prepared.layout, prepared.execution
    step = step_time(*parts[:3], execution=parts[3], constants=per_row(prepared.families))
    return features_of(labels_of(prepared), *parts, step)


def test_the_committed_fit_belongs_to_the_committed_data():
    assert committed_fingerprint() == measurements.fingerprint(), "run `estimator benchmarks fit`"


def test_committed_constants_stay_inside_their_bounds_and_name_their_units():
    document = json.loads(PARAMETERS.read_text())
    for family, constants in document["families"].items():
        assert set(constants) == set(Constants.__dataclass_fields__)
        for name, entry in constants.items():
            assert entry["unit"], (family, name)
            if "bounds" in entry:
                low, high = entry["bounds"]
                assert low * 0.999 <= entry["value"] <= high * 1.001, (family, name)
        assert fitted(family).matmul <= 1.0


def test_the_evidence_pack_round_trips(tmp_path):
    known = packed.load()["language"]
    packed.save({"language": known}, tmp_path / "a.npz")
    packed.save({"language": known}, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = packed.load(tmp_path / "a.npz")["language"]
    assert np.array_equal(again.codes, known.codes)
    assert np.array_equal(again.residual, known.residual)


def test_replicates_fold_to_their_median():
    f = features(ROW, ROW, ROW)
    found = evidence_of(f, np.array([0.0, 0.1, 5.0]), np.ones(3), ["a", "b", "c"])
    assert len(found) == 1
    assert found.residual[0] == pytest.approx(0.1)
    assert found.replicates[0] == 3


KINSHIP = kinship_of("language")


def shift_of(row, known):
    asked = features(row)
    return kriged(asked, known.code(asked), with_pull(known, KINSHIP), KINSHIP)[0]


def test_the_correction_pulls_near_rows_and_fades_where_nothing_is_alike():
    known = evidence_of(features(ROW), np.array([0.3]), np.ones(1), ["a"])
    same = shift_of(ROW, known)
    near = shift_of(ROW | {"micro_batch": "3"}, known)
    other = shift_of(ROW | {"model": "llama3-70b", "gpu": "L4", "precision": "fp16", "attention": "eager"}, known)
    assert 0.3 > same > near > other > 0
    assert shift_of(ROW | {"source": "other/lab@1:x"}, known) == 0.0


def test_one_odd_residual_is_clipped():
    known = evidence_of(features(ROW), np.array([9.0]), np.ones(1), ["a"])
    assert shift_of(ROW, known) < 1.0


def test_measurements_that_repeat_each_other_count_little_more_than_one():
    rows = [ROW | {"micro_batch": figure} for figure in ("6", "5", "7")]
    once = shift_of(ROW | {"gpu": "A100-SXM4-80GB"}, evidence_of(features(ROW), np.array([0.3]), np.ones(1), ["a"]))
    known = evidence_of(features(*rows), np.full(3, 0.3), np.ones(3), ["a", "b", "c"])
    assert once < shift_of(ROW | {"gpu": "A100-SXM4-80GB"}, known) < 1.5 * once


def test_the_place_of_a_row_changes_no_digit_of_its_correction():
    known, rows = packed.load()["language"], [ROW | {"micro_batch": str(1 + i % 7)} for i in range(23)]
    together = features(*rows)
    shifts = kriged(together, known.code(together), known, KINSHIP)
    assert shifts[:16].tolist() == shifts[7:].tolist()
    assert shifts[5] == kriged(features(rows[5]), known.code(features(rows[5])), known, KINSHIP)[0]


def test_a_suspect_measurement_pulls_less():
    sound, suspect = (evidence_of(features(ROW), np.array([0.3]), np.array([w]), ["a"]) for w in (1.0, 0.01))
    assert 0 < shift_of(ROW, suspect) < shift_of(ROW, sound)


def test_likeness_is_learnt_from_what_was_left_out_by_its_exact_slope():
    full = packed.load()["language"]
    few = full.pick(np.flatnonzero(full.codes[:, 0] == np.bincount(full.codes[:, 0]).argmax())[:60])
    labs = _labs(few)
    point = _prior() + 0.1 * np.random.default_rng(0).normal(size=len(_prior()))
    _value, slope = _loss(point, labs)
    for i in (1, 12, 30, len(point) - 2, len(point) - 1):
        step = np.zeros(len(point))
        step[i] = 1e-2
        numeric = (_loss(point + step, labs)[0] - _loss(point - step, labs)[0]) / 2e-2
        assert slope[i] == pytest.approx(numeric, rel=0.05, abs=2e-5)


def test_the_committed_likeness_is_as_it_was_learnt_and_a_family_without_measurements_keeps_the_prior():
    entry = json.loads(PARAMETERS.read_text())["kinship"]["language"]
    assert described(KINSHIP) == entry
    nothing = learn(packed.load()["language"].pick(np.zeros(0, np.int64)))
    assert nothing.noise == pytest.approx(0.05)


def test_an_own_measurement_moves_and_narrows_the_same_case_and_leaves_others_alone():
    asked = ROW | {"source": "", "gpu": "RTX-4090", "micro_batch": "1", "global_batch": "8"}
    bare = correct("language", features(asked))
    own = own_measurements([asked | {"throughput": "4000", "unit": "tokens/s"}])["language"]
    moved = correct("language", features(asked), own=own)
    assert np.log(moved.factor[0]) == pytest.approx(0.85 * own[1][0] + 0.15 * np.log(bare.factor[0]), rel=0.05)
    assert moved.high[0] < bare.high[0]
    assert KINDS[moved.kind[0]] is EvidenceKind.OWN
    other = features(asked | {"model": "llama3-70b", "gpu": "H100-SXM5-80GB", "peft": "qlora"})
    assert abs(np.log(correct("language", other, own=own).factor[0] / correct("language", other).factor[0])) < 0.1


def test_own_rows_that_cannot_be_used_are_left_out():
    assert own_measurements([{"model": "?", "throughput": "3"}]) == {}
    assert own_measurements([ROW | {"throughput": "-3"}]) == {}


def test_evidence_kinds_go_from_near_to_far():
    asked = [
        ROW,
        ROW | {"gpu": "V100-SXM2-32GB", "precision": "fp16"},
        ROW | {"model": "brand-new-7b"},
        ROW | {"gpu": "RTX-4000-Ada", "model": "brand-new-7b"},
        ROW | {"source": "nobody/knows@1:x"},
    ]
    known = correct("language", features(*asked))
    kinds = [KINDS[k] for k in known.kind]
    assert kinds[0] is EvidenceKind.GROUP
    assert kinds[2] is EvidenceKind.UNSEEN_MODEL
    assert kinds[4] is EvidenceKind.UNSEEN_LAB
    assert np.all(known.low <= 1)
    assert np.all(known.high >= 1)
    assert known.high[4] > known.high[0]


def test_a_gpu_that_nobody_measured_widens_a_strangers_interval():
    stranger = ROW | {"source": "nobody/knows@1:x"}
    known, new = correct("language", features(stranger, stranger | {"gpu": "Trainium2"})).high
    assert new > known


def test_the_measurements_shown_are_of_the_same_model_where_there_are_any():
    ids = [name for name, _ in nearest("language", features(ROW))[0]]
    assert ids
    assert all(name.startswith("llm-") for name in ids[:1])


def test_conformal_widths_hold_their_share_and_never_shrink_with_distance():
    rng = np.random.default_rng(0)
    kinds = {kind.value: rng.normal(0, 0.1 * (i + 1), 4000) for i, kind in enumerate(KINDS[1:])}
    classes = np.repeat("dense", 4000)
    widths = conformal(kinds, classes, np.ones(4000), np.arange(4000).astype(str))
    row = [widths.table["dense"][kind.value] for kind in KINDS[1:]]
    assert row == sorted(row)
    assert np.mean(np.abs(kinds["unseen-lab"]) <= row[-1]) == pytest.approx(0.8, abs=0.01)
    half = half_widths(np.array(["dense", "unheard-of"]), np.array([1, 5]), widths, loose=np.array([True, False]))
    assert half[0] == pytest.approx(1.15 * row[0])
    assert half[1] == 0.5


def test_a_series_is_as_other_counted_models_where_gpu_or_lab_is_new_and_a_class_left_whole_is_as_all():
    rng = np.random.default_rng(0)
    classes = np.repeat(["counted", "series", "tuned"], 1000)
    spread = np.repeat([0.3, 0.1, 0.1], 1000)
    residuals = {kind.value: rng.normal(0, 1, 3000) * spread for kind in KINDS[1:]}
    for kind in ("unseen-gpu", "unseen-lab"):
        residuals[kind] = residuals[kind] * 3.0
    residuals["unseen-lab"][classes == "tuned"] = np.nan
    table = conformal(residuals, classes, np.ones(3000), np.arange(3000).astype(str)).table
    for kind in ("unseen-gpu", "unseen-lab"):
        assert table["series"][kind] == table["counted"][kind]
    assert table["series"]["lab"] < 0.5 * table["counted"]["lab"]
    assert table["series"]["unseen-model"] < 0.5 * table["counted"]["unseen-model"]
    assert table["tuned"]["unseen-lab"] == pytest.approx(table["counted"]["unseen-lab"], rel=0.05)
    surer = conformal({**residuals, "unseen-gpu": residuals["unseen-gpu"] / 30}, classes, np.ones(3000), classes).table
    assert surer["counted"]["unseen-gpu"] == surer["counted"]["lab"]


def test_a_weighted_quantile_counts_weight_not_rows():
    assert weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([8.0, 1.0, 1.0]), 0.8) == 1.0


def test_labels_may_be_one_text_for_all():
    prepared = prepare([ROW, ROW | {"micro_batch": "2"}])
    parts = prepared.work, prepared.hardware, prepared.layout, prepared.execution
    step = step_time(*parts[:3], execution=parts[3])
    labels = Labels(lab="", model="mpt-7b", gpu="H100-SXM5-80GB", method="full", format="bf16", software="")
    assert len(features_of(labels, *parts, step)) == 2
    assert replace(labels, lab="x").lab == "x"
    assert widths_of("language").table


def test_own_measurements_that_contradict_each_other_widen_the_interval():
    asked = ROW | {"source": "", "gpu": "RTX-4090", "micro_batch": "1", "global_batch": "8"}
    rows = [asked | {"throughput": figure, "unit": "tokens/s"} for figure in ("4000", "4040", "9000")]
    agreed = correct("language", features(asked), own=own_measurements(rows[:2])["language"])
    torn = correct("language", features(asked), own=own_measurements(rows)["language"])
    assert torn.high[0] > 1.15 * agreed.high[0]


def test_what_vendors_tuned_and_what_one_script_measured_by_the_dozen_are_classes_of_their_own():
    series = series_labs(packed.load()["classic"])
    timm = {"source": "huggingface/pytorch-image-models@1:x", "model": "resnet50", "gpu": "RTX-3090", "gpus": "1"}
    rows = [timm, timm | {"source": "nobody/knows@1:x"}, timm | {"source": "mlcommons/training_results_v4.0@1:x"}]
    assert model_class(features(*rows), "classic", series).tolist() == ["series", "counted", "tuned"]
    assert model_class(features(ROW | {"stack": "tuned"}), "language", series).tolist() == ["tuned"]
