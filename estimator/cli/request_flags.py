"""Every key of a request as a flag, and the request that FILE and flags make together (flags win)."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import WorkloadError

if TYPE_CHECKING:
    from estimator.request.workload import Workload


@dataclass(frozen=True, slots=True)
class RequestFlag:
    """One flag: the request key it sets (dotted inside `lora`), what it says, and how often it may be given."""

    key: str
    names: tuple[str, ...]
    help: str
    panel: str
    metavar: str = "TEXT"
    many: bool = False  # may be repeated; the values are joined into a list
    switch: bool = False  # yes/no, written --x and --no-x


def _f(panel: str, key: str, help_: str, metavar: str, *more: str, many: bool = False) -> RequestFlag:
    name = "--" + key.replace("_", "-").replace(".", "-")
    return RequestFlag(key, (name, *more), help_, panel, metavar, many)


def _s(panel: str, key: str, help_: str) -> RequestFlag:
    return RequestFlag(key, ("--" + key.replace("_", "-"),), help_, panel, switch=True)


_MODEL, _DATA, _HOW, _SPLIT, _LIMITS, _RUN, _ANSWER = (
    "Model",
    "Data",
    "Training",
    "Parallelism",
    "Limits",
    "Run and bill",
    "Answer",
)

REQUEST_FLAGS: tuple[RequestFlag, ...] = (
    _f(_MODEL, "model", "Model by name, such as llama3-8b or meta-llama/Meta-Llama-3-8B.", "NAME", "-m"),
    _f(_MODEL, "hf_config", "Hugging Face config.json of a model that no table knows.", "PATH"),
    _f(_MODEL, "architecture", "Model by shape: layers=32,hidden=4096,heads=32,...", "KEY=VALUE,..."),
    _f(_MODEL, "custom", "Model by counts: params_m=25.6,flops_per_sample=24.6G,...", "KEY=VALUE,..."),
    _f(_MODEL, "name", "A name for this request.", "TEXT"),
    _f(_MODEL, "method", "pretrain, full, lora or qlora.", "METHOD"),
    _f(_MODEL, "lora.rank", "Rank of the adapters.", "INT"),
    _f(_MODEL, "lora.alpha", "Scale of the adapters.", "NUMBER"),
    _f(_MODEL, "lora.targets", "Weights that carry adapters: all-linear, attention, or names.", "NAMES"),
    _f(_DATA, "tokens", "Tokens of the data set: 50M, 1.5T.", "COUNT"),
    _f(_DATA, "samples", "Samples of the data set.", "COUNT"),
    _f(_DATA, "images", "Images of the data set.", "COUNT"),
    _f(_DATA, "epochs", "Passes over the data set.", "NUMBER"),
    _f(_DATA, "seq_len", "Tokens of a sequence.", "INT"),
    _f(_DATA, "image_size", "Pixels on a side.", "INT"),
    _f(_DATA, "objective", "Self-supervised training: dino, mae, simclr, byol, swav, moco, ...", "NAME"),
    _s(_DATA, "packing", "Sequences are filled with several samples, without padding."),
    _f(_DATA, "mean_tokens_per_sample", "Mean length of a sample; the rest of seq_len is padding.", "NUMBER"),
    _f(_DATA, "data_kind", "real or synthetic (which never waits for input).", "KIND"),
    _f(_HOW, "precision", "auto, fp32, tf32, fp16, bf16, pure-bf16, fp8 or fp64.", "FORMAT"),
    _f(_HOW, "global_batch", "Samples of an optimizer step.", "INT"),
    _f(_HOW, "micro_batch", "Samples a replica runs at once, or auto (the largest that fits).", "INT"),
    _f(_HOW, "grad_accum", "Micro-batches of an optimizer step.", "INT"),
    _f(_HOW, "optimizer", "adamw, adamw-8bit, sgd, adafactor or lion.", "NAME"),
    _f(_HOW, "activation_checkpointing", "auto, none, selective or full.", "HOW"),
    _f(_HOW, "attention", "auto, flash or eager.", "KIND"),
    _f(_HOW, "software", "ordinary, or tuned as vendors do for MLPerf.", "LEVEL"),
    _s(_HOW, "compiled", "Compiled by torch.compile, XLA or the like."),
    _f(_HOW, "memory_format", "contiguous or channels-last.", "FORMAT"),
    _s(_HOW, "cpu_offload", "Optimizer states may live in host memory."),
    _f(_SPLIT, "sharding", "auto, none, ddp, zero1, zero2 or zero3 (FSDP).", "KIND"),
    _f(_SPLIT, "tensor_parallel", "GPUs that share each layer, or auto.", "INT", "--tp"),
    _f(_SPLIT, "pipeline_parallel", "Stages of layers, or auto.", "INT", "--pp"),
    _f(_SPLIT, "context_parallel", "GPUs that share a sequence, or auto.", "INT", "--cp"),
    _f(_SPLIT, "expert_parallel", "GPUs that share the experts, or auto.", "INT", "--ep"),
    _f(_LIMITS, "gpus", "Only these, with the count of the whole job if you like: H100:8.", "GPU[:COUNT]", "--gpu",
       "-g", many=True),
    _f(_LIMITS, "clouds", "aws, gcp, azure, own.", "CLOUD", "--cloud", many=True),
    _f(_LIMITS, "regions", "Regions, places or patterns: us-*, europe.", "REGION", "--region", many=True),
    _f(_LIMITS, "zones", "Zones or patterns.", "ZONE", "--zone", many=True),
    _f(_LIMITS, "exclude_regions", "None of these regions or patterns.", "REGION", "--exclude-region", many=True),
    _f(_LIMITS, "exclude_zones", "None of these zones.", "ZONE", "--exclude-zone", many=True),
    _f(_LIMITS, "quotas", "Most GPUs you may rent: cloud=aws,gpu=H100,max_gpus=16; or a CSV file of such rows.",
       "KEY=VALUE,...|FILE", "--quota", many=True),
    _f(_LIMITS, "precisions", "Formats to choose among: bf16,fp8.", "FORMAT", many=True),
    _f(_LIMITS, "instance_types", "Machine types or patterns: p5.*.", "TYPE", "--instance-type", many=True),
    _f(_LIMITS, "markets", "on-demand, spot, reserved, block, own.", "MARKET", "--market", many=True),
    _f(_LIMITS, "deadline", "Longest run: 24h, 3 days.", "DURATION"),
    _f(_LIMITS, "budget", "Highest cost of the run: $500.", "USD", "--max-cost"),
    _f(_LIMITS, "confidence", "Probability that deadline and budget hold: 0.9. Else the median decides.", "NUMBER"),
    _f(_LIMITS, "max_usd_per_hour", "Highest price of the whole job an hour.", "USD"),
    _f(_LIMITS, "min_nodes", "Fewest machines.", "INT"),
    _f(_LIMITS, "max_nodes", "Most machines.", "INT"),
    _f(_LIMITS, "max_gpus", "Most GPUs of the whole job.", "NUMBER"),
    _f(_LIMITS, "accelerators", "gpu, or any to plan Trainium and TPU too.", "KIND"),
    _f(_LIMITS, "own", "A machine you have: name=lab,gpu=RTX-3090,gpus_per_node=8,usd_per_hour=0.4.", "KEY=VALUE,...",
       many=True),
    _f(_LIMITS, "measured", "Your own measurement: 3100 tokens/s on 1xRTX-3090, micro-batch 4; or a CSV of them.",
       "PATH|TEXT", many=True),
    _f(_RUN, "bill.currency", "Show dollars in this currency too, at your rate for one dollar: EUR=0.92.", "CODE=RATE",
       "--currency"),
    _f(_RUN, "set", "Any key by its path: run.evaluation=off, spot.policy=fallback, bill.tax_percent=19.", "KEY=VALUE",
       many=True),
    _f(_ANSWER, "top", "How many plans to print.", "INT", "-n"),
    _f(_ANSWER, "sort", "cost (median), expected (mean), time, value (cost x time) or gpus (fewest).", "ORDER"),
    _s(_ANSWER, "explain", "Show the whole derivation with numbers."),
)  # fmt: skip

_PAIRS = ("architecture", "custom")
_PLURALS = (
    "gpus",
    "clouds",
    "regions",
    "zones",
    "exclude_regions",
    "exclude_zones",
    "instance_types",
    "markets",
    "precisions",
)


def takes_request(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give `command` every request flag; it is called with `request`, the keys that were given on the command line."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "request"]
    flags = {flag.key.replace(".", "_"): flag for flag in REQUEST_FLAGS}
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                bool | None if flag.switch else list[str] | None if flag.many else str | None,
                typer.Option(
                    *((f"{flag.names[0]}/--no-{flag.names[0][2:]}",) if flag.switch else flag.names),
                    help=flag.help,
                    rich_help_panel=flag.panel,
                    metavar=None if flag.switch else flag.metavar,
                    show_default=False,
                ),
            ],
        )
        for name, flag in flags.items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        request = {flag.key: given.pop(name) for name, flag in flags.items()}
        return command(request={key: value for key, value in request.items() if value not in (None, [])}, **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # or the signature of `command` would show through
    return run


def workload_of(file: Path | None, flags: Mapping[str, Any]) -> Workload:
    """The request of a YAML or JSON FILE (`-` = standard input) with the flags laid over it."""
    from estimator.request.workload import Workload, nested

    body: dict[str, Any] = {}
    if file is not None:
        from estimator.request.files import read_request, read_stdin, read_text, with_hf_config

        if str(file) == "-":
            body = with_hf_config(read_text(read_stdin(), name="standard input"), Path())
        else:
            _check_file(file)
            body = read_request(file)
        if not isinstance(body.get("model"), str):
            body = _from_trainer(body, file.parent, _gpus_said(flags))
    flags = {**_settings_of(flags.get("set", ())), **{key: value for key, value in flags.items() if key != "set"}}
    given = {key: _value(key, value) for key, value in flags.items()}
    if any(key in given for key in ("model", *_PAIRS, "hf_config")):
        body = {key: value for key, value in body.items() if key not in ("model", *_PAIRS, "hf_config")}
    if any(key in given for key in ("tokens", "samples", "images")):
        body = {key: value for key, value in body.items() if key not in ("tokens", "samples", "images")}
    if given.get("method") in ("full", "pretrain"):
        body.pop("lora", None)
    body = nested(given, body)
    if isinstance(body.get("hf_config"), str):
        from estimator.request.files import with_hf_config

        body = with_hf_config(body, Path())
    return Workload.model_validate(body)


def _gpus_said(flags: Mapping[str, Any]) -> int:
    """GPUs of the job where --gpu says one number (`H100:8`), else 1."""
    given = flags.get("gpus") or []
    texts = [part for text in ([given] if isinstance(given, str) else given) for part in str(text).split(",")]
    counts = {match[1] if (match := re.search(r":(\d{1,6})$", text.strip())) else "" for text in texts}
    return max(1, int(next(iter(counts)) or 1)) if len(counts) == 1 else 1


def _from_trainer(body: dict[str, Any], folder: Path, gpus: int) -> dict[str, Any]:
    """A config of axolotl, LLaMA-Factory, torchtune, Hugging Face or DeepSpeed as a request; says what was left out."""
    from estimator.cli.errors import note
    from estimator.request.files import is_there, read_file, read_text
    from estimator.request.trainers import trainer_of, translated

    def load(name: str) -> dict[str, Any] | None:
        path = folder / Path(name).expanduser()
        return read_text(read_file(path, field="deepspeed"), name=name) if is_there(path) and path.is_file() else None

    if trainer_of(body) is None:
        return body
    found = translated(body, load, gpus)
    note(f"read as a config of {found.trainer}")
    for text in found.notes:
        note(f"  {text}")
    if found.unsupported:
        note(f"  not planned: {', '.join(found.unsupported)}")
    return found.request


def _settings_of(texts: Sequence[str]) -> dict[str, str]:
    """`--set run.trials=3` as keys and values; the key may name anything of the request."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise WorkloadError(f"{text!r} is not key=value", field="--set", value=text, nearest=("run.trials=3",))
        found[key.strip()] = value.strip()
    return found


def _value(key: str, value: Any) -> Any:
    if key in _PAIRS:
        return key_values(value, key)
    if key in _PLURALS and not isinstance(value, str):
        return [part.strip() for text in value for part in text.split(",") if part.strip()]
    if key == "quotas":
        from estimator.request.files import quotas_in

        return [quota for text in value for quota in quotas_in(text)]
    if key == "lora.targets" and "," in value:
        return [part.strip() for part in value.split(",")]
    return value


def key_values(text: str, field: str) -> dict[str, str]:
    """`layers=32,hidden=4096` as a mapping."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise WorkloadError(
                f"{part!r} is not key=value", field=field, value=text, nearest=("layers=32,hidden=4096",)
            )
        pairs[key.strip()] = value.strip()
    return pairs


def _check_file(file: Path) -> None:
    """A FILE that is no file but a model's name gets told how models are named."""
    from estimator.request.files import is_there

    if is_there(file) or file.suffix or len(file.parts) > 2:
        return
    from benchmarks_db.models import resolve_model

    try:
        resolve_model(str(file))
    except WorkloadError:
        return
    raise WorkloadError(f"there is no file {file}", field="FILE", value=str(file), nearest=(f"--model {file}",))
