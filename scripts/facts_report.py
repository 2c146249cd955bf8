"""What came over, what did not, and why: the text of `benchmarks_db/data/README.md`."""

from __future__ import annotations

# ruff: noqa: E501  (tables of a text)
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.import_facts import Mends, Row

HEAD = """# The facts

Written by `scripts/import_facts.py` from a folder of collected facts; the readable CSV here is the source, the packed
files beside it (`names.pack`, `measurements.npz`, `runs.npz`) are built from it by `python -m benchmarks_db.pack`.

| file | what |
| --- | --- |
| `gpus.csv`, `gpu_aliases.csv` | datasheet figures (dense, fp32 accumulation), usable memory; what people call the cards |
| `models/transformers.csv`, `models/vision.csv` | shapes of transformers; parameters, multiply-adds and activations of vision models |
| `models/profiled.csv`, `models/units.csv` | models that only measurements or runs name; how many tokens or frames their samples hold |
| `model_aliases.csv` | what people call the models |
| `measurements/*.csv` | measured training throughput (columns: `benchmarks_db/schema.py`) |
| `runs/*.csv` | whole training runs with time or cost |
| `microbench.csv` | sustained rates, one operation at a time |
| `run_facts.csv` | failures, spot, start-up, storage prices, power, networks |
| `stated_cases.csv` | public statements of memory, time and cost |
| `mends.csv` | corrections of misread or doubtful rows, with the reason |
| `left_out_sources.csv` | sources whose licence does not allow shipping |

Adding a GPU, a model or a measurement is adding a row. A new row counts at once (loading is slower until
`python -m benchmarks_db.pack` is run, which a test asks for).

`quality` of a row: `ok`; `suspect` (kept, with the reason: give it little weight); `unusable` (kept, never fitted).
`mended` says what was changed and why. Nothing is dropped without a line in the second table.
"""


def forget_cached_names() -> None:
    """Make the readers see the tables that were just written."""
    from benchmarks_db import gpus, models, pack

    pack.forget()
    gpus.gpus.cache_clear()
    models.models.cache_clear()
    models._sizes.cache_clear()


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def report(tables: dict[str, list[Row]], left: Counter[tuple[str, str]], mends: Mends) -> str:
    """The README of the data folder."""
    counts: list[tuple[object, ...]] = []
    reasons: Counter[tuple[str, str]] = Counter()
    for name, rows in tables.items():
        quality = Counter(row.get("quality", "") for row in rows)
        mended = sum(bool(row.get("mended")) for row in rows)
        away = sum(n for (table, _), n in left.items() if table == name)
        counts.append(
            (
                name,
                len(rows),
                quality["ok"] or "",
                quality["suspect"] or "",
                quality["unusable"] or "",
                mended or "",
                away or "",
            )
        )
        for row in rows:
            if row.get("quality") in ("suspect", "unusable"):
                reasons[row["quality"], row["quality_reason"]] += 1
    parts = [
        HEAD,
        "## Rows\n",
        _table(("table", "rows", "ok", "suspect", "unusable", "mended", "left out"), counts),
        "\n## Left out\n",
        _table(("table", "rows", "why"), [(table, n, why) for (table, why), n in sorted(left.items())]),
        "\n## Why rows are suspect or unusable\n",
        _table(("quality", "rows", "why"), [(q, n, why) for (q, why), n in sorted(reasons.items())]),
        f"\n{sum(bool(n) for n in mends.used.values())} of {sum(map(len, mends.rules.values()))} rules of `mends.csv` applied,",
        f"{sum(mends.used.values())} times in all.\n",
    ]
    return "\n".join(parts)
