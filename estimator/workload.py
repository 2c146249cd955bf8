"""What does the person want to train, on how much data, under which limits? The request of CLI, API and library.

`Workload` keeps what the user gave and nothing else; what follows from it (steps, samples, padding) and what had to
be assumed is worked out by `estimator.training`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from benchmarks_db.errors import WorkloadError
from estimator.quantities import parse_bool, parse_count, parse_gib, parse_hours, parse_usd
from estimator.terms import ActivationCheckpointing, Method, Optimizer, Precision, ShardingKind, Software

# Sane limits: about a thousand times what anyone has published, so that a slip of the finger is caught.
MAX_TOKENS = 1e17
MAX_SAMPLES = 1e14
MAX_EPOCHS = 1e6
MAX_SEQ_LEN = 16 * 2**20
MAX_IMAGE_SIZE = 16_384
MAX_BATCH = 2**24
MAX_DEGREE = 4096
MAX_NODES = 65_536
MAX_HOURS = 24.0 * 365 * 20
MAX_USD = 1e12

E = TypeVar("E", bound=StrEnum)


class InvalidWorkload(WorkloadError):  # noqa: N818  (reads as what happened)
    """A request with one or more wrong fields: itself the first, all of them in `errors`."""

    def __init__(self, errors: list[WorkloadError]) -> None:
        first = errors[0]
        self.errors = tuple(errors)
        more = "".join(f"; {error}" for error in errors[1:])
        super().__init__(first.message, field=first.field, value=first.value, nearest=first.nearest)
        self.args = (f"{first}{more}",)

    def __str__(self) -> str:
        return "; ".join(str(error) for error in getattr(self, "errors", ()))


# --- field types -------------------------------------------------------------------------------------------------


def _quantity(parse: Callable[[object], float], low: float, high: float, *, zero: bool = False) -> BeforeValidator:
    """A quantity as people write it, within (low, high], or [low, high] where `zero` is meaningful."""

    def read(value: object) -> object:
        if value is None:
            return None
        try:
            number = parse(value)
        except WorkloadError as error:
            raise _refused(error.message, error.nearest) from None
        if number < low or (number == 0 and not zero):
            raise _refused(f"{_said(value)} must be {'at least 0' if zero else 'above 0'}", (_plain(max(low, 1)),))
        if number > high:
            raise _refused(f"{_said(value)} is beyond any real run (limit {_plain(high)})", (_plain(high),))
        return number

    return BeforeValidator(read)


def _whole(low: int, high: int) -> BeforeValidator:
    """A whole number between `low` and `high`, written like a count."""

    def read(value: object) -> object:
        if value is None:
            return None
        try:
            number = parse_count(value)
        except WorkloadError as error:
            raise _refused(error.message.replace("50M, 1.5T or 1e9", str(low)), error.nearest) from None
        if number != int(number):
            raise _refused(f"{_said(value)} must be a whole number", (str(max(low, round(number))),))
        if not low <= number <= high:
            nearest = str(low if number < low else high)
            raise _refused(f"{_said(value)} must be between {low} and {high}", (nearest,))
        return int(number)

    return BeforeValidator(read)


def _whole_or_auto(high: int) -> BeforeValidator:
    inner = _whole(1, high).func

    def read(value: object) -> object:
        if isinstance(value, str) and value.strip().casefold() == "auto":
            return "auto"
        return inner(value)  # type: ignore[call-arg]

    return BeforeValidator(read)


def _choice(enum: type[E], synonyms: Mapping[str, str] | None = None) -> BeforeValidator:
    """A closed vocabulary, in any case and with the names other tools give to the same thing."""

    def read(value: object) -> object:
        if isinstance(value, enum) or value is None:
            return value
        word = str(value).strip().casefold().replace("_", "-").replace(" ", "-")
        word = (synonyms or {}).get(word, word)
        known = [member.value for member in enum]
        if word not in known:
            close = get_close_matches(word, known, n=2, cutoff=0.5) or known
            raise _refused(f"{_said(value)} is not one of {', '.join(known)}", close)
        return enum(word)

    return BeforeValidator(read)


def _listed(value: object) -> object:
    """`aws,gcp`, a single name or a list of names."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _flag(value: object) -> object:
    if value is None:
        return None
    try:
        return parse_bool(value)
    except WorkloadError as error:
        raise _refused(error.message, error.nearest) from None


def _refused(reason: str, nearest: Iterable[str] = ()) -> PydanticCustomError:
    return PydanticCustomError("refused", "{reason}", {"reason": reason, "nearest": list(nearest)})


def _said(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(number: float) -> str:
    return f"{number:g}"


def _schema(*kinds: str, examples: list[object], description: str) -> WithJsonSchema:
    return WithJsonSchema(
        {"anyOf": [{"type": kind} for kind in kinds], "examples": examples, "description": description}
    )


Tokens = Annotated[
    float,
    _quantity(parse_count, 0, MAX_TOKENS),
    _schema("number", "string", examples=["50M", "1.5T", 1e9], description="tokens, above 0"),
]
Samples = Annotated[
    float,
    _quantity(parse_count, 0, MAX_SAMPLES),
    _schema("number", "string", examples=["50k", 1281167], description="a number of samples, above 0"),
]
Epochs = Annotated[
    float,
    _quantity(parse_count, 0, MAX_EPOCHS),
    _schema("number", examples=[1, 3, 0.5], description="passes over the data set"),
]
Hours = Annotated[
    float,
    _quantity(parse_hours, 0, MAX_HOURS),
    _schema("number", "string", examples=["24h", "3 days", 12], description="hours, or a duration with its unit"),
]
Usd = Annotated[
    float,
    _quantity(parse_usd, 0, MAX_USD),
    _schema("number", "string", examples=["$500", 1200], description="US dollars, above 0"),
]
UsdOrZero = Annotated[
    float,
    _quantity(parse_usd, 0, MAX_USD, zero=True),
    _schema("number", "string", examples=[0.4, 0], description="US dollars an hour; 0 is allowed"),
]
Gib = Annotated[
    float,
    _quantity(parse_gib, 0, 65_536, zero=True),
    _schema("number", "string", examples=["24GB", 23.7], description="GiB, or memory with its unit"),
]
Figure = Annotated[float, _quantity(parse_count, 0, 1e30), _schema("number", "string", examples=[1e9], description="")]
FigureOrZero = Annotated[
    float, _quantity(parse_count, 0, 1e30, zero=True), _schema("number", "string", examples=[0], description="")
]
GpuCount = Annotated[
    float,
    _quantity(parse_count, 0, 4096),
    _schema("number", examples=[8, 0.5], description="GPUs of one node; fractions for shared cards"),
]
Degree = Annotated[
    int | Literal["auto"],
    _whole_or_auto(MAX_DEGREE),
    _schema("integer", "string", examples=["auto", 8], description="a parallel degree, or auto"),
]
MicroBatch = Annotated[
    int | Literal["auto"],
    _whole_or_auto(MAX_BATCH),
    _schema("integer", "string", examples=["auto", 4], description="samples one model replica runs at once, or auto"),
]
Batch = Annotated[int, _whole(1, MAX_BATCH)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Attention(StrEnum):
    """`flash` never stores the scores; `auto` = flash where the GPU has it."""

    AUTO = "auto"
    FLASH = "flash"
    EAGER = "eager"


class MemoryFormat(StrEnum):
    """How convolutional activations lie in memory."""

    CONTIGUOUS = "contiguous"
    CHANNELS_LAST = "channels-last"


class DataKind(StrEnum):
    """`synthetic` data never waits for storage or decoding."""

    REAL = "real"
    SYNTHETIC = "synthetic"


class Sort(StrEnum):
    """What the best plan is best in; `value` = cost x time."""

    COST = "cost"
    TIME = "time"
    VALUE = "value"


class Accelerators(StrEnum):
    """`gpu`: NVIDIA and AMD; `any` plans Trainium and TPU too."""

    GPU = "gpu"
    ANY = "any"


class MarketName(StrEnum):
    """The markets a request may ask for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    BLOCK = "block"
    OWN = "own"


_PRECISIONS = {
    "half": "fp16", "float16": "fp16", "fp16-mixed": "fp16", "mixed-fp16": "fp16", "16-mixed": "fp16",
    "bfloat16": "bf16", "bf16-mixed": "bf16", "mixed-bf16": "bf16", "mixed": "bf16", "amp": "auto",
    "bf16-true": "pure-bf16", "bf16-pure": "pure-bf16", "float32": "fp32", "single": "fp32", "32": "fp32",
    "float64": "fp64", "double": "fp64", "tensorfloat32": "tf32", "float8": "fp8",
}  # fmt: skip
_OPTIMIZERS = {
    "adam": "adamw", "adamw-torch": "adamw", "adamw-torch-fused": "adamw", "adam8bit": "adamw-8bit",
    "adamw8bit": "adamw-8bit", "8bit-adam": "adamw-8bit", "8-bit-adam": "adamw-8bit", "adamw-bnb-8bit": "adamw-8bit",
    "paged-adamw-8bit": "adamw-8bit", "adam-8bit": "adamw-8bit", "sgd-momentum": "sgd", "momentum": "sgd",
}  # fmt: skip
_SHARDINGS = {
    "fsdp": "zero3", "fsdp2": "zero3", "full-shard": "zero3", "zero-3": "zero3", "zero-2": "zero2", "zero-1": "zero1",
    "deepspeed-zero3": "zero3", "deepspeed-zero2": "zero2", "shard-grad-op": "zero2", "dp": "ddp", "off": "none",
}  # fmt: skip
_CHECKPOINTINGS = {"true": "full", "yes": "full", "on": "full", "false": "none", "no": "none", "off": "none"}
_METHODS = {
    "full-finetune": "full", "full-fine-tune": "full", "finetune": "full", "fine-tune": "full", "sft": "full",
    "pretraining": "pretrain", "pre-train": "pretrain", "from-scratch": "pretrain", "scratch": "pretrain",
    "peft": "lora", "q-lora": "qlora",
}  # fmt: skip
_MARKETS = {"ondemand": "on-demand", "on demand": "on-demand", "preemptible": "spot"}
_ATTENTIONS = {
    "flash-attention": "flash", "flash-attention-2": "flash", "flash-attn": "flash", "sdpa": "flash", "math": "eager",
}  # fmt: skip

# What other tools call the same key; named in the "did you mean".
_KEY_SYNONYMS: Mapping[str, str] = {
    "batch_size": "global_batch", "train_batch_size": "global_batch", "global_batch_size": "global_batch",
    "micro_batch_size": "micro_batch", "per_device_train_batch_size": "micro_batch", "bs": "global_batch",
    "gradient_accumulation_steps": "grad_accum", "num_epochs": "epochs", "num_train_epochs": "epochs",
    "sequence_length": "seq_len", "max_seq_length": "seq_len", "max_seq_len": "seq_len", "context_length": "seq_len",
    "cutoff_len": "seq_len", "sequence_len": "seq_len", "model_name": "model", "model_name_or_path": "model",
    "base_model": "model", "dtype": "precision", "optim": "optimizer", "sample_packing": "packing",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel", "cp": "context_parallel", "ep": "expert_parallel", "dataset_tokens": "tokens",
    "num_tokens": "tokens", "num_samples": "samples", "gradient_checkpointing": "activation_checkpointing",
    "act_ckpt": "activation_checkpointing", "resolution": "image_size", "img_size": "image_size", "r": "rank",
    "lora_rank": "lora.rank", "lora_r": "lora.rank", "lora_alpha": "lora.alpha", "target_modules": "targets",
    "gpu": "constraints.gpus", "cloud": "constraints.clouds", "region": "constraints.regions",
    "market": "constraints.markets", "spot": "constraints.markets", "max_cost": "constraints.budget",
    "offload": "cpu_offload",
    "price": "usd_per_hour", "count": "gpus_per_node", "num_gpus": "gpus_per_node",
}  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, protected_namespaces=())


class Lora(_Strict):
    """Low-rank adapters: rank and the weights they sit on."""

    rank: Annotated[int, _whole(1, 65_536)] = 16
    alpha: Annotated[float, _quantity(parse_count, 0, 1e6)] | None = None
    targets: str | tuple[str, ...] = "all-linear"

    @field_validator("targets")
    @classmethod
    def _targets(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        names = (value,) if isinstance(value, str) else value
        if not names or any(not name.strip() for name in names):
            raise _refused("name at least one target", ("all-linear", "attention"))
        return value


class Architecture(_Strict):
    """A model that no table knows, by its shape. `kind` follows from the other keys when it is left out."""

    kind: Literal["decoder", "moe", "encoder", "encoder-decoder", "vision"] | None = None
    layers: Annotated[int, _whole(1, 10_000)]
    hidden: Annotated[int, _whole(1, 1_000_000)]
    heads: Annotated[int, _whole(1, 100_000)] | None = None
    kv_heads: Annotated[int, _whole(1, 100_000)] | None = None
    head_dim: Annotated[int, _whole(1, 65_536)] | None = None
    ffn_hidden: Annotated[int, _whole(1, 10_000_000)] | None = None
    gated_ffn: Flag | None = None
    vocab: Annotated[int, _whole(1, 100_000_000)] | None = None
    max_seq_len: Annotated[int, _whole(1, MAX_SEQ_LEN)] | None = None
    tied_embeddings: Flag | None = None
    experts: Annotated[int, _whole(1, 65_536)] | None = None
    experts_per_token: Annotated[int, _whole(1, 65_536)] | None = None
    shared_experts: Annotated[int, _whole(0, 65_536)] | None = None
    dense_layers: Annotated[int, _whole(0, 10_000)] | None = None
    dense_ffn: Annotated[int, _whole(1, 10_000_000)] | None = None
    image_size: Annotated[int, _whole(1, MAX_IMAGE_SIZE)] | None = None
    params_m: Figure | None = None
    active_params_m: Figure | None = None


class Custom(_Strict):
    """A model by its counts: parameters, FLOPs (forward and backward) and kept activation bytes of one sample."""

    params_m: Figure
    flops_per_sample: Figure
    activation_bytes_per_sample: FigureOrZero = 0.0
    active_params_m: Figure | None = None
    trainable_params_m: FigureOrZero | None = None
    bytes_per_sample: FigureOrZero | None = None  # stored bytes the loader reads
    kernels: FigureOrZero | None = None  # kernel launches of one forward pass
    layers: Annotated[int, _whole(1, 100_000)] | None = None
    unit: Literal["samples", "tokens", "images"] = "samples"


class OwnMachine(_Strict):
    """Hardware the user already has, ranked beside the clouds; 0 USD an hour is allowed, None is unpriced."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    gpu: Annotated[str, Field(min_length=1, max_length=200)]
    gpus_per_node: GpuCount = 1.0
    nodes: Annotated[int, _whole(1, MAX_NODES)] = 1
    usd_per_hour: UsdOrZero | None = None
    vcpus: Annotated[float, _quantity(parse_count, 0, 1e6)] | None = None
    mem_gib: Gib | None = None
    gpu_mem_gib: Gib | None = None
    gpu_interconnect: str | None = None
    network_gbps: FigureOrZero | None = None
    rdma: Flag | None = None


class Constraints(_Strict):
    """What a plan must keep to; names may hold `*` wildcards where they are patterns (regions, zones, types)."""

    deadline: Hours | None = None
    budget: Usd | None = None
    max_usd_per_hour: Usd | None = None
    clouds: Names | None = None
    regions: Names | None = None
    zones: Names | None = None
    gpus: Names | None = None
    instance_types: Names | None = None
    markets: Annotated[
        tuple[Annotated[MarketName, _choice(MarketName, _MARKETS)], ...] | None, BeforeValidator(_listed)
    ] = None
    min_nodes: Annotated[int, _whole(1, MAX_NODES)] | None = None
    max_nodes: Annotated[int, _whole(1, MAX_NODES)] | None = None
    accelerators: Annotated[Accelerators, _choice(Accelerators, {"all": "any", "gpus": "gpu"})] = Accelerators.GPU

    @field_validator("gpus")
    @classmethod
    def _gpus(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in value or ():
            split_gpu(text)
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_nodes and self.max_nodes and self.min_nodes > self.max_nodes:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "reason": f"min_nodes {self.min_nodes} is above max_nodes {self.max_nodes}",
                    "nearest": [str(self.max_nodes)],
                    "field": "min_nodes",
                },
            )
        return self


class Options(_Strict):
    """How many plans are wanted and in which order."""

    top: Annotated[int, _whole(1, 10_000)] = 10
    sort: Annotated[Sort, _choice(Sort, {"price": "cost", "usd": "cost", "hours": "time", "speed": "time"})] = Sort.COST
    explain: Flag = False


class Workload(_Strict):
    """A request: the model, the data, the method, the limits. Every key of the request page, as the user gave it."""

    name: Annotated[str, Field(max_length=200)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    architecture: Architecture | None = None
    hf_config: dict[str, Any] | str | None = None
    custom: Custom | None = None

    method: Annotated[Method, _choice(Method, _METHODS)] = Method.FULL
    lora: Lora | None = None

    tokens: Tokens | None = None
    samples: Samples | None = None
    images: Samples | None = None
    epochs: Epochs = 1.0
    seq_len: Annotated[int, _whole(1, MAX_SEQ_LEN)] | None = None
    image_size: Annotated[int, _whole(1, MAX_IMAGE_SIZE)] | None = None
    packing: Flag | None = None
    mean_tokens_per_sample: Annotated[float, _quantity(parse_count, 0, MAX_SEQ_LEN)] | None = None

    precision: Annotated[Precision, _choice(Precision, _PRECISIONS)] = Precision.AUTO
    global_batch: Batch | None = None
    micro_batch: MicroBatch = "auto"
    grad_accum: Batch | None = None
    optimizer: Annotated[Optimizer, _choice(Optimizer, _OPTIMIZERS)] = Optimizer.ADAMW
    activation_checkpointing: Annotated[ActivationCheckpointing, _choice(ActivationCheckpointing, _CHECKPOINTINGS)] = (
        ActivationCheckpointing.AUTO
    )
    sharding: Annotated[ShardingKind, _choice(ShardingKind, _SHARDINGS)] = ShardingKind.AUTO
    tensor_parallel: Degree = "auto"
    pipeline_parallel: Degree = "auto"
    context_parallel: Degree = "auto"
    expert_parallel: Degree = "auto"
    cpu_offload: Flag = False
    attention: Annotated[Attention, _choice(Attention, _ATTENTIONS)] = Attention.AUTO
    software: Annotated[Software, _choice(Software)] = Software.ORDINARY
    compiled: Flag | None = None
    memory_format: (
        Annotated[MemoryFormat, _choice(MemoryFormat, {"nhwc": "channels-last", "nchw": "contiguous"})] | None
    ) = None
    data_kind: Annotated[DataKind, _choice(DataKind)] | None = None

    own: Annotated[tuple[OwnMachine, ...], BeforeValidator(lambda value: read_own(value))] = ()
    measured: Names = ()
    constraints: Constraints = Constraints()
    options: Options = Options()

    SINGULAR: ClassVar[Mapping[str, str]] = {
        "gpu": "gpus",
        "cloud": "clouds",
        "region": "regions",
        "zone": "zones",
        "market": "markets",
        "instance_type": "instance_types",
        "max_cost": "budget",
    }

    @model_validator(mode="wrap")
    @classmethod
    def _plainly(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Every refusal of a request is one `WorkloadError` that names its fields."""
        if data is None:
            raise WorkloadError("the request is empty; it needs at least a model", field="model")
        if not isinstance(data, Mapping | cls):
            raise WorkloadError(f"a request is a mapping of keys to values, not {_said(data)}", field="request")
        try:
            return handler(data)
        except ValidationError as error:
            raise InvalidWorkload([_explained(cls, detail) for detail in error.errors(include_url=False)]) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sources = [key for key in ("model", "architecture", "hf_config", "custom") if getattr(self, key) is not None]
        if not sources:
            raise WorkloadError(
                "say what is trained: model, architecture, hf_config or custom", field="model", nearest=("llama3-8b",)
            )
        if len(sources) > 1:
            raise WorkloadError(f"give one of {' and '.join(sources)}, not both", field=sources[1])
        sizes = [key for key in ("tokens", "samples", "images") if getattr(self, key) is not None]
        if len(sizes) > 1:
            raise WorkloadError(f"give one of {' and '.join(sizes)}, not both", field=sizes[1])
        if self.lora is not None and self.method not in (Method.LORA, Method.QLORA):
            raise WorkloadError(
                f"adapters are given but the method is {self.method}",
                field="method",
                value=self.method,
                nearest=("lora",),
            )
        if self.packing and self.mean_tokens_per_sample and self.seq_len is None and self.tokens is None:
            pass  # packing shortens the run by the known mean; nothing contradicts
        self._check_batches()
        return self

    def _check_batches(self) -> None:
        batch = self.global_batch
        if batch is None:
            return
        micro = self.micro_batch if isinstance(self.micro_batch, int) else 1
        if micro > batch:
            raise WorkloadError(
                f"{micro} is above the global batch {batch}", field="micro_batch", value=micro, nearest=(str(batch),)
            )
        if self.grad_accum and micro * self.grad_accum > batch:
            raise WorkloadError(
                f"{self.grad_accum} steps of {micro} samples are above the global batch {batch}",
                field="grad_accum",
                value=self.grad_accum,
                nearest=(str(max(1, batch // micro)),),
            )

    @classmethod
    def from_yaml(cls, source: str | Path) -> Self:
        """A request from YAML text, or from a YAML or JSON file when given a `Path`.

        A `hf_config` that is a path is read, relative to the file. Unreadable YAML names line and column.
        """
        from estimator.request_files import read_request, read_text  # yaml is loaded only when a file is read

        if isinstance(source, Path):
            return cls.model_validate(read_request(source))
        return cls.model_validate(read_text(source))

    @classmethod
    def from_flat(cls, values: Mapping[str, object]) -> Self:
        """A request from flat keys (flags, cell parameters, sheet columns); see `nested`."""
        return cls.model_validate(nested(values))


def nested(values: Mapping[str, object], base: Mapping[str, object] | None = None) -> dict[str, object]:
    """Flat keys as a request body, laid over `base`; None means "not given".

    Keys of `constraints` and `options` may stand flat (`deadline`, `top`), singular (`gpu`, `cloud`) or dotted
    (`lora.rank`, `constraints.deadline`).
    """
    body: dict[str, Any] = {key: dict(v) if isinstance(v, Mapping) else v for key, v in (base or {}).items()}
    for key, value in values.items():
        if value is None:
            continue
        name = Workload.SINGULAR.get(key, key)
        if "." in name:
            section, _, name = name.partition(".")
        elif name in Constraints.model_fields:
            section = "constraints"
        elif name in Options.model_fields:
            section = "options"
        else:
            section = ""
        if not section:
            body[name] = value
            continue
        part = body.get(section)
        body[section] = {**part, name: value} if isinstance(part, Mapping) else {name: value}
    return body


def split_gpu(text: str) -> tuple[str, float | None]:
    """`H100:8` as ("H100", 8): the count is of the whole job; None when there is no count."""
    name, colon, count = text.rpartition(":")
    if not colon:
        return text.strip(), None
    try:
        number = parse_count(count)
    except WorkloadError:
        raise _refused(f"{_said(text)} is not GPU[:COUNT]", ("H100:8",)) from None
    if not 0 < number <= 1e6 or not name.strip():
        raise _refused(f"{_said(text)} is not GPU[:COUNT] with a count above 0", ("H100:8",))
    return name.strip(), number


def read_own(value: object) -> object:
    """Own machines from `name=lab,gpu=RTX-3090,usd_per_hour=0.4`, one mapping, or a list of either."""
    if value is None:
        return ()
    items = [value] if isinstance(value, str | Mapping | OwnMachine) else value
    if not isinstance(items, list | tuple):
        return value
    return [_own_pairs(item) if isinstance(item, str) else item for item in items]


def _own_pairs(text: str) -> dict[str, str]:
    machine: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise _refused(
                f"{_said(part)} is not key=value", ("name=lab,gpu=RTX-3090,gpus_per_node=8,usd_per_hour=0.4",)
            )
        if key.strip() in machine:
            raise _refused(f"{key.strip()} is given twice in {_said(text)}")
        machine[key.strip()] = value.strip()
    return machine


_SECTIONS: Mapping[str, type[_Strict]] = {
    "lora": Lora,
    "architecture": Architecture,
    "custom": Custom,
    "own": OwnMachine,
    "constraints": Constraints,
    "options": Options,
}


def _explained(model: type[BaseModel], detail: ErrorDetails) -> WorkloadError:
    """One pydantic detail as a `WorkloadError` in plain words."""
    location = [part for part in detail["loc"] if isinstance(part, int) or not re.search(r"[\[(]|^(str|int)$", part)]
    context = detail.get("ctx") or {}
    kind = detail["type"]
    field = ".".join(str(part) for part in location) or "request"
    if "field" in context:
        field = f"{field}.{context['field']}"
    if kind == "extra_forbidden":
        return _unknown_key(model, location)
    if kind == "refused":
        return WorkloadError(
            str(context.get("reason")), field=field, value=detail["input"], nearest=context.get("nearest", ())
        )
    if kind == "missing":
        return WorkloadError("is needed and missing", field=field)
    nearest: list[str] = []
    expected = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if expected:
        nearest = get_close_matches(str(detail["input"]), expected, n=2, cutoff=0.5) or expected
    words = detail["msg"][0].lower() + detail["msg"][1:]
    return WorkloadError(f"{_said(detail['input'])}: {words}", field=field, value=detail["input"], nearest=nearest)


def _unknown_key(model: type[BaseModel], location: list[int | str]) -> WorkloadError:
    section = _SECTIONS.get(str(location[0])) if len(location) > 1 else None
    owner = section or model
    key = str(location[-1])
    field = ".".join(str(part) for part in location)
    folded = key.strip().casefold().replace("-", "_").replace(" ", "_")
    known = list(owner.model_fields)
    nearest: list[str] = []
    if folded in known:
        nearest = [folded]
    elif folded in _KEY_SYNONYMS and _reachable(_KEY_SYNONYMS[folded], owner):
        nearest = [_KEY_SYNONYMS[folded]]
    elif section is None:
        nearest = [f"{name}.{folded}" for name, part in _SECTIONS.items() if folded in part.model_fields][:2]
    nearest = nearest or get_close_matches(folded, known, n=2, cutoff=0.6)
    if not nearest:
        return WorkloadError(f"unknown key; known are {', '.join(known)}", field=field)
    return WorkloadError("unknown key", field=field, nearest=nearest)


def _reachable(name: str, owner: type[BaseModel]) -> bool:
    return owner is Workload if "." in name else name in owner.model_fields
