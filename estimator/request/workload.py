"""What does the person want to train, on how much data, under which limits? The request of CLI, API and library.

`Workload` keeps what the user gave and nothing else; what follows from it (steps, samples, padding) and what had to
be assumed is worked out by `estimator.request.training`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from benchmarks_db.errors import WorkloadError
from estimator.request.errors import InvalidWorkload, explained, unwritable
from estimator.request.fields import (
    ATTENTIONS,
    CHECKPOINTINGS,
    MAX_IMAGE_SIZE,
    MAX_SEQ_LEN,
    METHODS,
    OPTIMIZERS,
    PRECISIONS,
    SHARDINGS,
    Accelerators,
    Attention,
    Batch,
    DataKind,
    Degree,
    Epochs,
    Flag,
    MemoryFormat,
    MicroBatch,
    Samples,
    SeqLen,
    Sort,
    Strict,
    Tokens,
    choice,
    near_divisors,
    quantity,
    said,
    whole,
)
from estimator.request.measured_text import listed_measurements
from estimator.request.quantities import parse_count
from estimator.request.run import Bill, Run, Spot
from estimator.request.sections import (
    Architecture,
    Constraints,
    Custom,
    Lora,
    Options,
    OwnMachine,
    read_objective,
    read_own,
    split_gpu,
)
from estimator.terms import ActivationCheckpointing, Method, Optimizer, Precision, ShardingKind, Software

__all__ = [
    "Accelerators",
    "Architecture",
    "Attention",
    "Constraints",
    "Custom",
    "DataKind",
    "InvalidWorkload",
    "Lora",
    "MemoryFormat",
    "Options",
    "OwnMachine",
    "Sort",
    "Workload",
    "nested",
    "split_gpu",
]


class Workload(Strict):
    """A request: the model, the data, the method, the limits. Every key of the request page, as the user gave it."""

    name: Annotated[str, Field(max_length=200)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    architecture: Architecture | None = None
    hf_config: dict[str, Any] | str | None = None
    custom: Custom | None = None

    method: Annotated[Method, choice(Method, METHODS)] = Method.FULL
    lora: Lora | None = None

    tokens: Tokens | None = None
    samples: Samples | None = None
    images: Samples | None = None
    epochs: Epochs = 1.0
    seq_len: SeqLen | None = None
    image_size: Annotated[int, whole(1, MAX_IMAGE_SIZE)] | None = None
    objective: Annotated[str | None, BeforeValidator(read_objective)] = None  # self-supervised: dino, mae, simclr...
    packing: Flag | None = None
    mean_tokens_per_sample: Annotated[float, quantity(parse_count, 1, MAX_SEQ_LEN)] | None = None

    precision: Annotated[Precision, choice(Precision, PRECISIONS)] = Precision.AUTO
    global_batch: Batch | None = None
    micro_batch: MicroBatch = "auto"
    grad_accum: Batch | None = None
    optimizer: Annotated[Optimizer, choice(Optimizer, OPTIMIZERS)] = Optimizer.ADAMW
    activation_checkpointing: Annotated[ActivationCheckpointing, choice(ActivationCheckpointing, CHECKPOINTINGS)] = (
        ActivationCheckpointing.AUTO
    )
    sharding: Annotated[ShardingKind, choice(ShardingKind, SHARDINGS)] = ShardingKind.AUTO
    tensor_parallel: Degree = "auto"
    pipeline_parallel: Degree = "auto"
    context_parallel: Degree = "auto"
    expert_parallel: Degree = "auto"
    cpu_offload: Flag = False
    attention: Annotated[Attention, choice(Attention, ATTENTIONS)] = Attention.AUTO
    software: Annotated[Software, choice(Software)] = Software.ORDINARY
    compiled: Flag | None = None
    memory_format: (
        Annotated[MemoryFormat, choice(MemoryFormat, {"nhwc": "channels-last", "nchw": "contiguous"})] | None
    ) = None
    data_kind: Annotated[DataKind, choice(DataKind)] | None = None

    own: Annotated[tuple[OwnMachine, ...], BeforeValidator(read_own)] = ()
    measured: Annotated[tuple[str, ...], BeforeValidator(listed_measurements)] = ()
    negotiated: dict[str, Any] | None = None  # discounts, commitments, blocks, prices: pricing.sources.overrides_file
    run: Run = Run()
    spot: Spot = Spot()
    bill: Bill = Bill()
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
            raise WorkloadError(f"a request is a mapping of keys to values, not {said(data)}", field="request")
        if not isinstance(data, cls) and (broken := unwritable(data)) is not None:
            raise WorkloadError("holds half of a surrogate pair, which is no text", field=broken)
        try:
            return handler(data)
        except ValidationError as error:
            raise InvalidWorkload([explained(cls, detail) for detail in error.errors(include_url=False)]) from None

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
        self._check_batches()
        self._check_own()
        if self.negotiated is not None:
            from pricing.sources.overrides_file import stated

            stated(self.negotiated, "negotiated")
        return self

    def _check_own(self) -> None:
        names = [machine.name for machine in self.own]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise WorkloadError(f"{name!r} is the name of two machines", field=f"own.{number}.name", value=name)

    def _check_batches(self) -> None:
        batch = self.global_batch
        if batch is None:
            return
        micro = self.micro_batch if isinstance(self.micro_batch, int) else 1
        if micro > batch:
            raise WorkloadError(
                f"{micro} is above the global batch {batch}", field="micro_batch", value=micro, nearest=(str(batch),)
            )
        if batch % micro:
            near = near_divisors(batch, micro)
            raise WorkloadError(
                f"{micro} does not divide the global batch {batch}", field="micro_batch", value=micro, nearest=near
            )
        times = self.grad_accum or 1
        if micro * times > batch:
            raise WorkloadError(
                f"{times} steps of {micro} samples are above the global batch {batch}",
                field="grad_accum",
                value=times,
                nearest=(str(max(1, batch // micro)),),
            )
        if batch % (micro * times):
            raise WorkloadError(
                f"{times} steps of {micro} samples do not divide the global batch {batch}",
                field="grad_accum",
                value=times,
                nearest=near_divisors(batch // micro, times),
            )

    @classmethod
    def of(cls, request: object) -> Self:
        """The request itself, or the one that a mapping of its keys makes.

        Raises TypeError for anything else, WorkloadError for a key or value that cannot be used.

        >>> Workload.of({"model": "llama3-8b", "tokens": "50M"}).tokens
        50000000.0
        """
        if isinstance(request, cls):
            return request
        if isinstance(request, Mapping):
            return cls.model_validate(request)
        file = "; a file is read by Workload.from_yaml(Path(...))" if isinstance(request, str | Path) else ""
        raise TypeError(
            f"pass a Workload or a mapping of its keys, such as {{'model': 'llama3-8b', 'tokens': '50M'}}, "
            f"not {type(request).__name__}{file}"
        )

    @classmethod
    def from_yaml(cls, source: str | Path) -> Self:
        """A request from YAML text, or from a YAML or JSON file when given a `Path`.

        A `hf_config` that is a path is read, relative to the file. Unreadable YAML names line and column.
        """
        from estimator.request.files import read_request, read_text  # yaml is loaded only when a file is read

        if isinstance(source, Path):
            return cls.model_validate(read_request(source))
        if "\n" not in source and source.endswith((".yaml", ".yml", ".json")):
            raise WorkloadError("is taken as YAML text", field=source, nearest=(f"Path({source!r})",))
        return cls.model_validate(read_text(source))

    @classmethod
    def from_flat(cls, values: Mapping[str, object]) -> Self:
        """A request from flat keys (flags, cell parameters, sheet columns); see `nested`."""
        return cls.model_validate(nested(values))


def nested(values: Mapping[str, object], base: Mapping[str, object] | None = None) -> dict[str, object]:
    """Flat keys as a request body, laid over `base`; None means "not given".

    Keys of `constraints` and `options` may stand flat (`deadline`, `top`), singular (`gpu`, `cloud`) or dotted
    (`lora.rank`, `run.evaluate.samples`).
    """
    body: dict[str, Any] = {key: dict(v) if isinstance(v, Mapping) else v for key, v in (base or {}).items()}
    for key, value in values.items():
        if value is None:
            continue
        *sections, name = key.split(".")
        if not sections:
            name = Workload.SINGULAR.get(name, name)
            sections = ["constraints"] if name in Constraints.model_fields else []
            sections = ["options"] if name in Options.model_fields else sections
        part = body
        for section in sections:
            inner = part.get(section)
            part[section] = dict(inner) if isinstance(inner, Mapping) else {}
            part = part[section]
        part[name] = value
    return body
