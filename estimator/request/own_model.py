"""What does a user's own PyTorch model cost? Counted like the shipped ones, and written as a request's `custom`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks_db.errors import WorkloadError
from estimator.architectures.counting import count
from estimator.architectures.inventories import Inventory
from estimator.architectures.vision import of_inventory
from estimator.request.custom import BYTES_PER_VALUE

TYPES = ("float", "int")


def parse_input(text: str) -> tuple[tuple[int, ...], str]:
    """Shape of one sample and its element type: `3x224x224`, `512:int` (token numbers); WorkloadError otherwise.

    >>> parse_input("3x224x224"), parse_input("512:int")
    (((3, 224, 224), 'float'), ((512,), 'int'))
    """
    shape, _, kind = text.strip().lower().partition(":")
    sides = shape.split("x")
    if not all(side.isdigit() and 0 < int(side) <= 10**7 for side in sides) or (kind or "float") not in TYPES:
        raise WorkloadError("is no input shape", field="--input", value=text, nearest=("3x224x224", "512:int"))
    return tuple(int(side) for side in sides), kind or "float"


def build(target: str) -> Any:
    """What `package.module:function` returns when called; the working directory is on the path, as with `python -m`."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise WorkloadError(
            "is no package.module:function", field="MODEL", value=target, nearest=("torchvision.models:resnet50",)
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise WorkloadError(f"cannot be imported: {error}", field="MODEL", value=target) from error
    except AttributeError as error:
        raise WorkloadError(f"{module} has no {name}", field="MODEL", value=target) from error
    if not isinstance(found, type) and hasattr(found, "parameters"):
        return found  # a model that the module holds
    try:
        return found() if callable(found) else found
    except Exception as error:  # whatever a user's own code raises
        raise WorkloadError(f"cannot be built: {_reason(error)}", field="MODEL", value=target) from error


def _reason(error: Exception) -> str:
    """What an exception of somebody else's code says, in one line."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:200]}" if said else type(error).__name__


def count_target(target: str, inputs: list[str]) -> Inventory:
    """Counts of one sample of the model that `target` builds, on inputs of these shapes (one text an argument).

    The model is built on the meta device: no memory for weights, no GPU, no data. One that looks at values on its way
    (`item()`, numpy) is built again and run on the CPU, on random numbers. WorkloadError where torch is missing or the
    model does not run on such inputs.
    """
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise WorkloadError("counting a model needs PyTorch: pip install torch", field="MODEL", value=target) from error
    shapes = [parse_input(text) for text in inputs]
    described = " ".join(inputs)
    source = f"torch {torch.__version__.split('+')[0]}"
    # Fused attention is one operator whose work cannot be read off: count its plain form
    attention = import_module("torch.nn.attention")

    def counted(device: str) -> Inventory:
        def make(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
            with torch.device(device):
                makers = {"float": torch.rand, "int": lambda shape: torch.zeros(shape, dtype=torch.long)}
                return tuple(makers[kind]((batch, *shape)) for shape, kind in shapes), {}

        with torch.device(device):
            model = build(target)
            if not isinstance(model, torch.nn.Module):
                raise WorkloadError("builds no torch.nn.Module", field="MODEL", value=target)
            with attention.sdpa_kernel(attention.SDPBackend.MATH):
                return count(model.to(device), make, name=target, described=described, source=source, separate=True)

    try:
        try:
            return counted("meta")
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            if "meta" not in str(error):
                raise
            return counted("cpu")
    except WorkloadError:
        raise
    except Exception as error:  # whatever a user's own code raises
        raise WorkloadError(
            f"does not run on {described}: {_reason(error)}", field="--input", value=described
        ) from error


def request_of(inventory: Inventory) -> dict[str, object]:
    """The `custom` part of a request: parameters, FLOPs forward and backward, bytes kept and moved at 16 bit, kernels.

    Moved bytes and depthwise FLOPs are weighed as for the models that come with the estimator (`vision.of_inventory`).
    """
    work = of_inventory(inventory)
    kept = float(work.stored_values) + float(work.score_values)
    grouped = float(work.grouped_flops) * (1.0 + float(work.backward_ratio))
    moved = 3.0 * BYTES_PER_VALUE * (float(work.elementwise_values) + float(work.score_values_moved))
    depthwise = {"grouped_flops_per_sample": float(f"{grouped:.6g}")} if grouped else {}
    return {
        "params_m": round(inventory.params / 1e6, 6),
        "flops_per_sample": float(f"{inventory.forward_flops + inventory.backward_flops:.6g}"),
        "activation_bytes_per_sample": float(f"{BYTES_PER_VALUE * kept:.6g}"),
        "moved_bytes_per_sample": float(f"{moved:.6g}"),
        **depthwise,
        "kernels": inventory.kernels,
    }


def request_yaml(inventory: Inventory, *, batch: int | None = None) -> str:
    """A request to be completed: the model's part, with what was counted as comments."""
    lines = [f"# {inventory.model} on {inventory.input}, counted with {inventory.source}; add the data and the rest"]
    shares = {
        "linear": inventory.linear_flops,
        "convolution": inventory.conv_flops + inventory.conv1x1_flops,
        "grouped convolution": inventory.grouped_flops + inventory.depthwise_flops,
        "attention": inventory.attention_flops,
    }
    told = ", ".join(f"{name} {value / 1e9:.3g}" for name, value in shares.items() if value)
    lines.append(f"# forward GFLOPs a sample: {told}")
    lines.append("custom:")
    lines += [f"  {name}: {value}" for name, value in request_of(inventory).items()]
    lines += [f"global_batch: {batch}"] if batch else []
    return "\n".join(lines) + "\n"
