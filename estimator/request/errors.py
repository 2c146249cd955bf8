"""What is wrong with a request, in words: each refused field with its value and the nearest that would do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from benchmarks_db.errors import WorkloadError
from estimator.request.fields import (
    Strict,
    said,
)
from estimator.request.run import Bill, Currency, Evaluation, Run, Spot
from estimator.request.sections import (
    Architecture,
    Constraints,
    Custom,
    Lora,
    Options,
    OwnMachine,
    Quota,
)


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


def unwritable(given: object, path: str = "") -> str | None:
    """Where a text stands that no encoding can write (half of a surrogate pair, as JSON may carry); else None.

    >>> unwritable({"own": [{"name": "\\ud800"}]}), unwritable({"name": "\\u00fc"})
    ('own.0.name', None)
    """
    if isinstance(given, str):
        return (path or "request") if any("\ud800" <= character <= "\udfff" for character in given) else None
    if isinstance(given, Mapping):
        parts = [*((key, key) for key in given), *given.items()]
    elif isinstance(given, list | tuple):
        parts = list(enumerate(given))
    else:
        return None
    for key, value in parts:
        named = str(key).encode(errors="replace").decode()
        if (found := unwritable(value, f"{path}.{named}" if path else named)) is not None:
            return found
    return None


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


_SECTIONS: Mapping[str, type[Strict]] = {
    "lora": Lora,
    "architecture": Architecture,
    "custom": Custom,
    "own": OwnMachine,
    "constraints": Constraints,
    "options": Options,
    "run": Run,
    "spot": Spot,
    "bill": Bill,
}


_DEEPER: Mapping[str, type[Strict]] = {
    "run.evaluate": Evaluation,
    "constraints.quotas": Quota,
    "bill.currency": Currency,
}


SHAPES = {
    "model_type": "must hold keys and values",
    "dict_type": "must hold keys and values",
    "list_type": "must be a list",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
}
"""What pydantic's words about the shape of a value mean to someone who writes YAML."""


def explained(model: type[BaseModel], detail: ErrorDetails) -> WorkloadError:
    """One pydantic detail as a `WorkloadError` in plain words."""
    kind = detail["type"]
    location = _location(detail["loc"], whole=kind == "extra_forbidden")
    context = detail.get("ctx") or {}
    field = ".".join(str(part) for part in location) or "request"
    if "field" in context:
        field = f"{field}.{context['field']}"
    if kind == "extra_forbidden":
        return _unknown_key(model, location)
    if kind == "refused":
        value = detail["input"]
        if "field" in context and isinstance(value, Mapping):
            value = value.get(context["field"])
        return WorkloadError(str(context.get("reason")), field=field, value=value, nearest=context.get("nearest", ()))
    if kind == "missing":
        return WorkloadError("is needed and missing", field=field)
    nearest: list[str] = []
    expected = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if expected:
        nearest = get_close_matches(str(detail["input"]), expected, n=2, cutoff=0.5) or expected
    words = SHAPES.get(kind) or detail["msg"][0].lower() + detail["msg"][1:]
    return WorkloadError(f"{said(detail['input'])}: {words}", field=field, value=detail["input"], nearest=nearest)


def _location(loc: Sequence[int | str], *, whole: bool) -> list[int | str]:
    """Where the field stands, without pydantic's names of the branches of a union; an unknown key is kept as it is."""
    path = list(loc[:-1]) if whole else list(loc)
    kept = [part for part in path if isinstance(part, int) or not re.search(r"[\[(]|^(str|int)$", part)]
    return [*kept, loc[-1]] if whole else kept


def _unknown_key(model: type[BaseModel], location: list[int | str]) -> WorkloadError:
    section = _SECTIONS.get(str(location[0])) if len(location) > 1 else None
    within = ".".join(map(str, location[:2])) if len(location) > 2 else ""
    section = _DEEPER.get(within, section)
    owner = section or model
    key = str(location[-1])
    field = ".".join(str(part) for part in location).rstrip(".") or "request"
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
        return WorkloadError(f"unknown key {said(key)}; known are {', '.join(known)}", field=field)
    return WorkloadError("unknown key", field=field, nearest=nearest)


def _reachable(name: str, owner: type[BaseModel]) -> bool:
    """Can this name be written where the unknown key stands? A dotted one only at the top."""
    return "model" in owner.model_fields if "." in name else name in owner.model_fields
