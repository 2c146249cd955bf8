"""Count the work of published models, operator by operator, and keep it as `benchmarks_db/data/inventories.csv`.

Run by the project, not by its users, in an environment with torch, torchvision, torchaudio, timm, transformers and
diffusers:

    python scripts/count_inventories.py [--only REGEX] [--fresh]

Every model of the facts and measurements that these packages define, and the networks of `inventory_models`, are built
without weights on the meta device and run forward and backward once (`estimator.architectures.counting`). Nothing is
downloaded. A model whose parameter count differs from the facts by more than 3% is another model under the same name
and is left out, by name; what else is left out, and why, is in `inventories_left_out.csv` beside the counts. The file
is written after every model, and models that are in it already are skipped unless --fresh: the run can be stopped.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks_db import measurements  # noqa: E402
from benchmarks_db.models import ModelFacts, image_sizes, models  # noqa: E402
from estimator.architectures.counting import count  # noqa: E402
from estimator.architectures.inventories import FILE, Inventory  # noqa: E402
from scripts.inventory_models.task import Task, numbers  # noqa: E402

ROOMS = ("detection", "segmentation", "sequences", "speech", "diffusion", "contrastive", "small_pictures")
"""Of `inventory_models`: networks of the measurements that no package builds under the name of the measurements."""

RENAMED = {
    "ig_resnext101_32x16d": "resnext101_32x16d",
    "ig_resnext101_32x32d": "resnext101_32x32d",
    "ig_resnext101_32x48d": "resnext101_32x48d",
    "vit_base_patch16_224_sam": "vit_base_patch16_224",
}
"""Names of timm that its present version answers with another model, and what they mean."""


def timm_tasks() -> Iterator[Task]:
    """Vision models at the image sizes of the measurements, else of the facts."""
    torch, timm = import_module("torch"), import_module("timm")
    import_module("timm.layers").set_fused_attn(False)  # count the scores; what fused attention saves is known
    table = measurements.load()
    measured: dict[str, set[int]] = {}
    for row in table.rows():
        if row["image_size"].isdigit():
            measured.setdefault(row["model"].replace("-", "_"), set()).add(int(row["image_size"]))
    for facts in models().values():
        if facts.kind != "vision":
            continue
        sizes = measured.get(facts.name.replace("-", "_")) or {
            int(f.image_size or 224) for f in image_sizes(facts.name)
        }
        for size in sorted(sizes):
            yield _timm_task(torch, timm, facts, size)


def _timm_task(torch: Any, timm: Any, facts: ModelFacts, size: int) -> Task:
    name = RENAMED.get(facts.name, facts.name)

    def build() -> Any:
        try:
            return timm.create_model(name, img_size=size)
        except TypeError:
            return timm.create_model(name)

    def inputs(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.empty(batch, 3, size, size, device="meta"),), {}

    return Task(
        name=facts.name,
        described=f"3x{size}x{size}",
        build=build,
        inputs=inputs,
        packages=("timm", "torch"),
        params_m=facts.params_m,
    )


def other_tasks() -> Iterator[Task]:
    """Models outside timm whose training step is one forward and backward pass of one network."""
    torch = import_module("torch")

    def image(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.empty(batch, 3, 224, 224, device="meta"),), {}

    def alexnet() -> Any:
        return import_module("torchvision").models.alexnet()

    parts = ("torchvision", "torch")
    yield Task(name="alexnet", described="3x224x224", build=alexnet, inputs=image, packages=parts)

    def bert(**settings: Any) -> Callable[[], Any]:
        def build() -> Any:
            transformers = import_module("transformers")
            return transformers.BertModel(transformers.BertConfig(attn_implementation="eager", **settings))

        return build

    both = ("transformers", "torch")
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    for name, shape in (("bert-base", {}), ("bert-large", large)):
        yield Task(name=name, described="128 tokens", build=bert(**shape), inputs=numbers((128,)), packages=both)


def run(task: Task) -> Inventory:
    """Build and count; ValueError when the model is not the one that the facts describe."""
    torch = import_module("torch")
    with torch.device("meta"):
        model = task.build()
        params = sum(p.numel() for p in model.parameters()) / 1e6
        if task.params_m and abs(params / task.params_m - 1.0) > 0.03:
            raise ValueError(f"{params:.1f}M parameters, the facts say {task.params_m:.1f}M")
        versions = ", ".join(f"{package} {metadata.version(package)}" for package in task.packages)
        source = f"{versions}; shape of {task.definition}" if task.definition else versions
        counted = count(
            model, task.inputs, name=task.name, described=task.described, source=source, separate=task.separate
        )
    counted = replace(
        counted,
        kernels=counted.kernels + task.steps,
        backward_kernels=counted.backward_kernels + 2.0 * task.steps,
        exchanged_values=task.exchanged,
    )
    if task.samples == 1.0:
        return counted
    return replace(counted, **{name: getattr(counted, name) / task.samples for name in A_SAMPLE})


A_SAMPLE = tuple(
    f.name for f in fields(Inventory) if f.name.endswith(("_flops", "_values", "_scores")) and f.name != "fixed_values"
)
"""Counts that belong to a sample, not to a pass of the model."""


def write(found: dict[tuple[str, str], dict[str, str]]) -> None:
    names = [f.name for f in fields(Inventory)]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found[key] for key in sorted(found))


def cells(inventory: Inventory) -> dict[str, str]:
    values = {f.name: getattr(inventory, f.name) for f in fields(Inventory)}
    return {k: v if isinstance(v, str) else f"{v:.0f}" if 100 <= v < 1e5 else f"{v:.6g}" for k, v in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression that a model's name must contain")
    parser.add_argument("--fresh", action="store_true", help="count again what the file already holds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[tuple[str, str], dict[str, str]] = {}
    if FILE.exists():
        with FILE.open(encoding="utf-8", newline="") as file:
            found = {(row["model"], row["input"]): row for row in csv.DictReader(file)}
    rooms = [import_module(f"scripts.inventory_models.{room}").tasks() for room in ROOMS]
    for tasks in (other_tasks(), *rooms, timm_tasks()):
        for task in tasks:
            key = (task.name, task.described)
            if not re.search(options.only, task.name) or (key in found and not options.fresh):
                continue
            try:
                found[key] = cells(run(task))
            except Exception as error:  # a model that cannot be counted is named and left out
                print(f"left out: {task.name} {task.described}: {type(error).__name__}: {str(error)[:120]}", flush=True)
                continue
            write(found)
    print(f"{len(found)} inventories in {FILE}")


if __name__ == "__main__":
    main()
