"""How does the software of a request run the work: formats, kernels, optimizer, host?"""

from __future__ import annotations

from dataclasses import replace

from estimator.performance.constants import Constants, fitted
from estimator.performance.roofline import Execution, format_code
from estimator.terms import Method, Optimizer, Software

_OPTIMIZER_BYTES = {"8bit": 18.0, "4bit": 16.0, "sgd": 20.0, "momentum": 20.0, "lion": 22.0, "adafactor": 18.0}


def optimizer_bytes(name: str) -> float:
    """Bytes read and written a trainable parameter and step.

    Adam reads and writes weight and two moments in fp32, reads the gradient and writes the 16-bit copy: 30. Moments of
    8 bit: 18. SGD with momentum: 20. Lion (one moment): 22. Adafactor (factored second moment): 18. Unknown: Adam.
    """
    plain = name.lower().replace("-", "").replace("_", "")
    return next((figure for key, figure in _OPTIMIZER_BYTES.items() if key in plain), 30.0)


def execution_of(
    *,
    precision: str,
    method: Method = Method.PRETRAIN,
    optimizer: Optimizer | str = Optimizer.ADAMW,
    attention: str = "flash",
    compiled: bool = False,
    software: Software = Software.ORDINARY,
    channels_last: bool = False,
    real_data: bool = True,
    length_assumed: bool = False,
) -> Execution:
    """Execution of a request; `precision` is the resolved format (`precision.auto` where the request says auto).

    Ordinary pretraining runs on a lean stack (FSDP or Megatron without vendor kernels), ordinary fine-tuning on a plain
    Python one (Hugging Face Trainer, PEFT); tuned software is lean and fused throughout. Kernels are today's.
    """
    tuned = software is Software.TUNED
    return Execution(
        value_bytes={"fp32": 4.0, "tf32": 4.0, "fp64": 8.0}.get(precision, 2.0),
        format=format_code(precision),
        eager_attention=float(attention == "eager"),
        quantised=float(method is Method.QLORA),
        optimizer_bytes=optimizer_bytes(str(optimizer)),
        looped=float(method is not Method.PRETRAIN and not tuned),
        plain=float(method is not Method.PRETRAIN and not tuned),
        fused=float(tuned or compiled),
        tuned=float(tuned),
        compiled=float(compiled),
        library=float(tuned),
        channels_last=float(channels_last),
        real_data=float(real_data),
        length_assumed=float(length_assumed),
    )


def constants_of(*, language: bool, software: Software = Software.ORDINARY) -> Constants:
    """Fitted constants of the family; `software` acts through `Execution`, not through constants of its own."""
    del software
    return replace(fitted("language" if language else "classic"))
