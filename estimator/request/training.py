"""How many optimizer steps is this request, on what, and what had to be assumed to say so?

steps = ceil(samples per epoch x epochs / global batch). A sample is one position-filled sequence (packed) or one
padded example for language models, one image for vision models, one sample of the source for the rest. Everything
here is pure; nothing is guessed without an entry in `assumed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts
from benchmarks_db.objectives import OBJECTIVE_PIXELS, objectives
from estimator.request.fields import near_divisors
from estimator.request.sections import OWN_NETWORK_GBPS
from estimator.request.workload import Workload
from estimator.terms import Method, Precision

LANGUAGE_KINDS = frozenset({"decoder", "moe", "encoder", "encoder-decoder", "size-only"})
DEFAULT_SEQ_LEN = 2048
DEFAULT_IMAGE_SIZE = 224
# How far beyond its pretrained context a rotary model has been stretched in public: 32x (4k to 128k, YaRN,
# arXiv:2309.00071); twice that is taken for a slip.
MAX_CONTEXT_STRETCH = 64

# Tokens of one optimizer step when a language model is pretrained and the request does not say: GPT-3, table 2.1
# (arXiv:2005.14165; its 3.2M as Llama 2's 4M), as (up to this many million parameters, tokens), powers of two.
PRETRAIN_BATCH_TOKENS = ((1_000.0, 2**19), (5_000.0, 2**20), (50_000.0, 2**21), (math.inf, 2**22))
FINE_TUNE_BATCH = 64  # between the 16 of trainer defaults and Alpaca's 128 (gh:tatsu-lab/stanford_alpaca)
ENCODER_BATCH = 256  # BERT's pretraining batch (arXiv:1810.04805, A.2)
VISION_BATCH = 256  # the ImageNet batch of arXiv:1512.03385 and arXiv:1706.02677
PROFILED_BATCH = 64


@dataclass(frozen=True, slots=True)
class Assumption:
    """A value that the request left open: what was taken, and why."""

    field: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value} ({self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a request amounts to; None = the request does not tell how much data there is, or it has no meaning."""

    unit: str  # "tokens" or "samples": what throughput is counted in
    seq_len: int | None  # positions of a sample, padding included
    image_size: int | None
    tokens_per_sample: float | None  # positions that are not padding
    samples_per_epoch: float | None
    samples: float | None  # over all epochs
    tokens: float | None  # over all epochs, padding not counted
    global_batch: int  # samples per optimizer step
    steps: int | None
    assumed: tuple[Assumption, ...]
    warnings: tuple[str, ...]

    @property
    def padding_share(self) -> float:
        """The part of the positions that is padding: work without use, 0 to 1."""
        if not self.seq_len or self.tokens_per_sample is None:
            return 0.0
        return max(0.0, 1.0 - self.tokens_per_sample / self.seq_len)


def training_of(workload: Workload, facts: ModelFacts) -> Training:
    """The steps, samples and tokens of `workload` on the model `facts`; refuses what contradicts the model.

    Raises WorkloadError, naming the field, for data, lengths and degrees that this model cannot take.
    """
    notes = _Notes()
    language = is_language(workload, facts)
    _check_method(workload, facts, language)
    seq_len = _seq_len(workload, facts, notes) if language else None
    image_size = _image_size(workload, facts, notes) if not language else None
    if workload.objective is not None:
        _note_objective(workload.objective, notes)
    check_degrees(workload, facts, seq_len)
    batch = _global_batch(workload, facts, seq_len, notes)
    if language and seq_len:
        per_sample, per_epoch = _language_samples(workload, seq_len, notes)
    else:
        per_sample, per_epoch = None, _plain_samples(workload)
    total = per_epoch * workload.epochs if per_epoch is not None else None
    steps = max(1, math.ceil(total / batch - 1e-9)) if total is not None else None
    if total is not None and total < batch:
        notes.warnings.append(
            f"the whole run ({total:g} samples) is smaller than one global batch ({batch}); it takes a single step"
        )
    _assume_the_rest(workload, notes)
    return Training(
        unit="tokens" if language else "samples",
        seq_len=seq_len,
        image_size=image_size,
        tokens_per_sample=per_sample,
        samples_per_epoch=per_epoch,
        samples=total,
        tokens=total * per_sample if total is not None and per_sample is not None else None,
        global_batch=batch,
        steps=steps,
        assumed=tuple(notes.assumed),
        warnings=tuple(notes.warnings),
    )


def need_data(training: Training) -> int:
    """The optimizer steps; a plan cannot do without the size of the data set."""
    if training.steps is None:
        names = ("tokens", "samples") if training.unit == "tokens" else ("samples", "images")
        raise WorkloadError(
            f"say how much data there is: {' or '.join(names)}, for example {names[0]}: 50M", field=names[0]
        )
    return training.steps


def is_language(workload: Workload, facts: ModelFacts) -> bool:
    """Does a sample have a length in tokens that the request may set?"""
    if workload.custom is not None:
        return workload.custom.unit == "tokens"
    return facts.kind in LANGUAGE_KINDS


class _Notes:
    """Assumptions and warnings as they come up."""

    def __init__(self) -> None:
        self.assumed: list[Assumption] = []
        self.warnings: list[str] = []

    def assume(self, field: str, value: object, why: str) -> None:
        self.assumed.append(Assumption(field, str(value), why))


def _check_method(workload: Workload, facts: ModelFacts, language: bool) -> None:
    adapters = workload.method in (Method.LORA, Method.QLORA)
    if adapters and not language and workload.custom is None:
        raise WorkloadError(
            f"{workload.method} needs a transformer language model; {facts.name} is a {facts.kind} model",
            field="method",
            value=workload.method.value,
            nearest=("full", "pretrain"),
        )
    if language:
        if workload.images is not None:
            raise WorkloadError(f"{facts.name} does not train on images", field="images", nearest=("samples", "tokens"))
        if workload.image_size is not None:
            raise WorkloadError(f"{facts.name} has no image size", field="image_size", nearest=("seq_len",))
        return
    if workload.tokens is not None:
        raise WorkloadError(f"{facts.name} does not train on tokens", field="tokens", nearest=("samples", "images"))
    for field in ("packing", "mean_tokens_per_sample"):
        if getattr(workload, field):
            raise WorkloadError(f"{facts.name} has no sequences to fill", field=field)
    if workload.seq_len is not None and facts.kind == "vision":
        raise WorkloadError(f"{facts.name} has no sequence length", field="seq_len", nearest=("image_size",))


def _seq_len(workload: Workload, facts: ModelFacts, notes: _Notes) -> int:
    limit = int(facts.max_seq_len) if facts.max_seq_len else None
    if workload.seq_len is None:
        length = min(DEFAULT_SEQ_LEN, limit or DEFAULT_SEQ_LEN)
        notes.assume("seq_len", length, "the model's limit" if length == limit else "not given")
        return length
    length = workload.seq_len
    if limit and length > limit:
        ceiling = limit if facts.kind == "encoder" else limit * MAX_CONTEXT_STRETCH
        if length > ceiling:
            raise WorkloadError(
                f"{length} is beyond what {facts.name} can be trained at (its context is {limit})",
                field="seq_len",
                value=length,
                nearest=(str(limit),),
            )
        notes.warnings.append(
            f"seq_len {length} is above the context of {facts.name} ({limit}); positions must be scaled"
        )
    return length


def _image_size(workload: Workload, facts: ModelFacts, notes: _Notes) -> int | None:
    if workload.image_size is not None:
        return workload.image_size
    if facts.kind != "vision":
        return int(facts.image_size) if facts.image_size else None
    size, why = int(facts.image_size or DEFAULT_IMAGE_SIZE), "not given"
    if workload.objective is not None:
        size, why = int(OBJECTIVE_PIXELS), f"full-size views of {workload.objective} as published"
    elif facts.image_size:
        why = "the size the model is published at"
    notes.assume("image_size", size, why)
    return size


def _note_objective(name: str, notes: _Notes) -> None:
    objective = objectives()[name]
    notes.assume("objective", name, f"as published: {objective.recipe}")
    notes.warnings.append(
        f"steps under {name} were not measured: they are counted from its published recipe, without heads and losses, "
        "and the interval is that of supervised training"
    )


def _global_batch(workload: Workload, facts: ModelFacts, seq_len: int | None, notes: _Notes) -> int:
    if workload.global_batch is not None:
        return workload.global_batch
    micro = workload.micro_batch if isinstance(workload.micro_batch, int) else 1
    floor = micro * (workload.grad_accum or 1)
    if seq_len and workload.method is Method.PRETRAIN and facts.kind != "encoder":
        size = facts.params_m or 0.0
        tokens = next(tokens for limit, tokens in PRETRAIN_BATCH_TOKENS if size <= limit)
        batch, why = max(1, round(tokens / seq_len)), f"{tokens / 2**20:g}M tokens a step, as GPT-3 of that size"
        batch = max(8, 8 * round(batch / 8)) if batch > 8 else batch  # a multiple of 8 divides over a node
    elif seq_len and workload.method is Method.PRETRAIN:
        batch, why = ENCODER_BATCH, "BERT's pretraining batch"
    elif seq_len:
        batch, why = FINE_TUNE_BATCH, "a common fine-tuning batch"
    elif facts.kind == "vision":
        batch, why = VISION_BATCH, "the usual ImageNet batch"
    else:
        batch, why = PROFILED_BATCH, "not given"
    if floor > batch:
        batch, why = floor, "micro_batch x grad_accum"
    notes.assume("global_batch", batch, why)
    return batch


def _language_samples(workload: Workload, seq_len: int, notes: _Notes) -> tuple[float, float | None]:
    """Useful tokens of a sample, and samples of an epoch (None when the request names no data)."""
    mean = workload.mean_tokens_per_sample
    packing = workload.packing if workload.packing is not None else mean is None
    count = workload.samples
    if count is None and workload.tokens is None:
        return (seq_len if packing or mean is None else min(mean, float(seq_len))), None
    if packing:
        if workload.packing is None:
            notes.assume("packing", "true", "no mean_tokens_per_sample: every sequence is taken as full")
        tokens = workload.tokens
        if tokens is None:
            if mean is None:
                notes.assume("mean_tokens_per_sample", seq_len, "seq_len, the longest a sample can be")
            tokens = (count or 0.0) * (mean or seq_len)
        return float(seq_len), max(1.0, tokens / seq_len)
    if mean is None:
        if count is None:
            raise WorkloadError(
                "without packing, tokens alone do not tell how many samples there are",
                field="mean_tokens_per_sample",
                nearest=("samples", "packing: true"),
            )
        notes.assume("mean_tokens_per_sample", seq_len, "seq_len, the longest a sample can be")
        mean = float(seq_len)
    if mean > seq_len:
        notes.warnings.append(
            f"samples of {mean:g} tokens on average are cut at seq_len {seq_len}: at most {seq_len / mean:.0%} of the "
            "tokens are trained on"
        )
    if count is None:
        count = (workload.tokens or 0.0) / mean
    return min(mean, float(seq_len)), max(1.0, count)


def _plain_samples(workload: Workload) -> float | None:
    count = workload.samples if workload.samples is not None else workload.images
    return count if count is not None else workload.tokens


def _assume_the_rest(workload: Workload, notes: _Notes) -> None:
    given = workload.model_fields_set
    if "method" not in given:
        notes.assume("method", workload.method, "not given")
    if "epochs" not in given:
        notes.assume("epochs", "1", "not given")
    if workload.precision is Precision.AUTO:
        notes.assume("precision", "auto", "bf16 where the GPU has it, else fp16")
    if "optimizer" not in given:
        notes.assume("optimizer", workload.optimizer, "not given")
    for machine in workload.own:
        if "network_gbps" not in machine.model_fields_set and "network_gbps" in machine.stated():
            notes.assume(f"own {machine.name}: network_gbps", f"{OWN_NETWORK_GBPS:g}", "Ethernet; not stated")
    if workload.method in (Method.LORA, Method.QLORA) and workload.lora is None:
        notes.assume("lora", "rank 16 on all linear layers", "not given")


# --- degrees -----------------------------------------------------------------------------------------------------


def check_degrees(workload: Workload, facts: ModelFacts, seq_len: int | None) -> None:
    """Refuse parallel degrees that cannot divide this model."""
    transformer = facts.heads is not None and facts.layers is not None and facts.kind in LANGUAGE_KINDS
    degrees = {
        field: getattr(workload, field)
        for field in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    }
    asked = {field: degree for field, degree in degrees.items() if isinstance(degree, int) and degree > 1}
    for field, degree in asked.items():
        if not transformer:
            raise WorkloadError(
                f"{facts.name} is only trained data-parallel here", field=field, value=degree, nearest=("1", "auto")
            )
        whole, what = _divided(field, facts, seq_len)
        if not whole:
            raise WorkloadError(f"{facts.name} has no {what}", field=field, value=degree, nearest=("1", "auto"))
        if field == "pipeline_parallel":
            if degree > whole:
                raise WorkloadError(
                    f"{degree} is above the {whole} {what} of {facts.name}",
                    field=field,
                    value=degree,
                    nearest=(str(whole),),
                )
        elif whole % degree:
            raise WorkloadError(
                f"{degree} does not divide the {whole} {what} of {facts.name}",
                field=field,
                value=degree,
                nearest=near_divisors(whole, degree),
            )


def _divided(field: str, facts: ModelFacts, seq_len: int | None) -> tuple[int, str]:
    if field == "tensor_parallel":
        return int(facts.heads or 0), "attention heads"
    if field == "pipeline_parallel":
        return int(facts.layers or 0), "layers"
    if field == "context_parallel":
        return int(seq_len or 0), "positions of a sequence"
    return int(facts.experts or 0), "experts"
