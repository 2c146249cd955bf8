import pytest

from benchmarks_db.gpus import gpu
from estimator import precision
from estimator.terms import Precision


def test_mixed_precision_runs_on_tensor_cores_where_a_card_has_them():
    assert precision.rate("fp16", gpu("V100-SXM2-16GB")).peak_tflops == 125
    assert precision.rate("bf16", gpu("A100-SXM4-80GB")).peak_tflops == 312


@pytest.mark.parametrize("name", ["V100-SXM2-16GB", "T4"])
def test_bf16_is_refused_on_cards_without_it(name):
    rate = precision.rate("bf16", gpu(name))
    assert rate.peak_tflops is None
    assert "bf16" in (rate.refused or "")


def test_fp8_is_refused_before_ada_and_leaves_attention_in_16_bit_after_it():
    assert precision.rate("fp8", gpu("A100-SXM4-80GB")).refused
    rate = precision.rate("fp8", gpu("H100-SXM5-80GB"))
    assert rate.peak_tflops == pytest.approx(1979)
    assert rate.half_tflops == pytest.approx(989)


def test_tf32_is_plain_fp32_where_there_is_no_tf32():
    assert precision.rate("tf32", gpu("V100-SXM2-16GB")).peak_tflops == gpu("V100-SXM2-16GB").fp32_tflops
    assert precision.rate("tf32", gpu("A100-SXM4-80GB")).peak_tflops == 156


def test_mixed_precision_gains_no_time_on_a_card_without_matrix_units():
    assert precision.rate("fp16", gpu("GTX-1080Ti")).peak_tflops == gpu("GTX-1080Ti").fp32_tflops


def test_geforce_runs_fp16_with_fp32_accumulation_at_half_rate():
    geforce, professional = gpu("RTX-3090"), gpu("RTX-A6000")
    per_sm = precision.rate("fp16", geforce).peak_tflops / geforce.sms / geforce.boost_mhz
    full = precision.rate("fp16", professional).peak_tflops / professional.sms / professional.boost_mhz
    assert per_sm == pytest.approx(full / 2, rel=0.05)


def test_auto_takes_bf16_else_fp16():
    assert precision.resolve(Precision.AUTO, gpu("H100-SXM5-80GB")).name == "bf16"
    assert precision.resolve(Precision.AUTO, gpu("T4")).name == "fp16"


@pytest.mark.parametrize(
    ("text", "name"), [("AMP-BF16", "bf16"), ("float32", "fp32"), ("16-mixed", "fp16"), ("mxfp8", "mxfp8"), ("?", None)]
)
def test_spellings_of_formats_are_understood(text, name):
    assert precision.canonical(text) == name
