"""How is a request read from a file or from YAML or JSON text, and where exactly is it unreadable?"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks_db.errors import WorkloadError
from estimator.request.measured_text import is_text, listed_measurements

MAX_BYTES = 4 * 2**20  # a request is a page; what is larger is some other file

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2 scalars (no `no` = false, no 24:00 = 1440, no dates) and no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (yaml's own protocol)


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: _whole(loader.construct_scalar(node)))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= 40 else text


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[object, object]:
    pairs: dict[object, object] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.MarkedYAMLError(problem=f"the key {key!r} is not a name", problem_mark=key_node.start_mark)
        if key in pairs:
            raise yaml.MarkedYAMLError(problem=f"the key {key!r} stands here twice", problem_mark=key_node.start_mark)
        pairs[key] = loader.construct_object(value_node, deep=True)
    return pairs


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_text(text: str, *, name: str = "the request", field: str = "request") -> dict[str, Any]:
    """The mapping that YAML or JSON `text` holds; refuses anything else with line and column."""
    if len(text) > MAX_BYTES:
        raise WorkloadError(f"{name} is larger than {MAX_BYTES // 2**20} MiB", field=field)
    loader = None
    try:
        loader = _Loader(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise WorkloadError(
            f"{name} is not readable YAML{where}: {error.problem or error.context}", field=field
        ) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise WorkloadError(f"{name} is not readable YAML: {reason}", field=field) from None
    except RecursionError:
        raise WorkloadError(f"{name} is nested too deeply", field=field) from None
    finally:
        if loader is not None:
            loader.dispose()
    if value is None:
        raise WorkloadError(
            f"{name} is empty; it needs at least a model", field="model" if field == "request" else field
        )
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "a single value"
        raise WorkloadError(f"{name} holds {kind}; it must be a mapping of keys to values", field=field)
    return value


def is_there(path: Path) -> bool:
    """Whether there is a file or folder of that name; no text that cannot be one (too long, say) is."""
    try:
        return path.exists()
    except OSError:
        return False


def read_file(path: Path, *, field: str = "request") -> str:
    """The UTF-8 text of a file a person named."""
    try:
        if path.stat().st_size > MAX_BYTES and path.is_file():
            raise WorkloadError(f"{path} is larger than {MAX_BYTES // 2**20} MiB", field=field, value=str(path))
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = _model_named(path) if field == "hf_config" else ()
        raise WorkloadError(f"there is no file {path}", field=field, value=str(path), nearest=near) from None
    except IsADirectoryError:
        raise WorkloadError(f"{path} is a folder, not a file", field=field, value=str(path)) from None
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not UTF-8 text (byte {error.start})", field=field, value=str(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WorkloadError(f"{path} cannot be read: {reason}", field=field, value=str(path)) from None


def _model_named(path: Path) -> tuple[str, ...]:
    """How to say it where a path is the name of a model that is known."""
    from benchmarks_db.models import resolve_model

    try:
        return (f"--model {resolve_model(str(path)).model.name}",)
    except WorkloadError:
        return ()


def stdin_bytes() -> bytes:
    """What standard input holds."""
    return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()


def read_stdin(name: str = "standard input", *, field: str = "request") -> str:
    """The UTF-8 text on standard input."""
    raw = stdin_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{name} is not UTF-8 text (byte {error.start})", field=field) from None


def read_request(path: Path) -> dict[str, Any]:
    """The request in a YAML or JSON file; the paths in it (`hf_config`, `measured`) are relative to the file.

    A `hf_config` path is replaced by its content.
    """
    body = read_text(read_file(path), name=str(path))
    measured = body.get("measured")
    names = [measured] if isinstance(measured, str) else measured
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        read = [listed_measurements(name) for name in names]  # texts stay, paths are relative to the file
        body["measured"] = [
            name if is_text(name) else str(path.parent / Path(name).expanduser()) for part in read for name in part
        ]
    return with_hf_config(body, path.parent)


def with_hf_config(body: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`body` with the Hugging Face config that it names by path read in; a folder means its `config.json`."""
    named = body.get("hf_config")
    if not isinstance(named, str):
        return body
    path = folder / Path(named).expanduser()
    if is_there(path) and path.is_dir():
        path = path / "config.json"
    config = read_text(read_file(path, field="hf_config"), name=str(path), field="hf_config")
    return {**body, "hf_config": config}


def quotas_in(text: str) -> list[str] | list[dict[str, str]]:
    """What `--quota` names: `key=value,...` as it stands, or the rows of a CSV file.

    The file has a header of the keys of a quota; an empty cell matches everything.
    """
    if "=" in text:
        return [text]
    path = Path(text).expanduser()
    lines = read_file(path, field="constraints.quotas").splitlines()
    rows = list(csv.DictReader(line for line in lines if line.strip()))
    if not rows or "max_gpus" not in rows[0]:
        raise WorkloadError(
            f"{path} has no rows under a header with max_gpus", field="constraints.quotas", value=text,
            nearest=("cloud,region,instance_type,gpu,market,max_gpus",),
        )  # fmt: skip
    if any(None in row for row in rows):
        raise WorkloadError(f"{path} has a row longer than its header", field="constraints.quotas", value=text)
    return [{key.strip(): cell.strip() for key, cell in row.items() if cell and cell.strip()} for row in rows]
