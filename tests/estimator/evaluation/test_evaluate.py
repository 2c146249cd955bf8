import csv
import io
import json

import numpy as np
import pytest

from estimator.evaluation.evaluate import (
    FORMATS,
    Report,
    Score,
    cases,
    constant_mfu,
    coverage,
    evaluate,
    own_measurement,
    score,
)
from estimator.fitting import study
from estimator.performance.evidence import kin


@pytest.fixture(scope="module")
def data():
    return study.bench("language", cap=2)


def test_left_out_things_are_never_split_over_folds(data):
    for split, label in (
        ("lab", data.groups),
        ("unseen-model", data.names("model")),
        ("unseen-lab", data.names("lab")),
        (study.FAMILY, np.array([kin(name) for name in data.names("model")])),
    ):
        fold = study.folds(data, split)
        for name in np.unique(label):
            assert len(np.unique(fold[label == name])) == 1


def test_folds_are_the_same_every_time(data):
    assert np.array_equal(study.folds(data, "lab"), study.folds(data, "lab"))
    assert len(np.unique(study.folds(data, "group"))) == study.FOLDS["group"]


def test_a_bench_holds_only_readable_rows_with_a_time(data):
    assert np.all(np.isfinite(data.sample.seconds))
    assert np.all(data.sample.seconds > 0)
    assert set(data.quality) <= {"ok", "suspect"}
    assert data.sample.weights.sum() <= len(np.unique(data.groups)) + 1e-9


def test_left_out_errors_are_those_of_the_physics_where_nothing_is_alike(data):
    trained = study.Trained(study.PRIORS["language"], None)
    physics, final = study.left_out(data, "unseen-lab", whole=trained, refit=False)
    assert np.all(np.isfinite(physics))
    assert np.median(np.abs(final - physics)) < 0.01


def test_every_row_is_in_the_case_all_and_scores_are_percentages(data):
    masks = cases(data)
    assert masks["language: all"].all()
    zeros = np.zeros(len(data))
    line = score(data, "x", "lab", masks["language: all"], zeros, zeros + np.log(1.1), zeros, zeros + 1, zeros + 0.2)
    assert line is not None
    assert (line.median, line.physics_median, line.coverage) == (10.0, 0.0, 100.0)
    assert score(data, "x", "lab", ~masks["language: all"], zeros, zeros, zeros, zeros, zeros) is None


def test_every_group_counts_the_same_in_an_error_whatever_its_quality(data):
    assert data.even.sum() == pytest.approx(len(np.unique(data.groups)))
    suspect = data.quality == "suspect"
    every, zeros = np.ones(len(data), bool), np.zeros(len(data))
    line = score(data, "x", "lab", every, zeros, np.where(suspect, 1.0, 0.0), zeros, ~suspect + 0.0, zeros)
    assert line is not None
    share = data.even[suspect].sum() / data.even.sum()
    assert share > 2.0 * data.sample.weights[suspect].sum() / data.sample.weights.sum()
    assert line.coverage == pytest.approx(100.0 * (1.0 - share), abs=0.1)


def test_the_baseline_is_a_constant_utilisation_of_the_training_rows(data):
    residual = constant_mfu(data, "lab", study.Trained(study.PRIORS["language"], None))
    assert np.all(np.isfinite(residual))
    assert 0.05 < np.median(np.abs(residual)) < 1.5


def test_intervals_are_judged_on_rows_they_were_not_taken_from(data):
    rng = np.random.default_rng(0)
    finals = {split: rng.normal(0, 0.2, len(data)) for split in study.SPLITS}
    inside, width = coverage(data, finals, np.repeat("dense", len(data)), "lab")
    assert np.average(inside, weights=data.even) == pytest.approx(0.8, abs=0.08)
    assert np.median(width) == pytest.approx(0.256, abs=0.05)


def test_one_own_measurement_helps_where_errors_of_a_group_agree(data):
    names, codes = np.unique(data.groups, return_inverse=True)
    shared = np.random.default_rng(0).normal(0, 0.4, len(names))[codes]
    _step, features = study.predict(data, np.arange(len(data)), study.Trained(study.PRIORS["language"], None))
    after, before = own_measurement(data, features, shared)
    assert after < 0.6 * before


def test_reports_render_in_every_format():
    line = Score("all", "lab", 3, 9, 8.0, 35.0, -1.0, 12.0, 27.0, 140.0, 80.0, 1.25)
    report = Report([line], {"floor %": 1.5})
    assert json.loads(FORMATS["json"](report))["scores"][0]["median"] == 8.0
    assert next(csv.DictReader(io.StringIO(FORMATS["csv"](report))))["case"] == "all"
    table = FORMATS["markdown"](report)
    assert "| all | known lab, unseen group | 3 | 8.0 / 35 |" in table
    assert "floor %" in table
    assert callable(evaluate)
