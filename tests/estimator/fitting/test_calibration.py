from dataclasses import replace

import numpy as np
import pytest

from benchmarks_db.gpus import gpu
from benchmarks_db.models import resolve_model
from estimator.architectures.transformer import work
from estimator.fitting.calibration import FREE, Free, Sample, fit, group_weights, residuals
from estimator.hardware import hardware_of
from estimator.layouts import Layout
from estimator.performance import Constants, Execution, per_row, step_time
from estimator.precision import rate
from estimator.records import pick
from estimator.work import stack


def sample(constants, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    n = 120
    models = [resolve_model(name).model for name in ("gpt2-124m", "llama2-7b", "llama3-70b")]
    made = stack(
        [
            work(models[i], seq_len=s)
            for i, s in zip(rng.integers(0, 3, n), rng.choice([512, 2048, 8192], n), strict=True)
        ]
    )
    cards = [gpu(name) for name in ("A100-SXM4-80GB", "H100-SXM5-80GB", "L4")]
    kinds = hardware_of(cards, [rate("bf16", g) for g in cards], gpus_per_node=8.0)
    hardware = pick(kinds, rng.integers(0, 3, n))
    layout = Layout(
        micro_batch=rng.choice([1.0, 2.0, 8.0], n), grad_accum=rng.choice([1.0, 4.0], n), data=np.full(n, 8.0)
    )
    run = Execution(plain=np.zeros(n))
    seconds = step_time(made, hardware, layout, execution=run, constants=constants).total
    return Sample(made, hardware, layout, run, seconds * np.exp(noise * rng.normal(size=n)), np.ones(n))


def test_the_fit_finds_the_constants_that_made_the_data():
    truth = replace(Constants(), matmul=0.62, launch_us=80.0)
    free = (Free("matmul", 0.5, 0.3, 1.0), Free("launch_us", 0.5, 5.0, 300.0))
    found = fit(sample(truth, noise=0.02), free)
    assert found.matmul == pytest.approx(0.62, rel=0.03)
    assert found.launch_us == pytest.approx(80.0, rel=0.05)


def test_one_absurd_row_does_not_bend_the_fit():
    truth = replace(Constants(), matmul=0.62)
    data = sample(truth, noise=0.02)
    data.seconds[0] *= 1000.0
    found = fit(data, (Free("matmul", 0.5, 0.3, 1.0),))
    assert found.matmul == pytest.approx(0.62, rel=0.03)


def test_the_fit_stays_inside_its_bounds_and_near_its_priors():
    data = sample(replace(Constants(), matmul=0.99))
    found = fit(data, (Free("matmul", 0.5, 0.3, 0.8),))
    assert found.matmul <= 0.8
    stiff = fit(data, (Free("matmul", 0.001, 0.3, 1.0),))
    assert abs(stiff.matmul - Constants().matmul) < abs(0.99 - Constants().matmul)


def test_the_same_data_give_the_same_constants_bit_for_bit():
    data = sample(Constants(), noise=0.1)
    assert fit(data, FREE["language"]) == fit(data, FREE["language"])


def test_a_group_weighs_the_same_whatever_its_row_count():
    weights = group_weights(["a", "b", "b", "b"])
    assert weights[0] == pytest.approx(weights[1:].sum())


def test_picking_rows_keeps_scalars():
    data = sample(Constants())
    part = data.pick(np.array([3, 5]))
    assert len(part) == 2
    assert part.layout.tensor == 1.0
    assert residuals(part, Constants()) == pytest.approx(np.zeros(2), abs=1e-9)
    assert pick(3.0, np.array([0])) == 3.0


def test_rows_of_two_families_get_their_own_constants():
    table = {"language": Constants(matmul=0.7), "classic": Constants(matmul=0.5)}
    both = per_row(["language", "classic", "language"], table)
    assert np.asarray(both.matmul).tolist() == [0.7, 0.5, 0.7]
    assert both.memory == Constants().memory
    assert per_row(["classic"], table) is table["classic"]
