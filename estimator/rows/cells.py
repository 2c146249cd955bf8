"""What does one CSV row of a measured or asked training step say, blanks filled by documented defaults?

Reads the columns that CONTRACT.md allows and no others (never a throughput, utilisation, memory or note). A figure,
precision, unit or scope that makes no sense is refused: a blank in its place would give another answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from benchmarks_db.errors import EstimatorError, UnknownName, WorkloadError
from benchmarks_db.gpus import Gpu, GpuMatch, resolve_gpu
from benchmarks_db.models import ModelFacts, resolve_model
from benchmarks_db.objectives import Objective, resolve_objective, split
from estimator import precision as formats
from estimator.hardware import Links, parse_links
from estimator.rows.spellings import date_of, framework_of, per_gpu, pixels_of, task_of, unit_of, word, written
from estimator.terms import Method

READS = (
    "source", "date", "model", "task", "params_m", "gpu", "gpus", "nodes", "interconnect", "precision", "micro_batch",
    "global_batch", "seq_len", "image_size", "act_ckpt", "sharding", "tp", "pp", "cp", "ep", "attention", "compiled",
    "peft", "optimizer", "framework", "unit", "scope", "stack", "memory_format", "data_kind", "longest_sample",
    "objective",
)  # fmt: skip
"""Columns that a prediction may read."""

NUMBERS = (
    "params_m", "gpus", "nodes", "micro_batch", "global_batch", "seq_len", "image_size", "tp", "pp", "cp", "ep"
)  # fmt: skip
WHOLE = frozenset({"nodes", "seq_len", "image_size", "tp", "pp", "cp", "ep"})
LIMITS = {
    "params_m": (1e-6, 1e9), "gpus": (0.01, 1e6), "nodes": (1.0, 65_536.0), "micro_batch": (1e-4, 1e9),
    "global_batch": (1e-4, 1e9), "seq_len": (1.0, 2.0**24), "image_size": (1.0, 16_384.0),
    **dict.fromkeys(("tp", "pp", "cp", "ep"), (1.0, 4096.0)),
}  # fmt: skip
"""Least and most of a figure: far beyond anything published, as in requests, so that a slip of the finger is caught."""
NOTHING = frozenset({"", "nan", "null", "none", "n/a", "na", "unknown", "auto", "?", "-", "\u2013", "\u2014"})
"""What people write where there is no figure."""

_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}([ '\u00a0\u202f]\d{3})+([.,]\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")

LANGUAGE_KINDS = frozenset({"decoder", "moe", "encoder", "encoder-decoder", "size-only"})

LAB_FAMILIES = {
    "mosaicml/examples": "mosaicml",
    "mosaicml/llm-foundry": "mosaicml",
    "nvidia/nemo": "nvidia-nemo",
    "nvidia-nemo/megatron-bridge": "nvidia-nemo",
    "nvidia-nemo/automodel": "nvidia-nemo",
    "nvidia/dgxc-benchmarking": "nvidia-nemo",
    "nvidia/nemo-megatron-launcher": "nvidia-nemo",
    "ai-hypercomputer/maxtext": "ai-hypercomputer",
    "ai-hypercomputer/tpu-recipes": "ai-hypercomputer",
}
"""Repositories of one laboratory that publish the same kind of tables of the same stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row, read; NaN where the row says nothing and no default applies yet (layout and batch)."""

    lab: str
    model: ModelFacts
    model_known: bool  # named in our tables (else derived from a size)
    model_loose: bool
    gpu: Gpu
    gpu_loose: bool
    gpus: float
    nodes: float
    links: Links
    format: str
    method: Method
    task: str
    seq_len: float
    longest_sample: float  # tokens of the longest sample, on which memory peaks; NaN where it is not stated
    image_size: float
    micro_batch: float
    global_batch: float
    tensor: float
    pipeline: float
    context: float
    expert: float
    act_ckpt: str
    sharding: str
    attention: str
    compiled: bool
    optimizer: str
    framework: str
    date: str  # YYYY-MM, "" where unknown
    peft: str
    unit: str
    per_gpu: bool
    tuned: bool
    channels_last: bool
    real_data: bool
    objective: Objective | None = None  # self-supervised; None: one view of every image, as in supervised training

    @property
    def fully_sharded(self) -> bool:
        """Weights are stated to be shared out too, not the optimizer's states alone."""
        return self.sharding in ("zero3", "fsdp")

    @property
    def language(self) -> bool:
        """A transformer over tokens (not image patches)."""
        return self.model.kind in LANGUAGE_KINDS and not self.model.image_size


def figure(row: Mapping[str, str], name: str) -> float:
    """A positive finite number, or NaN. Groups of three digits and decimal commas are understood.

    >>> [figure({"gpus": text}, "gpus") for text in ("8", "-8", "1,024", "0,5", "many")]
    [8.0, nan, 1024.0, 0.5, nan]
    """
    cell = str(row.get(name) or "").strip()
    try:
        value = float(cell)
    except ValueError:
        value = _typed(cell)
    return value if math.isfinite(value) and value > 0.0 else math.nan


def _typed(cell: str) -> float:
    """A number as sheets show it, NaN for what is none."""
    if _GROUPED.fullmatch(cell) and not cell.startswith("0"):
        plain = re.sub(r"[ '\u00a0\u202f]", "", cell)
        return float(plain.replace(",", "") if plain == cell else plain.replace(",", "."))
    return float(cell.replace(",", ".")) if _DECIMAL_COMMA.fullmatch(cell) else math.nan


def refuse_unreadable(row: Mapping[str, str], columns: Sequence[str] = NUMBERS) -> None:
    """WorkloadError for a cell that states a figure which is none."""
    for name in columns:
        cell = str(row.get(name) or "").strip()
        if cell.casefold() in NOTHING:
            continue
        value = figure(row, name)
        if math.isnan(value):
            raise WorkloadError(f"{cell!r} is not a number above 0", field=name, value=cell)
        low, high = LIMITS.get(name, (0.0, math.inf))
        if not low <= value <= high:
            near = low if value < low else high
            raise WorkloadError(f"{cell!r} is beyond any real run (limit {near:,.15g})", field=name, value=cell)
        if name in WHOLE and value != int(value):
            whole = f"{max(1, round(value))}"
            raise WorkloadError(f"{cell!r} is not a whole number", field=name, value=cell, nearest=(whole,))


def gpus_of(row: Mapping[str, str]) -> float:
    """The job's GPUs: as in `gpus`, else as counted in `gpu` (`H100:8`), else NaN; WorkloadError for no number above 0.

    >>> gpus_of({"gpus": "8"}), gpus_of({"gpus": "", "gpu": "H100:4"}), gpus_of({"gpu": "T4"})
    (8.0, 4.0, nan)
    """
    stated = figure(row, "gpus")
    if math.isnan(stated) and word(row, "gpus") not in NOTHING:
        raise WorkloadError(f"{row['gpus']!r} is not a number above 0", field="gpus", value=row["gpus"])
    match = _gpu(str(row.get("gpu") or "").strip()) if math.isnan(stated) else ""
    return stated if isinstance(match, str) else match.count or math.nan


def format_of(row: Mapping[str, str], gpu: Gpu) -> str:
    """The number format of the matrix work: as stated (`nf4+bf16` computes in bf16), else what the GPU is best at.

    UnknownName for a word that is none. The 4-bit weights of QLoRA are no format to compute in; TF32 on a GPU without
    it is fp32.
    """
    found = _format_stated(row, gpu)
    return formats.rate(found, gpu).name if found == "tf32" else found


def _format_stated(row: Mapping[str, str], gpu: Gpu) -> str:
    stated = word(row, "precision")
    if stated in NOTHING:
        return formats.auto(gpu)
    if whole := formats.canonical(stated):
        return whole
    parts = [part for part in reversed(re.split(r"[\s+/,;|&()]+", stated)) if part]
    named = [name for part in parts if (name := formats.canonical(part))]
    found = next((name for name in named if name != "fp32"), named[0] if named else None)  # fp32 keeps the sums
    if found is None and re.match(r"fp8\b|mxfp8\b", stated):
        found = stated.partition("-")[0].partition("_")[0]
    if found is None and re.fullmatch(r"(nf|int|fp)4|4-?bit|(nf|int|fp)8|8-?bit", stated):
        return formats.auto(gpu)
    if found is None:
        raise UnknownName("precision", stated, formats.FORMATS, field="precision")
    return found


def lab_of(source: str) -> str:
    """The laboratory of a source: its repository, families of repositories together, else its host or first words.

    >>> lab_of("NVIDIA/NeMo@4c73f77670:docs/performance.md"), lab_of("mosaicml/examples@abc:README.md")
    ('nvidia-nemo', 'mosaicml')
    """
    text = source.strip().lower()
    text = re.sub(r"^https?://(www\.)?", "", text)
    text = re.sub(r"^github\.com/", "", text)
    if found := re.match(r"([\w.\-]+/[\w.\-]+?)(?:\.git)?(?:[@:/#\s]|$)", text):
        name = found[1]
    else:
        name = re.split(r"[\s:;(]", text, maxsplit=1)[0]
    if name.startswith("mlcommons/training_results"):
        return "mlperf"
    return LAB_FAMILIES.get(name, name)


@lru_cache(maxsize=4096)
def _gpu(text: str) -> GpuMatch | str:
    try:
        return resolve_gpu(text)
    except EstimatorError as error:
        return str(error)


@lru_cache(maxsize=4096)
def _named_model(text: str) -> tuple[ModelFacts, bool] | None:
    try:
        match = resolve_model(text)
    except EstimatorError:
        return None
    return match.model, match.loose


@lru_cache(maxsize=256)
def _near_models(text: str) -> tuple[str, ...]:
    try:
        resolve_model(text)
    except EstimatorError as error:
        return error.nearest
    return ()


_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?|\d+p\d+)([bmt])(?![a-z0-9])")
_ACTIVE = re.compile(r"-a(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
_SCALE = {"m": 1.0, "b": 1e3, "t": 1e6}


def objective_of(row: Mapping[str, str]) -> tuple[Objective | None, str]:
    """(self-supervised objective, model's name without it): as in `objective`, else in front of the model's name.

    >>> objective_of({"model": "swav-resnet50"})[1], objective_of({"model": "resnet50", "objective": "none"})
    ('resnet50', (None, 'resnet50'))
    """
    named, backbone = split(str(row.get("model") or ""))
    stated = word(row, "objective")
    if stated in ("none", "supervised"):
        return None, backbone
    text = stated or named
    return resolve_objective(text) if text else None, backbone


def size_in_name(name: str) -> tuple[float, float]:
    """(parameters, active parameters) in millions that a name states, NaN where it does not.

    >>> size_in_name("foo-13b"), size_in_name("bar-30b-a3b")
    ((13000.0, nan), (30000.0, 3000.0))
    """
    text = name.lower().replace("_", "-").replace("/", "-")
    active = _ACTIVE.search(text)
    found = _SIZE.search(re.sub(_ACTIVE, "", text))
    total = math.nan
    if found:
        total = float(found[2].replace("p", ".")) * _SCALE[found[3]] * float(found[1] or 1.0)
    return total, float(active[1]) * _SCALE[active[2]] if active else math.nan


def model_of(row: Mapping[str, str]) -> tuple[ModelFacts, bool, bool]:
    """(facts, named in our tables, loose): by name; else a language model of the stated or named size."""
    name = str(row.get("model") or "").strip()
    params, stated_active = figure(row, "params_m"), figure(row, "active_params_m")
    if name and (found := _named_model(name)):
        facts, loose = found
        if facts.params_m is None and not math.isnan(params):
            facts = sized(facts.name, params, size_in_name(name)[1])
        if facts.kind == "size-only" and facts.active_params_m is None and not math.isnan(stated_active):
            facts = replace(facts, active_params_m=stated_active)
        return facts, True, loose
    named, active = size_in_name(name)
    active = active if math.isnan(stated_active) else stated_active
    params = named if math.isnan(params) else params
    task = task_of(row)
    language = task.startswith(("llm", "lm", "language", "text", "finetune", "pretrain")) or not math.isnan(
        figure(row, "seq_len")
    )
    if math.isnan(params) or not (language or (not task and math.isnan(figure(row, "image_size")))):
        if not name:
            raise WorkloadError("no model named, and no size to derive one from", field="model", value=name)
        raise WorkloadError(
            f"unknown model {name!r} and no size to derive its shape from",
            field="model",
            value=name,
            nearest=_near_models(name),
        )
    return sized(name, params, active), False, True


def sized(name: str, params_m: float, active_m: float = math.nan) -> ModelFacts:
    """Facts of a language model of which only the size is known."""
    active = None if math.isnan(active_m) else active_m
    return ModelFacts(name=name.lower(), kind="size-only", params_m=params_m, active_params_m=active)


_PEFT = {
    "lora": Method.LORA,
    "dora": Method.LORA,
    "adapter": Method.LORA,
    "ia3": Method.LORA,
    "qlora": Method.QLORA,
    "gptq-lora": Method.QLORA,
    "qadapter": Method.QLORA,
}


def method_of(row: Mapping[str, str]) -> Method:
    """Training method: `peft` decides; else full fine-tuning where the task says so, else pretraining."""
    peft = written(row, "peft")
    if peft in _PEFT:
        return _PEFT[peft]
    if "lora" in peft:  # `bnb-qlora`, `awq-lora`, `rslora`: quantised where the name says so
        return Method.QLORA if re.search(r"^q|-q|gptq|awq|bnb|nf4|int4|4bit", peft) else Method.LORA
    return Method.FULL if "finetune" in task_of(row) else Method.PRETRAIN


def read_row(row: Mapping[str, str]) -> Row:
    """Read one row; EstimatorError naming the field when model or GPU cannot be made out."""
    row = {**row, "image_size": pixels_of(row)}
    refuse_unreadable(row)
    objective, backbone = objective_of(row)
    facts, known, model_loose = model_of({**row, "model": backbone})
    if objective and (facts.kind != "vision"):
        raise WorkloadError(f"{facts.name} is no vision model", field="objective", value=objective.name)
    name = str(row.get("gpu") or "").strip()
    if not name:
        raise WorkloadError("no GPU named", field="gpu", value=name)
    match = _gpu(name)
    if isinstance(match, str):
        raise WorkloadError(match.removeprefix("gpu: "), field="gpu", value=name)
    gpu = match.gpu
    method = method_of(row)
    source = str(row.get("source") or "")
    fmt = format_of(row, gpu)
    if formats.rate(fmt, gpu).refused:
        fmt = "fp32" if fmt.endswith("bf16") else formats.auto(gpu)
    gpus = gpus_of(row)
    gpus = 1.0 if math.isnan(gpus) else gpus
    framework = framework_of(row)
    image = figure(row, "image_size")
    stack = written(row, "stack")
    lab = lab_of(source)
    tuned = stack == "tuned" or (stack != "plain" and lab.startswith("mlperf"))
    memory_format = written(row, "memory_format")
    return Row(
        lab=lab,
        model=facts,
        model_known=known,
        model_loose=model_loose,
        gpu=gpu,
        gpu_loose=match.loose,
        gpus=gpus,
        nodes=figure(row, "nodes"),
        links=parse_links(word(row, "interconnect")),
        format=fmt,
        method=method,
        task=task_of(row),
        seq_len=figure(row, "seq_len"),
        longest_sample=figure(row, "longest_sample"),
        image_size=image,
        micro_batch=figure(row, "micro_batch"),
        global_batch=figure(row, "global_batch"),
        tensor=figure(row, "tp"),
        pipeline=figure(row, "pp"),
        context=figure(row, "cp"),
        expert=figure(row, "ep"),
        act_ckpt=written(row, "act_ckpt"),
        sharding=written(row, "sharding"),
        attention=written(row, "attention"),
        compiled=written(row, "compiled") == "yes",
        optimizer=re.sub(r"\s+", "-", word(row, "optimizer")),
        framework=framework,
        date=date_of(row),
        peft=written(row, "peft"),
        unit=unit_of(row)[0],
        per_gpu=per_gpu(row),
        tuned=tuned,
        channels_last=memory_format == "channels-last" or (tuned and not memory_format),
        real_data=written(row, "data_kind") == "real",
        objective=objective,
    )
