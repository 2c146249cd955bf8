"""How do CSV rows become the arrays that the model works on, and seconds a step become a throughput in a row's unit?"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.errors import EstimatorError, UnknownName
from benchmarks_db.models import ModelFacts
from benchmarks_db.objectives import OBJECTIVE_PIXELS
from estimator.architectures import LANGUAGE_MODELS, work_of
from estimator.architectures.objectives import under
from estimator.architectures.transformer import DEFAULT_SEQ_LEN
from estimator.hardware import Hardware, hardware_of, link_of
from estimator.layouts import Layout
from estimator.performance.evidence import Labels
from estimator.performance.execution import optimizer_bytes
from estimator.performance.roofline import Execution, format_code
from estimator.precision import MatrixRate, rate
from estimator.rows.cells import Row, read_row
from estimator.rows.habits import (
    accumulates,
    early_attention,
    early_dequantise,
    fused_adapters,
    fused_stack,
    library_stack,
    looped_experts,
    plain_stack,
    recomputes,
    widened,
)
from estimator.terms import LinkKind, Method, Recompute, Sharding
from estimator.work import Work, stack

INSTRUCTION_TOKENS = 300.0
"""Tokens of a sample where a fine-tuning row states no length (low 150, high 600): instructions and short chats.

Measured: 194 (instructions, fms-acceleration's tables) and 421 (the chats of guanaco-llama2-1k, ROCm's blog)."""

PADDING = 0.2
"""A micro-batch is padded to its longest sample, n^0.2 times as long for n (1.44 for 8: 279 against 194 tokens)."""

UNPADDED = 0.5
"""Real positions of a padded sequence of BERT's Wikipedia text, the only ones that tuned software computes.

Up to half of the positions are padding at 512 (Krell et al., arXiv:2107.02027); MLPerf submissions leave them out."""

ROOM = 0.8
"""Share of the memory that stored values take where a stated global batch is cut into micro-batches."""

SENTENCES = 5120.0
"""Tokens a micro-batch of translation where nothing is said (DeepLearningExamples' Transformer: 2,560 to 10,240)."""

HIDES_GRADIENTS = 16_384.0
"""Tokens a data-parallel replica and step from which computing them takes as long as exchanging gradients.

8 bytes a parameter over 50 GB/s against 6 FLOPs a parameter and token at 400 TFLOP/s: 10,700. Jobs of thousands of GPUs
have more pipeline stages instead of replicas below it (MLPerf GPT-3 on 10,752 H100: 32 GPUs a replica)."""

MANY_GPUS = 256.0
"""GPUs up to which a row that states no degrees is cut for memory alone."""

TIME_UNITS = {"s/step": 1.0, "ms/step": 1e-3}
SAMPLE_UNITS = ("samples/s", "images/s", "img/s", "sequences/s", "seq/s", "imgs/s")
UNITS = ("tokens/s", "frames/s", "audio-samples/s", *SAMPLE_UNITS, *TIME_UNITS, "steps/s")


@dataclass(frozen=True)
class Prepared:
    """The usable rows among n given ones, as arrays of shape (m,), and what was wrong with the others."""

    index: NDArray[np.int64]  # position among the given rows
    errors: list[str]  # of every given row; "" where usable
    rows: list[Row]  # usable ones
    work: Work
    hardware: Hardware
    layout: Layout
    execution: Execution
    families: list[str]
    amount: NDArray[np.float64]  # of the row's unit in one step (of all GPUs, or of one where the row is per GPU)
    is_time: NDArray[np.bool_]  # the unit is a time a step
    scale: NDArray[np.float64]  # seconds of that unit (1e-3 for ms/step)
    units: list[str]  # of the prediction

    def throughput(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds a step in each row's unit and scope."""
        return np.where(self.is_time, seconds / self.scale, self.amount / seconds)

    def seconds(self, throughput: NDArray[np.float64]) -> NDArray[np.float64]:
        """A figure in each row's unit and scope as seconds a step."""
        return np.where(self.is_time, throughput * self.scale, self.amount / throughput)


class Described(dict[str, str]):
    """Cells of a row whose model no table names: its facts, its work a sample and its family come along."""

    def __init__(self, cells: Mapping[str, str], facts: ModelFacts, work: Work, family: str) -> None:
        super().__init__(cells)
        self.facts, self.work, self.family = facts, work, family

    def read(self) -> Row:
        """The row, its model as described; EstimatorError as from `read_row`."""
        row = read_row({**self, "model": "", "params_m": "1"})
        return replace(row, model=self.facts, model_known=True)


def family_of(row: Row) -> str:
    """Which set of constants a row uses."""
    return "language" if row.language and row.model.kind in LANGUAGE_MODELS else "classic"


def prepare(rows: Sequence[Mapping[str, str]], *, profiles: bool = True) -> Prepared:
    """Read rows, fill their blanks and build the arrays; a row that cannot be used gets an error, the others go on.

    `profiles` as in `work_of`: False for the fit, which infers them itself.
    """
    errors = [""] * len(rows)
    index: list[int] = []
    read: list[Row] = []
    families: list[str] = []
    works: list[Work] = []
    rates: list[MatrixRate] = []
    layouts: list[tuple[float, ...]] = []
    cache: dict[object, Work | str] = {}
    for i, cells in enumerate(rows):
        try:
            described = cells if isinstance(cells, Described) else None
            row = described.read() if described else read_row(cells)
            if row.unit and row.unit not in UNITS:
                raise UnknownName("unit", row.unit, UNITS, field="unit")
            work = described.work if described else _work(row, cache, profiles)
            matrix = rate("fp32" if widened(row) else row.format, row.gpu)
            if not matrix.peak_tflops:
                raise EstimatorError(f"no {row.format} rate of {row.gpu.name} is known", field="gpu")
        except EstimatorError as error:
            errors[i] = str(error)
            continue
        except (ValueError, ArithmeticError, AttributeError, TypeError) as error:
            errors[i] = f"cannot be read: {error}"
            continue
        index.append(i)
        read.append(row)
        families.append(described.family if described else family_of(row))
        works.append(work)
        rates.append(matrix)
        layouts.append(_layout(row, work))
    table = np.array(layouts, float).reshape(len(layouts), len(_LAYOUT_COLUMNS))
    column = dict(zip(_LAYOUT_COLUMNS, table.T, strict=True))
    layout = Layout(
        micro_batch=column["micro_batch"],
        grad_accum=column["grad_accum"],
        data=column["data"],
        tensor=column["tensor"],
        pipeline=column["pipeline"],
        context=column["context"],
        expert=column["expert"],
        virtual_stages=column["virtual_stages"],
        sharding=column["sharding"].astype(np.int64),
        recompute=column["recompute"].astype(np.int64),
    )
    work = stack(works) if works else Work(params=np.zeros(0), active_params=np.zeros(0))
    hardware = hardware_of(
        [row.gpu for row in read],
        rates,
        gpus_per_node=column["gpus"] / column["nodes"],
        nodes=column["nodes"],
        links=[row.links for row in read],
    )
    samples = column["micro_batch"] * column["grad_accum"] * column["data"]
    units = [_unit(row) for row in read]
    tokens = np.array([unit not in SAMPLE_UNITS for unit in units], bool)  # frames and audio samples: units a sample
    is_time = np.array([unit in TIME_UNITS for unit in units], bool)
    per_gpu = np.array([row.per_gpu for row in read], bool)
    amount = samples * np.where(tokens, np.asarray(work.tokens), 1.0) / np.where(per_gpu, column["gpus"], 1.0)
    amount = np.where(np.array([unit == "steps/s" for unit in units], bool), 1.0, amount)  # of all GPUs in lockstep
    return Prepared(
        index=np.array(index, np.int64),
        errors=errors,
        rows=read,
        work=work,
        hardware=hardware,
        layout=layout,
        execution=_execution(read, rates),
        families=families,
        amount=amount,
        is_time=is_time,
        scale=np.array([TIME_UNITS.get(unit, 1.0) for unit in units]),
        units=units,
    )


def labels_of(prepared: Prepared) -> Labels:
    """Names of the prepared rows for evidence: lab, model, GPU, method, format, framework without its version."""
    rows = prepared.rows
    return Labels(
        lab=[row.lab for row in rows],
        model=[row.model.name for row in rows],
        gpu=[row.gpu.name for row in rows],
        method=[{Method.LORA: "lora", Method.QLORA: "qlora"}.get(row.method, "full") for row in rows],
        format=[row.format for row in rows],
        software=[re.split(r"[\s/(]|-?\d", row.framework, maxsplit=1)[0] or "?" for row in rows],
    )


def seq_len_of(row: Row) -> float:
    """Stated length; else that of padded instructions for fine-tuning (no more than the longest sample, where that is
    stated), 2,048 (or the model's limit) elsewhere.
    """
    if not math.isnan(row.seq_len):
        return row.seq_len
    if row.method is not Method.PRETRAIN:
        usual = INSTRUCTION_TOKENS * min(_or(row.micro_batch, 1.0), 16.0) ** PADDING
        return float(min(usual, _or(row.longest_sample, math.inf)))
    return min(DEFAULT_SEQ_LEN, row.model.max_seq_len or DEFAULT_SEQ_LEN)


def length_assumed(row: Row) -> bool:
    """Whether the length of a fine-tuning row's samples is `INSTRUCTION_TOKENS`, for want of a better figure."""
    return row.language and math.isnan(row.seq_len) and row.method is not Method.PRETRAIN


def attention_of(row: Row) -> str:
    """Stated kernel; else fused where the GPU has one (compute capability 8.0 and up) and the model is a decoder."""
    if row.attention:
        return "eager" if row.attention in ("eager", "math", "standard") else "flash"
    capable = row.gpu.kind != "gpu" or float(row.gpu.compute_capability or 9.0) >= 8.0
    return "flash" if capable and row.model.kind != "encoder" and row.format != "fp32" else "eager"


def _work(row: Row, cache: dict[object, Work | str], profiles: bool) -> Work:
    if row.language:
        unpadded = row.tuned and row.model.kind == "encoder" and row.method is Method.PRETRAIN
        options = {
            "seq_len": seq_len_of(row) * (UNPADDED if unpadded else 1.0),
            "method": row.method,
            "attention": attention_of(row),
        }
        key: object = (row.model.name, row.model.params_m, row.model.active_params_m, *options.values())
    else:
        published = None if row.objective is None else OBJECTIVE_PIXELS
        options = {
            "image_size": published if math.isnan(row.image_size) else row.image_size,
            "seq_len": None if math.isnan(row.seq_len) else row.seq_len,
            "memory_format": "channels-last" if row.channels_last else "",
            "compiled": row.compiled,
        }
        key = (row.model.name, row.objective.name if row.objective else "", *options.values())
    if key not in cache:
        try:
            found = work_of(row.model, profiles=profiles, **options)  # type: ignore[arg-type]
            size = options.get("image_size")
            pixels = (size / OBJECTIVE_PIXELS) ** 2 if isinstance(size, float) else 1.0
            cache[key] = under(found, row.objective, pixels=pixels) if row.objective else found
        except EstimatorError as error:
            cache[key] = str(error)
    known = cache[key]
    if isinstance(known, str):
        raise EstimatorError(known)
    return known


_LAYOUT_COLUMNS = (
    "gpus", "nodes", "micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert", "virtual_stages",
    "sharding", "recompute",
)  # fmt: skip


def _or(value: float, default: float) -> float:
    return default if math.isnan(value) else value


def gpus_a_node(row: Row) -> float:
    """GPUs of a host where the row does not say: 4 in GB200 and GB300 trays and in nodes of GH200 (Alps), else 8."""
    return 4.0 if row.gpu.name.startswith(("GB200", "GB300", "GH200")) else 8.0


def _layout(row: Row, work: Work) -> tuple[float, ...]:
    """Degrees, batch, sharding and recomputation; blanks as documented at each line."""
    gpus = row.gpus
    nodes = _or(row.nodes, max(1.0, math.ceil(gpus / gpus_a_node(row))))
    nodes = min(nodes, max(gpus, 1.0))
    tensor, pipeline, context = _or(row.tensor, 1.0), _or(row.pipeline, 1.0), _or(row.context, 1.0)
    capacity = _capacity(row)
    params, trainable = float(work.params), float(work.trainable_params)
    states = 2.0 * params + 16.0 * trainable
    if math.isnan(row.tensor) and math.isnan(row.pipeline) and _cuts(row) and not row.fully_sharded:
        # nothing stated: tensor, then pipeline parallel until the states of a data-parallel replica's share fit
        homes = _or(row.expert, _usual_experts(row, work, capacity))  # experts live on one rank of so many each
        states *= 1.0 - float(work.expert_params) / params * (1.0 - 1.0 / homes)
        while states / (tensor * pipeline) / max(1.0, min(gpus / (tensor * pipeline), 8.0)) > 0.6 * capacity:
            if tensor < min(8.0, gpus):
                tensor *= 2.0
            elif pipeline * tensor * 2.0 <= gpus:
                pipeline *= 2.0
            else:
                break
        full = gpus > MANY_GPUS and row.method not in (Method.LORA, Method.QLORA)
        tokens = row.global_batch * float(work.tokens)  # NaN where no batch is stated: nothing is added then
        while full and tokens * tensor * pipeline < HIDES_GRADIENTS * gpus and pipeline * 2.0 <= float(work.layers):
            pipeline *= 2.0
    cut = tensor * pipeline * context
    if cut > gpus:
        context = 1.0
        pipeline = max(1.0, math.floor(gpus / tensor)) if tensor * pipeline > gpus else pipeline
        tensor = min(tensor, gpus) if tensor * pipeline > gpus else tensor
        cut = tensor * pipeline * context
    data = max(1.0, gpus / cut) if gpus >= 1.0 else 1.0
    micro, accum = _batch(row, work, data, pipeline)
    expert = min(_or(row.expert, _usual_experts(row, work, capacity)), max(1.0, data * tensor))
    sharding = _sharding(row, params, trainable, tensor * pipeline, data, capacity)
    recompute = {"full": Recompute.FULL, "selective": Recompute.SELECTIVE}.get(row.act_ckpt, Recompute.NONE)
    if not row.act_ckpt and recomputes(row):
        recompute = Recompute.FULL
    elif not row.act_ckpt and row.language:
        share = data if sharding == Sharding.ZERO3 else 1.0
        met = 1.0 - float(work.expert_params) / params * (1.0 - 1.0 / expert)  # experts live on one rank each
        states = 2.0 * params + (16.0 if sharding == Sharding.NONE else 4.0) * trainable
        static = states * met / (tensor * pipeline) / share
        stored = 2.0 * micro * float(work.stored_values) / (tensor * context)
        lean = 2.0 * micro * float(work.stored_values_selective) / (tensor * context)
        if pipeline == 1.0 and static + stored > 1.1 * capacity:
            recompute = Recompute.SELECTIVE if static + lean <= 1.1 * capacity else Recompute.FULL
    # interleaved schedules of Megatron Core: about two layers a virtual stage (NeMo's published configurations)
    virtual = max(1.0, round(float(work.layers) / pipeline / 2.0)) if pipeline > 1.0 and fused_stack(row) else 1.0
    return (
        gpus, nodes, micro, accum, data, tensor, pipeline, context, expert, virtual, float(sharding), float(recompute)
    )  # fmt: skip


def _usual_experts(row: Row, work: Work, capacity: float) -> float:
    """Expert-parallel degree of a mixture where none is stated: none for adapters; on a node's worth of GPUs all of
    them in software of Megatron's kind, none elsewhere; on more the power of two that brings the experts' weights to a
    quarter of the memory, from 8 to 64 and no more than experts.
    """
    experts = float(work.experts)
    if not experts or row.method in (Method.LORA, Method.QLORA):
        return 1.0
    if row.gpus <= 8.0:
        return min(row.gpus, experts) if _megatron(row) else 1.0
    needed = 2.0 * float(work.expert_params) / (0.25 * capacity)
    return min(2.0 ** math.ceil(math.log2(max(8.0, min(64.0, needed)))), experts)


def _megatron(row: Row) -> bool:
    """Software that cuts models by tensor and pipeline parallelism, as MLPerf's does; other shards states."""
    return row.tuned or row.pipeline > 1.0 or any(name in row.framework for name in ("megatron", "nemo"))


def _cuts(row: Row) -> bool:
    """Software that cuts models, but not over host memory (GeForce), where tensor parallel traffic takes too long."""
    stated = row.tensor > 1.0 or row.pipeline > 1.0
    return _megatron(row) and (stated or link_of(row.gpu, row.links)[1] != LinkKind.PCIE_NO_P2P)


def _capacity(row: Row) -> float:
    """Bytes of the GPU's memory; 80 GiB where nobody says."""
    return (row.gpu.usable_gib or row.gpu.memory_gib or 80.0) * 2.0**30


def _fitting(row: Row, work: Work) -> float:
    """Samples whose stored values (16 bit) take `ROOM` of the GPU's memory."""
    return ROOM * _capacity(row) / max(2.0 * float(work.stored_values), 1.0)


def _batch(row: Row, work: Work, data: float, pipeline: float) -> tuple[float, float]:
    """(micro-batch, accumulation): both stated as they are; global alone in micro-batches of up to 4,096 tokens
    (undivided on TPUs and in JAX, which do not accumulate, and in vendors' tuned BERT), of as many samples of anything
    else as fit; micro alone once (8 times a stage where pipelined); neither: 4,096 tokens, 5,120 of sentences that are
    translated, or 32 samples of anything else; a language model whose gradients are exchanged takes as many
    of them as hide the exchange.
    """
    micro, total = row.micro_batch, row.global_batch
    if row.language:
        usual = max(1.0, round(4096.0 / float(work.tokens)))
    elif row.model.unit == "tokens/s":
        usual = max(1.0, round(SENTENCES / float(work.tokens)))
    else:
        usual = 32.0
    if math.isnan(micro):
        share = total / data if not math.isnan(total) else math.inf
        whole = row.gpu.kind == "tpu" or "maxtext" in row.framework
        if not row.language and math.isfinite(share):
            micro = share / max(1.0, math.ceil(share / max(_fitting(row, work), 1.0)))
        else:
            whole = whole or (row.tuned and family_of(row) == "classic")
            micro = share if share < 1.0 or (whole and math.isfinite(share)) else min(usual, share)
    if math.isnan(total):
        if pipeline > 1.0:
            return micro, 8.0 * pipeline
        exchanges = data > 1.0 and row.method not in (Method.LORA, Method.QLORA)
        if math.isnan(row.micro_batch) and row.language and exchanges and accumulates(row):
            return micro, max(1.0, round(HIDES_GRADIENTS / (micro * float(work.tokens))))
        return micro, 1.0
    if total < micro * data:
        return total / data, 1.0
    return micro, total / (micro * data)


def _sharding(row: Row, params: float, trainable: float, cut: float, data: float, capacity: float) -> int:
    """Stated; else ZeRO-1 for models of Megatron's kind, ZeRO-3 where the states of a replica would not fit."""
    if data <= 1.0:
        return Sharding.NONE
    if row.fully_sharded:
        return Sharding.ZERO3
    if row.sharding in ("zero1", "zero2"):
        return Sharding.ZERO1 if row.sharding == "zero1" else Sharding.ZERO2
    if row.sharding in ("none", "ddp"):
        return Sharding.NONE
    replica = (2.0 * params + 16.0 * trainable) / cut
    if _cuts(row) or (_megatron(row) and replica <= 0.7 * capacity):
        return Sharding.ZERO1
    return Sharding.ZERO3 if row.language and replica > 0.7 * capacity else Sharding.NONE


def _execution(rows: list[Row], rates: list[MatrixRate]) -> Execution:
    return Execution(
        value_bytes=np.array([4.0 if r.name in ("fp32", "tf32") else r.value_bytes for r in rates]),
        format=np.array([format_code(r.name) for r in rates]),
        eager_attention=np.array([float(attention_of(row) == "eager") for row in rows]),
        early_attention=np.array([float(early_attention(row)) for row in rows]),
        early_dequantise=np.array([float(early_dequantise(row)) for row in rows]),
        fused_adapters=np.array([float(fused_adapters(row)) for row in rows]),
        length_assumed=np.array([float(length_assumed(row)) for row in rows]),
        quantised=np.array([float(row.method is Method.QLORA) for row in rows]),
        optimizer_bytes=np.array([optimizer_bytes(row.optimizer) for row in rows]),
        looped=np.array([float(looped_experts(row)) for row in rows]),
        plain=np.array([float(plain_stack(row)) for row in rows]),
        fused=np.array([float(fused_stack(row)) for row in rows]),
        compiled=np.array([float(row.compiled) for row in rows]),
        library=np.array([float(library_stack(row)) for row in rows]),
        channels_last=np.array([float(row.channels_last) for row in rows]),
        real_data=np.array([float(row.real_data) for row in rows]),
        tuned=np.array([float(row.tuned) for row in rows]),
    )


def _unit(row: Row) -> str:
    if row.unit:
        return row.unit
    return "tokens/s" if row.language and row.model.kind != "encoder" else "samples/s"
