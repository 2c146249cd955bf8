"""Which values may a field of a request hold, and how do people write them?

Pydantic field types (quantities, whole numbers, closed vocabularies with the names other tools use) and the one way
a value is refused: a reason in words and the nearest values that would do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic_core import PydanticCustomError

from benchmarks_db.errors import WorkloadError
from estimator.request.quantities import parse_bool, parse_count, parse_gib, parse_hours, parse_usd

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


def quantity(parse: Callable[[object], float], low: float, high: float, *, zero: bool = False) -> BeforeValidator:
    """A quantity as people write it, within (low, high], or [low, high] where `zero` is meaningful."""

    def read(value: object) -> object:
        if value is None:
            return None
        try:
            number = parse(value)
        except WorkloadError as error:
            raise refused(error.message, error.nearest) from None
        if number < low or (number == 0 and not zero):
            floor = "at least 0" if zero else "above 0" if low == 0 else f"at least {_plain(low)}"
            raise refused(f"{said(value)} must be {floor}", (_plain(low if zero else low or min(1.0, high)),))
        if number > high <= 1:  # a share: 95 was meant as per cent
            meant = number / 100 if 1 < number <= high * 100 else high
            raise refused(f"{said(value)} must be at most {_plain(high)}", (_plain(meant),))
        if number > high:
            raise refused(f"{said(value)} is beyond any real run (limit {_plain(high)})", (_plain(high),))
        return number

    return BeforeValidator(read)


def whole(low: int, high: int) -> BeforeValidator:
    """A whole number between `low` and `high`, written like a count."""

    def read(value: object) -> object:
        if value is None:
            return None
        try:
            number = parse_count(value)
        except WorkloadError as error:
            raise refused(error.message.replace("50M, 1.5T or 1e9", str(low)), error.nearest) from None
        if number != int(number):
            raise refused(f"{said(value)} must be a whole number", (str(max(low, round(number))),))
        if not low <= number <= high:
            nearest = str(low if number < low else high)
            raise refused(f"{said(value)} must be between {low} and {high}", (nearest,))
        return int(number)

    return BeforeValidator(read)


def whole_or_auto(high: int) -> BeforeValidator:
    """A whole number from 1 to `high`, or the word auto."""
    inner = whole(1, high).func

    def read(value: object) -> object:
        if isinstance(value, str) and value.strip().casefold() == "auto":
            return "auto"
        return inner(value)  # type: ignore[call-arg]

    return BeforeValidator(read)


def _binary_k(value: object) -> object:
    """Lengths of sequences count in 1,024: `8k` is 8192."""
    found = re.fullmatch(r"\s*(\d{1,6})\s*k\s*", value, re.IGNORECASE) if isinstance(value, str) else None
    return int(found[1]) * 1024 if found else value


def choice(enum: type[E], synonyms: Mapping[str, str] | None = None) -> BeforeValidator:
    """A closed vocabulary, in any case and with the names other tools give to the same thing."""

    def read(value: object) -> object:
        if isinstance(value, enum) or value is None:
            return value
        word = str(value).strip().casefold().replace("_", "-").replace(" ", "-")
        word = (synonyms or {}).get(word, word)
        known = [member.value for member in enum]
        if word not in known:
            close = get_close_matches(word, known, n=2, cutoff=0.5)
            raise refused(_not_one_of(value, known, close), close or known)
        return enum(word)

    return BeforeValidator(read)


def words(known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> BeforeValidator:
    """One of the `known` words, in any case and with their synonyms."""
    allowed = tuple(known)

    def read(value: object) -> object:
        if value is None:
            return None
        word = str(value).strip().casefold()
        word = (synonyms or {}).get(word, word)
        if word not in allowed:
            shown = [name for name in allowed if name]
            close = get_close_matches(word, shown, n=2, cutoff=0.5)
            raise refused(_not_one_of(value, shown, close), close or shown)
        return word

    return BeforeValidator(read)


def _not_one_of(value: object, known: Iterable[str], close: list[str]) -> str:
    """The refusal; where nothing is close, the hint behind it names all that there are."""
    return f"{said(value)} is not one of {', '.join(known)}" if close else f"{said(value)} is not known"


def near_divisors(whole: int, degree: int) -> tuple[str, ...]:
    """The nearest divisors of `whole`, below and above `degree`.

    >>> near_divisors(64, 7)
    ('4', '8')
    """
    below = next((d for d in range(min(degree, whole), 0, -1) if whole % d == 0), 1)
    above = next((d for d in range(degree, min(whole, 2 * degree) + 1) if whole % d == 0), None)
    return (str(below), str(above)) if above else (str(below),)


def listed(value: object) -> object:
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
        raise refused(error.message, error.nearest) from None


def refused(reason: str, nearest: Iterable[str] = ()) -> PydanticCustomError:
    """What a validator raises: the reason in words, and the nearest values that would do."""
    return PydanticCustomError("refused", "{reason}", {"reason": reason, "nearest": list(nearest)})


def said(value: object) -> str:
    """The value as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(number: float) -> str:
    return f"{number:g}"


def schema(*kinds: str, examples: list[object], description: str) -> WithJsonSchema:
    """How the published JSON schema shows a field that takes several spellings."""
    return WithJsonSchema(
        {"anyOf": [{"type": kind} for kind in kinds], "examples": examples, "description": description}
    )


Tokens = Annotated[
    float,
    quantity(parse_count, 1, MAX_TOKENS),
    schema("number", "string", examples=["50M", "1.5T", 1e9], description="tokens, at least 1"),
]
Samples = Annotated[
    float,
    quantity(parse_count, 1, MAX_SAMPLES),
    schema("number", "string", examples=["50k", 1281167], description="a number of samples, at least 1"),
]
Epochs = Annotated[
    float,
    quantity(parse_count, 0, MAX_EPOCHS),
    schema("number", examples=[1, 3, 0.5], description="passes over the data set"),
]
Hours = Annotated[
    float,
    quantity(parse_hours, 0, MAX_HOURS),
    schema("number", "string", examples=["24h", "3 days", 12], description="hours, or a duration with its unit"),
]
Usd = Annotated[
    float,
    quantity(parse_usd, 0, MAX_USD),
    schema("number", "string", examples=["$500", 1200], description="US dollars, above 0"),
]
UsdOrZero = Annotated[
    float,
    quantity(parse_usd, 0, MAX_USD, zero=True),
    schema("number", "string", examples=[0.4, 0], description="US dollars an hour; 0 is allowed"),
]
Gib = Annotated[
    float,
    quantity(parse_gib, 0, 65_536, zero=True),
    schema("number", "string", examples=["24GB", 23.7], description="GiB, or memory with its unit"),
]
Figure = Annotated[float, quantity(parse_count, 0, 1e30), schema("number", "string", examples=[1e9], description="")]
FigureOrZero = Annotated[
    float, quantity(parse_count, 0, 1e30, zero=True), schema("number", "string", examples=[0], description="")
]
GpuCount = Annotated[
    float,
    quantity(parse_count, 0, 4096),
    schema("number", examples=[8, 0.5], description="GPUs of one node; fractions for shared cards"),
]
Degree = Annotated[
    int | Literal["auto"],
    whole_or_auto(MAX_DEGREE),
    schema("integer", "string", examples=["auto", 8], description="a parallel degree, or auto"),
]
MicroBatch = Annotated[
    int | Literal["auto"],
    whole_or_auto(MAX_BATCH),
    schema("integer", "string", examples=["auto", 4], description="samples one model replica runs at once, or auto"),
]
Batch = Annotated[int, whole(1, MAX_BATCH)]
SeqLen = Annotated[int, whole(1, MAX_SEQ_LEN), BeforeValidator(_binary_k)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]


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
    """What the best plan is best in; `cost` = the median, `expected` = the mean of it, `value` = cost x time."""

    COST = "cost"
    EXPECTED = "expected"
    TIME = "time"
    VALUE = "value"
    GPUS = "gpus"


class Accelerators(StrEnum):
    """`gpu`: NVIDIA and AMD; `any` plans Trainium and TPU too."""

    GPU = "gpu"
    ANY = "any"


PRECISIONS = {
    "half": "fp16", "float16": "fp16", "fp16-mixed": "fp16", "mixed-fp16": "fp16", "16-mixed": "fp16",
    "bfloat16": "bf16", "bf16-mixed": "bf16", "mixed-bf16": "bf16", "mixed": "bf16", "amp": "auto",
    "bf16-true": "pure-bf16", "bf16-pure": "pure-bf16", "float32": "fp32", "single": "fp32", "32": "fp32",
    "float64": "fp64", "double": "fp64", "tensorfloat32": "tf32", "float8": "fp8",
    "amp-bf16": "bf16", "bf16-amp": "bf16", "torch.bfloat16": "bf16", "amp-fp16": "fp16", "fp16-amp": "fp16",
    "torch.float16": "fp16", "torch.float32": "fp32", "32-true": "fp32", "tf-32": "tf32", "tensorfloat-32": "tf32",
}  # fmt: skip
OPTIMIZERS = {
    "adam": "adamw", "adamw-torch": "adamw", "adamw-torch-fused": "adamw", "adam8bit": "adamw-8bit",
    "adamw8bit": "adamw-8bit", "8bit-adam": "adamw-8bit", "8-bit-adam": "adamw-8bit", "adamw-bnb-8bit": "adamw-8bit",
    "paged-adamw-8bit": "adamw-8bit", "adam-8bit": "adamw-8bit", "sgd-momentum": "sgd", "momentum": "sgd",
}  # fmt: skip
SHARDINGS = {
    "fsdp": "zero3", "fsdp2": "zero3", "full-shard": "zero3", "zero-3": "zero3", "zero-2": "zero2", "zero-1": "zero1",
    "deepspeed-zero3": "zero3", "deepspeed-zero2": "zero2", "shard-grad-op": "zero2", "dp": "ddp", "off": "none",
    "zero-stage-1": "zero1", "zero-stage-2": "zero2", "zero-stage-3": "zero3", "stage1": "zero1", "stage2": "zero2",
    "stage3": "zero3", "stage-1": "zero1", "stage-2": "zero2", "stage-3": "zero3", "hybrid-shard": "zero3",
}  # fmt: skip
CHECKPOINTINGS = {"true": "full", "yes": "full", "on": "full", "false": "none", "no": "none", "off": "none"}
METHODS = {
    "full-finetune": "full", "full-fine-tune": "full", "finetune": "full", "fine-tune": "full", "sft": "full",
    "pretraining": "pretrain", "pre-train": "pretrain", "from-scratch": "pretrain", "scratch": "pretrain",
    "peft": "lora", "q-lora": "qlora",
}  # fmt: skip
MARKETS = {"ondemand": "on-demand", "on demand": "on-demand", "preemptible": "spot"}
ATTENTIONS = {
    "flash-attention": "flash", "flash-attention-2": "flash", "flash-attn": "flash", "sdpa": "flash", "math": "eager",
    "fa2": "flash", "fa3": "flash", "flash-attention-3": "flash", "flash2": "flash", "flash3": "flash",
}  # fmt: skip


class Strict(BaseModel):
    """Frozen, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, protected_namespaces=())
