"""How does a sweep read? One Arrow table: the cell, what the grid asked, what came of it, and the figures of the plan.

Text that came from the spec is made plain as it is for sheets: a table travels into a spreadsheet sooner or later.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel

from benchmarks_db.errors import WorkloadError
from estimator.documents import LayoutDocument, PlanEntry, PriceDocument
from estimator.sheets.safety import neutral
from estimator.sweep.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

FLATTENED = ("fits", "evidence", "throughput_unit", "price_source", "price_state", "currency")
"""Columns of text that `flat_entry` names otherwise than the documents do."""
COUNTED = ("evidence_measurements",)
OUTCOME = ("status", "error", "binding")
COMPRESSION = "zstd"


def arrow() -> Any:
    """The library that writes Parquet; WorkloadError says how to get it where it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise WorkloadError("a sweep is written with pyarrow: pip install 'gpu-cost-estimator[sweep]'") from None
    return pyarrow


def schema_of(spec: Spec, about: Mapping[str, str]) -> pa.Schema:
    """The columns with their types: the same for every part of a sweep. `about` is kept in the file's metadata."""
    from estimator.flat import PLAN_CSV

    pa = arrow()
    asked = dict.fromkeys(key for axis in spec.axes for key in axis.keys)
    fields = [pa.field("cell", pa.int64())]
    fields += [pa.field(f"asked_{key}", _type_of(_values(spec, key))) for key in asked]
    fields += [pa.field(name, pa.string()) for name in OUTCOME]
    fields += [pa.field(name, _type_named(name)) for name in PLAN_CSV]
    return pa.schema(fields, metadata={key.encode(): text.encode() for key, text in about.items()})


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of that schema; what a row does not have is null."""
    pa = arrow()
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_string(field.type):
            values = [_text(value) for value in values]
        columns.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def parquet_of(table: pa.Table) -> bytes:
    """The table as a Parquet file."""
    sink = io.BytesIO()
    arrow().parquet.write_table(table, sink, compression=COMPRESSION)
    return sink.getvalue()


def _values(spec: Spec, key: str) -> list[Any]:
    return [choice[key] for axis in spec.axes for choice in axis.shown if key in choice]


def _type_of(values: Sequence[Any]) -> Any:
    """Numbers stay numbers where every value of the axis is one; `24h` and 24 together are text."""
    pa = arrow()
    if all(isinstance(value, bool) for value in values):
        return pa.bool_()
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return pa.string()
    whole = all(isinstance(value, int) and abs(value) < 2**63 for value in values)
    return pa.int64() if whole else pa.float64()


def _type_named(name: str) -> Any:
    """The type of a column of a plan: what the documents say of the field, numbers where they do not name it."""
    pa = arrow()
    if name == "price_observed_at":
        return pa.timestamp("us", tz="UTC")
    if name in FLATTENED:
        return pa.string()
    if name in COUNTED:
        return pa.int64()
    found = {kind for model in (PlanEntry, LayoutDocument, PriceDocument) for kind in _kinds(model, name)}
    if any(issubclass(kind, str | list) for kind in found):
        return pa.string()
    return pa.bool_() if found == {bool} else pa.int64() if found == {int} else pa.float64()


def _kinds(model: type[BaseModel], name: str) -> set[type]:
    """The types that a field of a document may have, None left out."""
    if name not in model.model_fields:
        return set()
    stated = model.model_fields[name].annotation
    parts = get_args(stated) if get_origin(stated) in (Union, UnionType) else (stated,)
    return {kind for part in parts if isinstance(kind := get_origin(part) or part, type)} - {type(None)}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return neutral(plain)
