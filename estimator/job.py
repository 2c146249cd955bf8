"""What exactly is asked? A request resolved against the facts: the model, its work a sample, the steps of the run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, image_sizes, resolve_model
from benchmarks_db.objectives import OBJECTIVE_PIXELS, objectives, split
from estimator.architectures import LANGUAGE_MODELS, work_of
from estimator.architectures.objectives import under
from estimator.request.custom import work_of_custom
from estimator.request.fields import Attention, DataKind, MemoryFormat
from estimator.request.training import Training, is_language, need_data, training_of
from estimator.request.workload import Workload
from estimator.terms import Method, Precision
from estimator.work import Work

CUSTOM = "custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request with nothing left open; what memory, layouts and performance need to know of it."""

    workload: Workload
    facts: ModelFacts
    loose: bool  # the model's name fits several models
    language: bool
    training: Training
    steps: int
    work: Work
    attention: str  # flash | eager
    warnings: tuple[str, ...]

    @property
    def family(self) -> str:
        """Which constants and which evidence: `language` (decoders) or `classic` (everything else)."""
        decoder = self.facts.kind in LANGUAGE_MODELS or self.facts.kind == CUSTOM
        return "language" if self.language and decoder else "classic"

    @property
    def sample_positions(self) -> float:
        """Useful units (tokens without padding, or samples) that one sample counts for in throughput."""
        return float(self.training.tokens_per_sample or 1.0) if self.training.unit == "tokens" else 1.0

    @property
    def length_assumed(self) -> bool:
        """Fine-tuning on samples of which the request tells neither length nor packing: a wider interval."""
        asked = self.workload
        told = asked.seq_len is not None or asked.packing or asked.mean_tokens_per_sample is not None
        return self.family == "language" and asked.method is not Method.PRETRAIN and not told

    @property
    def memory_precision(self) -> Precision:
        """The format that decides bytes; bf16 and fp16 take the same, so `auto` is either."""
        return Precision.BF16 if self.workload.precision is Precision.AUTO else self.workload.precision

    @property
    def channels_last(self) -> bool:
        """Convolutions with channels last: asked for, or unset (NCHW is what frameworks do by default)."""
        return self.workload.memory_format is MemoryFormat.CHANNELS_LAST

    @property
    def real_data(self) -> bool:
        """Whether the input pipeline can hold the step back; real data unless the request says synthetic."""
        return self.workload.data_kind is not DataKind.SYNTHETIC


def job_of(workload: Workload) -> Job:
    """Resolve `workload`; WorkloadError names the field that cannot be."""
    workload = with_objective(workload)
    facts, loose, warnings = facts_of(workload)
    training = training_of(workload, facts)
    if training.image_size and facts.kind == "vision" and facts.source != CUSTOM:
        facts = _at_image_size(facts, training.image_size)
    attention = "eager" if workload.attention is Attention.EAGER else "flash"
    return Job(
        workload=workload,
        facts=facts,
        loose=loose,
        language=is_language(workload, facts),
        training=training,
        steps=need_data(training),
        work=work_for(workload, facts, training, attention),
        attention=attention,
        warnings=(*warnings, *training.warnings),
    )


def with_objective(workload: Workload) -> Workload:
    """The same with the self-supervised objective in a field of its own where the model's name begins with it.

    >>> found = with_objective(Workload(model="dino-vit-s16", images=1e6))
    >>> found.objective, found.model
    ('dino', 'vit-s16')
    """
    named, backbone = split(workload.model or "")
    if not named:
        return workload
    if workload.objective not in (None, named):
        raise WorkloadError(
            f"the model's name says {named}", field="objective", value=workload.objective, nearest=(named,)
        )
    return workload.model_copy(update={"objective": named, "model": backbone})


def facts_of(workload: Workload) -> tuple[ModelFacts, bool, tuple[str, ...]]:
    """The facts of the model a request names or describes, whether the name was loose, and what to warn of."""
    if workload.model is not None:
        match = resolve_model(split(workload.model)[1])
        warning = (f"{workload.model!r} fits several models; {match.model.name} is taken",) if match.loose else ()
        return match.model, match.loose, (*warning, *_known_by_size(match.model))
    if workload.custom is not None:
        custom = workload.custom
        return ModelFacts(name=CUSTOM, kind=CUSTOM, params_m=custom.params_m, source=CUSTOM), False, ()
    from estimator.request.hf_config import facts_of_architecture, facts_of_config

    if workload.architecture is not None:
        return facts_of_architecture(workload.architecture), False, ()
    if isinstance(workload.hf_config, dict):
        facts, warnings = facts_of_config(workload.hf_config)
        return facts, False, tuple(warnings)
    raise WorkloadError("give the content of config.json, not its path", field="hf_config", value=workload.hf_config)


def _known_by_size(facts: ModelFacts) -> tuple[str, ...]:
    """A warning where a model that may be no language model is counted as one, for want of anything but its size."""
    if facts.kind != "size-only" or facts.task in ("", "language", "llm-pretrain", "llm-finetune"):
        return ()
    return (
        f"only the size of {facts.name} ({facts.task}) is known: it is counted as a language model of that size; "
        "architecture or custom says what it really computes",
    )


def _at_image_size(facts: ModelFacts, image_size: int) -> ModelFacts:
    """The row of the same model counted at the image size nearest to what is asked; work scales from there."""
    return min(image_sizes(facts.name), key=lambda row: abs((row.image_size or 224) - image_size), default=facts)


def work_for(workload: Workload, facts: ModelFacts, training: Training, attention: str) -> Work:
    """Work of one sample of the resolved request; WorkloadError where method or objective do not suit the model."""
    if workload.objective and facts.kind != "vision":
        raise WorkloadError(
            f"{facts.name} is no vision model; custom states the work of a sample under any objective",
            field="objective",
            value=workload.objective,
        )
    if workload.custom is not None:
        if workload.method in (Method.LORA, Method.QLORA):
            raise WorkloadError(
                "a custom model states what is trained by trainable_params_m",
                field="method",
                value=workload.method.value,
                nearest=("full", "pretrain"),
            )
        return work_of_custom(workload.custom)
    work = _plain_work(workload, facts, training, attention)
    if workload.objective is None:
        return work
    pixels = ((training.image_size or OBJECTIVE_PIXELS) / OBJECTIVE_PIXELS) ** 2
    return under(work, objectives()[workload.objective], pixels=pixels)


def _plain_work(workload: Workload, facts: ModelFacts, training: Training, attention: str) -> Work:
    lora = workload.lora
    targets = lora.targets if lora else "all-linear"
    return work_of(
        facts,
        seq_len=training.seq_len,
        image_size=training.image_size,
        method=workload.method,
        lora_rank=lora.rank if lora else 16,
        lora_targets=targets if isinstance(targets, str) else ",".join(targets),
        attention=attention,
    )
