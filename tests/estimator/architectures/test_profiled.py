from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, resolve_model
from estimator.architectures import inventories, profiled
from estimator.terms import Method
from estimator.work import Work

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

RATES = np.array([1e12, 3e12, 1e13, 3e13])  # FLOP/s of four imaginary GPUs
BYTES = np.array([2e11, 9e11, 6e11, 2e12])  # and their values/s


def stub(name="stub-net", **known):
    return ModelFacts(name=name, kind="profiled", **known)


def clock(rates, bandwidths, batch):
    """A step-time model in three lines: compute plus traffic, not below the host."""

    def seconds(work):
        device = batch * (3 * work.matmul_flops / rates + 3 * work.elementwise_values / bandwidths)
        return (device**4 + (3e-5 * work.kernels) ** 4) ** 0.25

    return seconds


def spread(work, n):
    return replace(work, **{f: np.full(n, getattr(work, f)) for f in ("matmul_flops", "elementwise_values", "kernels")})


def experiment(truth, noise=0.0, seed=0):
    """16 measurements of a model whose factors over the rough work are `truth`; (base, codes, seconds_of, measured)."""
    rates, batch = np.tile(RATES, 4), np.repeat([1.0, 8.0, 64.0, 256.0], 4)
    seconds = clock(rates, np.tile(BYTES, 4), batch)
    base = spread(profiled.rough(stub(params_m=30.0)), 16)
    measured = seconds(profiled.apply(base, np.tile(truth, (16, 1))))
    measured = measured * np.exp(noise * np.random.default_rng(seed).standard_normal(16))
    return base, np.zeros(16, np.int64), seconds, measured


@given(st.floats(-3, 3), st.floats(-1, 1))
@settings(max_examples=25)
def test_work_is_recovered_from_throughputs_on_several_gpus(flops, kernels):
    truth = np.array([np.exp(flops), 1.0, np.exp(kernels), 1.0, 1.0])
    base, codes, seconds, measured = experiment(truth)
    sigma = np.array([profiled.SIGMA["size"]])
    found = profiled.infer(base, codes, seconds, measured, np.ones(16), sigma, rounds=40)
    predicted = seconds(profiled.apply(base, found[codes]))
    assert np.median(np.abs(np.log(predicted / measured))) < 0.05
    assert found[0, 0] == pytest.approx(truth[0], rel=0.35)


def test_one_absurd_measurement_bends_little():
    truth = np.array([3.0, 1.0, 1.0, 1.0, 1.0])
    base, codes, seconds, measured = experiment(truth, noise=0.05)
    sigma = np.array([profiled.SIGMA["size"]])
    clean = profiled.infer(base, codes, seconds, measured, np.ones(16), sigma)
    wrong = measured.copy()
    wrong[-1] *= 20.0
    bent = profiled.infer(base, codes, seconds, wrong, np.ones(16), sigma)
    assert abs(np.log(bent[0, 0] / clean[0, 0])) < 0.25


def test_a_tight_prior_holds_against_measurements_and_a_model_without_rows_stays():
    base, codes, seconds, measured = experiment(np.array([4.0, 1.0, 1.0, 1.0, 1.0]))
    sigma = np.array([(1e-3,) * 5, profiled.SIGMA["size"]])
    found = profiled.infer(base, codes, seconds, measured, np.ones(16), sigma)
    assert found == pytest.approx(np.ones((2, 5)), abs=1e-3)


def test_inference_is_the_same_bit_for_bit():
    base, codes, seconds, measured = experiment(np.array([2.0, 0.7, 1.5, 1.0, 1.0]), noise=0.2)
    sigma = np.array([profiled.SIGMA["size"]])
    one, two = (profiled.infer(base, codes, seconds, measured, np.ones(16), sigma) for _ in range(2))
    assert (one == two).all()


def test_factors_multiply_what_their_axis_names():
    base = Work(
        params=1.0, active_params=1.0, matmul_flops=10.0, grouped_flops=4.0, elementwise_values=6.0, kernels=5.0
    )
    work = profiled.apply(base, np.array([2.0, 3.0, 4.0, 1.5, 0.5]))
    assert (work.matmul_flops, work.grouped_flops) == (20.0, 8.0)
    assert work.elementwise_values == 36.0  # values follow the FLOPs
    assert work.kernels == 20.0
    assert (work.half_factor, work.wire_ratio) == (1.5, 0.5)


@given(st.floats(1, 5000), st.floats(1, 4000))
def test_rough_work_is_linear_in_parameters_and_in_a_stated_length(params, length):
    facts = stub(params_m=params, unit="tokens/s")
    one, two = (profiled.rough(facts, seq_len=s) for s in (length, 2 * length))
    assert two.matmul_flops == pytest.approx(2 * one.matmul_flops)
    assert (one.tokens, two.tokens) == (length, 2 * length)
    assert profiled.rough(replace(facts, params_m=2 * params)).matmul_flops == pytest.approx(
        2 * profiled.rough(facts).matmul_flops
    )


def test_a_sample_counts_as_many_units_as_the_facts_say():
    assert profiled.rough(stub(unit="frames/s", units_per_sample=566.0)).tokens == 566.0
    assert profiled.rough(stub(unit="samples/s", units_per_sample=None)).tokens == 1.0


def test_a_diffusion_model_costs_more_on_a_bigger_picture():
    facts = stub("stable-diffusion-2")
    usual, small, big = (profiled.rough(facts, image_size=size) for size in (None, 256, 512))
    assert usual.matmul_flops == big.matmul_flops  # counted on 64 x 64 latents, which are 512 pixels
    assert small.matmul_flops < big.matmul_flops / 4  # convolutions with the pixels, attention with their square


def test_a_model_that_nobody_measured_or_counted_is_refused():
    with pytest.raises(WorkloadError, match="neither its definition nor a measurement"):
        profiled.work(stub("never-heard-of-it"))


def test_transformers_keep_factors_by_what_they_are_trained_for():
    bert = ModelFacts(name="some-bert", kind="encoder", layers=12, hidden=768)
    assert profiled.key(bert, Method.PRETRAIN) != profiled.key(bert, Method.FULL)
    assert profiled.key(stub(), Method.PRETRAIN) == profiled.key(stub(), Method.FULL) == "stub-net"


def test_written_factors_are_read_back(tmp_path):
    path = tmp_path / "profiles.csv"
    profiled.write({"a": profiled.Evidence((1.0, 2.0, 0.5, 1.1, 0.9), "size", rows=3, gpus=2, labs=1)}, path)
    assert profiled.shipped(path) == {"a": (1.0, 2.0, 0.5, 1.1, 0.9)}


def test_shipped_factors_are_sane():
    for name, factors in profiled.shipped().items():
        assert len(factors) == len(profiled.AXES), name
        assert all(1e-7 < f < 1e5 for f in factors), name


def test_a_counted_network_keeps_its_counts_and_may_stray_further_than_a_packaged_one():
    detector = resolve_model("maskrcnn-resnet50-fpn").model
    assert profiled.basis(detector) == "drawn"
    small, large = profiled.rough(detector, image_size=400), profiled.rough(detector, image_size=800)
    assert large.matmul_flops == pytest.approx(4 * small.matmul_flops)
    assert large.trainable_params < large.params  # stem and first stage are frozen
    assert all(
        drawn >= counted for drawn, counted in zip(profiled.SIGMA["drawn"], profiled.SIGMA["counted"], strict=True)
    )


def test_counts_of_a_language_model_follow_its_length():
    model = resolve_model("transformer-xl-large").model
    counted, twice = profiled.rough(model, seq_len=256), profiled.rough(model, seq_len=512)
    assert profiled.find(model.name, length=300).length == 256
    assert twice.matmul_flops > 2 * counted.matmul_flops * 0.99
    assert twice.tokens == 2 * counted.tokens


def test_counts_that_foretell_worse_are_not_used_and_say_why():
    reasons = inventories.left_out()
    counted = {name for name in reasons if name in inventories.inventories()}
    assert counted
    assert all(len(reason) > 20 for reason in reasons.values())
    assert all(inventories.find(name) is None for name in counted)


def test_factors_on_a_guessed_size_are_dropped_once_a_model_is_counted(tmp_path):
    file = tmp_path / "profiles.csv"
    evidence = {name: profiled.Evidence((9.0,) * 5, "size", 3, 2, 1) for name in ("maskrcnn-resnet50-fpn", "stub-net")}
    profiled.write(evidence, file)
    assert set(profiled.shipped(file)) == {"stub-net"}


def test_whisper_is_counted_on_a_window_of_thirty_seconds():
    """2 FLOPs a parameter and position: 1,500 positions of the encoder, of which the decoder reads keys and values."""
    for name, params_m in (("whisper-small", 241.7), ("openai/whisper-large-v3", 1543.5)):
        model = resolve_model(name).model
        work = profiled.rough(model)
        assert work.params == pytest.approx(params_m * 1e6, rel=0.01)
        assert 0.6 < float(work.matmul_flops) / (2.0 * 1500 * params_m * 1e6 * 0.5) < 1.6
    assert resolve_model("whisper").model.name == "whisper-small"


def test_a_step_that_the_host_paces_is_told_from_one_that_the_device_paces():
    """Batches of 1 to 64 that take as long on a GPU of four times the rate: only launches explain them."""
    batch, rates = np.tile([1.0, 8.0, 64.0], 2), np.repeat([50e12, 200e12], 3)

    def seconds(work):
        device = batch * 3 * work.matmul_flops / rates
        return (device**4 + (3 * work.kernels * 5e-6) ** 4) ** 0.25

    base = Work(params=1.0, active_params=1.0, matmul_flops=np.full(6, 1e10), kernels=np.full(6, 150.0))
    measured = seconds(replace(base, matmul_flops=np.full(6, 1e9), kernels=np.full(6, 4500.0)))
    sigma = np.array([profiled.SIGMA["size"]])
    found = profiled.infer(base, np.zeros(6, int), seconds, measured, np.ones(6), sigma)
    assert np.abs(np.log(seconds(profiled.apply(base, found[np.zeros(6, int)])) / measured)).max() < 0.1


def test_a_sentence_is_as_many_tokens_as_sentences_have_however_long_they_may_be():
    facts = resolve_model("transformer-big").model
    token, short, cut = (profiled.rough(facts, seq_len=length) for length in (None, 10.0, 64.0))
    assert token.tokens == 1.0
    assert short.matmul_flops == pytest.approx(10.0 * token.matmul_flops)
    assert cut.matmul_flops == pytest.approx(profiled.SENTENCE * token.matmul_flops)
    assert cut.tokens == profiled.SENTENCE
