"""Bring a folder of collected facts into `benchmarks_db/data`, in the project's own typed form.

    python scripts/import_facts.py FOLDER

The folder holds `gpu_specs.csv`, `llm_architectures.csv`, `vision_architectures.csv`, `microbench*.csv`,
`run_facts.csv`, `public_cases.csv`, `measurements/*.csv` and `runs/*.csv`. Known misreadings are mended by
`benchmarks_db/data/mends.csv`, sources that may not be shipped are left out by `left_out_sources.csv`; rows of
`gpus.csv` and `models/transformers.csv` that the folder does not name are ours and stay. What came over and what
did not is printed and written to `benchmarks_db/data/README.md`. Run `python -m benchmarks_db.pack` afterwards.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks_db import names, schema
from benchmarks_db.errors import EstimatorError
from benchmarks_db.objectives import split
from scripts import facts_report
from scripts.facts_notes import read_notes
from scripts.facts_run_notes import read_objective, read_run_notes

DATA = Path(__file__).resolve().parent.parent / "benchmarks_db" / "data"
Row = dict[str, str]
AS_STATED = "as its source says"
"""Reason of a mend whose source is the row's own: it is not said again."""

GPU_COLUMNS = (
    "name", "vendor", "arch", "compute_capability", "memory_gib", "usable_gib", "memory_bandwidth_gbps", "fp64_tflops",
    "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops", "fp4_tflops", "l2_mb", "sms", "boost_mhz",
    "tdp_w", "nvlink_gbps", "pcie_gen", "launch_year", "geforce", "pcie_p2p", "kind", "source", "usable_source",
)  # fmt: skip
TRANSFORMER_COLUMNS = (
    "name", "kind", "params_m", "active_params_m", "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden",
    "gated_ffn", "vocab", "max_seq_len", "tied_embeddings", "experts", "experts_per_token", "shared_experts",
    "dense_layers", "dense_ffn", "attention_layers", "recurrent_layers", "recurrent_width", "expert_hidden",
    "q_lora_rank", "kv_lora_rank", "rope_head_dim", "v_head_dim", "task", "source",
)  # fmt: skip
VISION_COLUMNS = ("name", "image_size", "params_m", "forward_gmacs", "forward_activations_m", "source")
PROFILED_COLUMNS = ("name", "kind", "params_m", "task", "unit", "units_per_sample", "units_source", "source")


def read(path: Path) -> list[Row]:
    """The rows of a CSV file with their line numbers under `line` (header = 1)."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [row | {"line": str(n)} for n, row in enumerate(csv.DictReader(stream), 2)]


def write(path: Path, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Write a CSV file, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(columns), restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class Mends:
    """The table of corrections: `match` is `column=value`, `column^prefix` or `column~part`, joined by ` & `."""

    def __init__(self, path: Path) -> None:
        self.rules: dict[str, list[Row]] = defaultdict(list)
        for rule in read(path):
            self.rules[rule["table"]].append(rule)
        self.used: Counter[str] = Counter()

    @staticmethod
    def _matches(condition: str, row: Row) -> bool:
        at = min(i for i in (condition.find(mark) for mark in "=^~") if i > 0)
        column, mark, value = condition[:at], condition[at], condition[at + 1 :]
        cell = row.get(column, "")
        return {"=": cell == value, "^": cell.startswith(value), "~": value in cell}[mark]

    def apply(self, table: str, row: Row) -> None:
        """Mend `row` in place; what changed is said in `mended`, quality in `quality_reason`."""
        for rule in self.rules[table]:
            if not all(self._matches(c, row) for c in rule["match"].split(" & ")):
                continue
            field, old = rule["field"], row.get(rule["field"], "")
            if rule["old"] not in ("", "*", old):
                raise SystemExit(f"mends.csv line {rule['line']}: expected {rule['old']!r}, found {old!r}")
            self.used[rule["line"]] += 1
            row[field] = rule["new"]
            if field == "quality":
                row["quality_reason"] = rule["reason"]
            elif field == "usable_gib":
                row["usable_source"] = rule["reason"]
            elif field == "source" or rule["reason"] == AS_STATED:
                continue
            elif table in ("gpus", "transformers"):
                row["source"] += f" | {field} {rule['new']}: {rule['reason']}"
            elif old != rule["new"]:
                said = f"{field} was {old or 'empty'}: {rule['reason']}"
                row["mended"] = "; ".join(filter(None, [row.get("mended", ""), said]))

    def model_of(self, table: str, row: Row) -> str:
        """The model that the table of corrections takes `row` for; nothing is mended or counted."""
        renamed = (rule for rule in self.rules[table] if rule["field"] == "model")
        found = [rule["new"] for rule in renamed if all(self._matches(c, row) for c in rule["match"].split(" & "))]
        return found[-1] if found else row["model"]

    def unused(self) -> list[Row]:
        """Rules that matched nothing: slips of the table, or a folder that has changed."""
        return [rule for rules in self.rules.values() for rule in rules if not self.used[rule["line"]]]


def import_gpus(folder: Path, mends: Mends) -> None:
    """`gpu_specs.csv` -> `gpus.csv`."""
    rows = []
    for spec in read(folder / "gpu_specs.csv"):
        name = spec["gpu"]
        row = spec | {"name": name, "nvlink_gbps": spec["nvlink_gbps_total"]}
        row |= {f"{p}_tflops": spec[f"{p}_tensor_tflops"] for p in ("tf32", "fp16", "bf16", "fp8", "fp4")}
        row["kind"] = "tpu" if name.startswith("TPU") else "trainium" if name.startswith("Trainium") else "gpu"
        row["geforce"] = "yes" if name.startswith(("GTX-", "RTX-20", "RTX-30", "RTX-40", "RTX-50", "Titan-")) else "no"
        # GeForce cards lost peer-to-peer copies over PCIe with Turing
        row["pcie_p2p"] = "no" if row["geforce"] == "yes" and spec["arch"] not in ("Pascal", "Volta") else "yes"
        if spec["memory_gib"]:
            row["usable_gib"] = f"{float(spec['memory_gib']) * 0.975:.1f}"
            row["usable_source"] = "rule: 0.975 of the label, as on the cards with a known figure"
        mends.apply("gpus", row)
        rows.append(row)
    known = {row["name"] for row in rows}
    own = [row for row in read(DATA / "gpus.csv") if row["name"] not in known]
    write(DATA / "gpus.csv", GPU_COLUMNS, rows + own)


def import_transformers(folder: Path, mends: Mends) -> None:
    """`llm_architectures.csv` -> `models/transformers.csv` (ViT rows are left to the vision table)."""
    rows = []
    for found in read(folder / "llm_architectures.csv"):
        if found["model"].startswith("vit-"):
            continue
        row = found | {"name": found["model"], "max_seq_len": found["default_seq_len"], "task": "language"}
        if not found["layers"]:
            row["kind"] = "size-only"
        mends.apply("transformers", row)
        rows.append(row)
    known = {row["name"] for row in rows}
    own = [row for row in read(DATA / "models" / "transformers.csv") if row["name"] not in known]
    write(DATA / "models" / "transformers.csv", TRANSFORMER_COLUMNS, rows + own)


def import_vision(folder: Path) -> None:
    """`vision_architectures.csv` -> `models/vision.csv`, old spellings of a renamed model merged; own rows stay."""
    renamed = {"regnety_040s_gn": "regnety_040_sgn", "regnetz_040h": "regnetz_040_h"}
    rows: dict[tuple[str, str], Row] = {}
    for row in read(folder / "vision_architectures.csv"):
        row["name"] = renamed.get(row["model"], row["model"])
        rows.setdefault((row["name"], row["image_size"]), row)
    own = [row for row in read(DATA / "models" / "vision.csv") if (row["name"], row["image_size"]) not in rows]
    write(DATA / "models" / "vision.csv", VISION_COLUMNS, [*rows.values(), *own])


def import_profiled(folder: Path, mends: Mends) -> None:
    """Models that only measurements (kind `profiled`) or only runs with a size (`size-only`) name; what has a source of
    its own in the file stays."""
    target = DATA / "models" / "profiled.csv"
    known = [row for row in read(target) if not row["source"].startswith("named in ")]
    write(target, PROFILED_COLUMNS, known)
    from benchmarks_db import models

    units = {row["name"]: row for row in read(DATA / "models" / "units.csv")}
    found: dict[str, list[Row]] = defaultdict(list)
    for kind, path in [("profiled", "measurements"), ("size-only", "runs")]:
        for file in sorted((folder / path).glob("*.csv")):
            for row in read(file):
                name = mends.model_of(path, row)
                try:
                    models.resolve_model(split(name)[1])
                except EstimatorError:
                    found[name].append(row | {"kind": kind, "throughput": row.get("throughput", "")})
    for alias in read(DATA / "model_aliases.csv"):
        for name in [name for name in found if names.fold(name) == names.fold(alias["alias"])]:
            if alias["model"] in found and name != alias["model"]:
                found[alias["model"]] += found.pop(name)
    rows = []
    for name, seen in sorted(found.items()):
        measured = any(row["throughput"] for row in seen)
        sizes = [float(row["params_m"]) for row in seen if row["params_m"]]
        if not measured and not sizes:
            continue  # nothing to say about it
        unit = Counter(row.get("unit", "") for row in seen if row.get("unit")).most_common(1)
        rows.append(
            {
                "name": name,
                "kind": "profiled" if measured else "size-only",
                "params_m": f"{statistics.median(sizes):g}" if sizes else "",
                "task": Counter(row["task"] for row in seen).most_common(1)[0][0],
                "unit": unit[0][0] if unit else "",
                "units_per_sample": units.get(name, {}).get("units_per_sample", ""),
                "units_source": units.get(name, {}).get("units_source", ""),
                "source": f"named in {'measurements' if measured else 'runs'} only: " + seen[0]["source"],
            }
        )
    write(target, PROFILED_COLUMNS, sorted(known + rows, key=lambda row: row["name"]))


def canonical_gpu(text: str) -> str:
    """The canonical name where the text is clear; a bare family name (`A100`) stays as the source wrote it."""
    from benchmarks_db import gpus

    match = gpus.resolve_gpu(text)
    return text if match.loose else match.gpu.name


class Leavings:
    """Rows that do not come over, with the reason."""

    def __init__(self, path: Path) -> None:
        self.sources = read(path)
        self.rows: Counter[tuple[str, str]] = Counter()

    def shipped(self, table: str, row: Row) -> bool:
        """Whether the licence of the row's source allows shipping; counts it otherwise."""
        for source in self.sources:
            if source["source"] in row["source"]:
                self.rows[table, f"licence of {source['source']}: {source['licence']}"] += 1
                return False
        return True

    def drop(self, table: str, reason: str) -> None:
        """Count a row that is left out for `reason`."""
        self.rows[table, reason] += 1


def import_measurements(folder: Path, mends: Mends, left: Leavings) -> dict[str, list[Row]]:
    """`measurements/*.csv` -> the same files with canonical names, parsed notes and a quality on each row."""
    from benchmarks_db import models

    tables: dict[str, list[Row]] = {}
    for file in sorted((folder / "measurements").glob("*.csv")):
        family, rows, seen = file.stem, [], {}
        for row in read(file):
            row["id"] = f"{family}-{row['line']}"
            if not left.shipped(f"measurements/{family}", row):
                continue
            try:
                match = models.resolve_model(row["model"])
                row["gpu"] = canonical_gpu(row["gpu"])
            except EstimatorError as error:
                left.drop(f"measurements/{family}", str(error))
                continue
            if match.loose:
                row["mended"] = f"model printed as {row['model']}"
            row["model"], row["kind"] = match.model.name, match.model.kind
            row |= {"stack": "tuned" if family == "mlperf" else "plain", "quality": "ok"}
            read_notes(row)
            mends.apply("measurements", row)
            schema.check(schema.MEASUREMENT, row, f"{file.name} line {row['line']}")
            key = tuple(row.get(c, "") for c in schema.names(schema.MEASUREMENT) if c not in ("id", "notes", "source"))
            key += (row["source"].partition("#")[0], row["notes"])
            if key in seen:
                left.drop(f"measurements/{family}", "the same row twice")
                continue
            seen[key] = row["id"]
            rows.append(row)
        write(DATA / "measurements" / f"{family}.csv", schema.names(schema.MEASUREMENT), rows)
        tables[f"measurements/{family}"] = rows
    return tables


def import_runs(folder: Path, mends: Mends, left: Leavings) -> dict[str, list[Row]]:
    """`runs/*.csv` -> the same files; a run whose model or card no table knows keeps its name and is `suspect`."""
    from benchmarks_db import models

    tables: dict[str, list[Row]] = {}
    for file in sorted((folder / "runs").glob("*.csv")):
        family, rows = file.stem, []
        for row in read(file):
            row |= {"id": f"run-{family}-{row['line']}", "quality": "ok"}
            if not left.shipped(f"runs/{family}", row):
                continue
            read_objective(row)
            try:
                mended = mends.model_of("runs", row)
                known = models.resolve_model(mended).model.name
                row["model"] = known if mended == row["model"] else row["model"]  # the other is mended below
                row["gpu"] = canonical_gpu(row["gpu"]) if row["gpu"] else ""
            except EstimatorError as error:
                row |= {"quality": "unusable", "quality_reason": f"no facts to predict it from: {error.message}"}
            read_run_notes(row)
            mends.apply("runs", row)
            schema.check(schema.RUN, row, f"{file.name} line {row['line']}")
            rows.append(row)
        write(DATA / "runs" / f"{family}.csv", schema.names(schema.RUN), rows)
        tables[f"runs/{family}"] = rows
    return tables


def import_microbench(folder: Path, left: Leavings) -> dict[str, list[Row]]:
    """`microbench*.csv` -> `microbench.csv`; accelerators that are refused by name are left out."""
    rows = []
    for file in sorted(folder.glob("microbench*.csv")):
        for row in read(file):
            row |= {"id": f"{file.stem}-{row['line']}", "quality": "ok"}
            try:
                row["gpu"] = canonical_gpu(row["gpu"])
            except EstimatorError as error:
                left.drop("microbench", f"accelerator {row['gpu'] or 'not named'}: {error.message}"[:90])
                continue
            schema.check(schema.MICROBENCH, row, f"{file.name} line {row['line']}")
            rows.append(row)
    write(DATA / "microbench.csv", schema.names(schema.MICROBENCH), rows)
    return {"microbench": rows}


RUN_FACT_COLUMNS = ("topic", "item", "cloud", "region", "value", "low", "high", "unit", "date", "source", "notes")
CASE_COLUMNS = (
    "id", "source", "situation", "observed_fact", "capability", "model", "gpu", "gpus", "metric", "value", "unit",
    "date", "mem_value", "mem_unit", "time_value", "time_unit",
)  # fmt: skip


def import_facts_and_cases(folder: Path, left: Leavings) -> dict[str, list[Row]]:
    """`run_facts.csv` and the memory and time cases of `public_cases.csv` (as `stated_cases.csv`)."""
    facts = []
    for row in read(folder / "run_facts.csv"):
        if row["source"] in ("", "none") or "memory-unverified" in row["notes"] + row["source"]:
            left.drop("run_facts", "no source: a failed search, or known from memory only")
        elif left.shipped("run_facts", row):
            facts.append(row)
    write(DATA / "run_facts.csv", RUN_FACT_COLUMNS, facts)
    cases = []
    for row in read(folder / "public_cases.csv"):
        if not {"memory-fit", "time", "cost"} & set(row["capability"].split(";")) or not (
            row["value"] or row["mem_value"] or row["time_value"]
        ):
            left.drop("stated_cases", "states no figure of memory, time or cost")
        elif left.shipped("stated_cases", row):
            cases.append(row)
    write(DATA / "stated_cases.csv", CASE_COLUMNS, cases)
    return {"run_facts": facts, "stated_cases": cases}


def main(folder: Path) -> int:
    """Import everything and report; 0 when every mend found its row."""
    mends, left = Mends(DATA / "mends.csv"), Leavings(DATA / "left_out_sources.csv")
    import_gpus(folder, mends)
    import_transformers(folder, mends)
    import_vision(folder)
    import_profiled(folder, mends)
    facts_report.forget_cached_names()
    tables = import_measurements(folder, mends, left) | import_runs(folder, mends, left)
    tables |= import_microbench(folder, left) | import_facts_and_cases(folder, left)
    text = facts_report.report(tables, left.rows, mends)
    (DATA / "README.md").write_text(text, encoding="utf-8")
    print(text)
    for rule in mends.unused():
        print(f"mends.csv line {rule['line']} matched nothing: {rule['match']}", file=sys.stderr)
    return 1 if mends.unused() else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
