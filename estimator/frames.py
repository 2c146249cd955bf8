"""How do plans and estimates read in a notebook? A table on the page, and data frames where those are installed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars

SHOWN = (
    "rank", "cloud", "region", "instance_type", "market", "nodes", "gpu", "gpus", "hours_p50", "cost_usd_p10",
    "cost_usd_p50", "cost_usd_p90", "usd_per_hour", "fits", "bound_by", "evidence", "pareto",
)  # fmt: skip


class Frames:
    """What a plan or estimate document can become; a mixin without fields."""

    def records(self) -> list[dict[str, Any]]:
        """One flat row for each plan or estimate, with the columns of `--format csv`; unknown is None."""
        from estimator.flat import flat_entry

        rows = [flat_entry(entry.model_dump(mode="python")) for entry in _entries(self)]
        return [{name: _plain(row.get(name)) for name in _columns(self)} for row in rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, all columns even without a row; ImportError where pandas is missing."""
        import pandas

        return pandas.DataFrame.from_records(self.records(), columns=list(_columns(self)))

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars DataFrame, all columns even without a row; ImportError where polars is missing."""
        import polars

        rows = self.records()
        return polars.from_dicts(rows, infer_schema_length=None) if rows else polars.DataFrame(schema=_columns(self))

    def _repr_html_(self) -> str:
        """The table that a notebook shows: the plans, or what stands in the way."""
        rows = self.records()
        if not rows:
            reason = getattr(self, "binding", None) or "; ".join(getattr(self, "rejected", {})) or "nothing"
            return f"<p>No plan satisfies the request: {escape(str(reason))}</p>"
        columns = [name for name in SHOWN if name in rows[0]]
        head = "".join(f"<th>{name}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{_cell(row[name])}</td>" for name in columns) + "</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _entries(document: object) -> list[Any]:
    found = getattr(document, "plans", None)
    return list(found if found is not None else getattr(document, "estimates", []))


def _columns(document: object) -> tuple[str, ...]:
    from estimator.flat import ESTIMATE_CSV, PLAN_CSV

    return tuple(ESTIMATE_CSV if getattr(document, "plans", None) is None else PLAN_CSV)


def _plain(value: Any) -> Any:
    """A value that any frame takes: enums by their words, lists as one text."""
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    return getattr(value, "value", value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.2f}".removesuffix(".00") if isinstance(value, float) else escape(str(value))
