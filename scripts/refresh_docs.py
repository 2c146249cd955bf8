"""Write the generated parts of README.md and docs/: command help, outputs of examples, vocabularies, accuracy.

usage: python scripts/refresh_docs.py            write them
       python scripts/refresh_docs.py --check    say which ones are stale, and exit 1 (the tests do the same)

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `NAME` is a function of `PARTS`, or
`output`: then the part is a console block whose `$ ` lines are run and whose other lines are their output.
"""

from __future__ import annotations

import csv
import importlib
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NOW = "2026-09-01T00:00:00Z"  # pretended, so that the price ages in the documents do not change by the day
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)
VOCABULARIES = ("estimator.terms", "estimator.request.fields", "estimator.request.run", "pricing.market")


def documents() -> list[Path]:
    """README.md and every page of docs/."""
    return [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]  # README quotes docs/accuracy.md


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What a command of the documents sees: plain text, no network, a fixed day, its own data folder, `estimator`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, call in (
        ("estimator", f'"{sys.executable}" -c "from estimator.cli import main; main()" "$@"'),
        ("python", f'"{sys.executable}" "$@"'),
    ):
        program = programs / name
        program.write_text(f"#!/bin/sh\nexec {call}\n")
        program.chmod(0o755)
    fixed = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ESTIMATOR_NOW": NOW,
        "ESTIMATOR_OFFLINE": "1",
        "ESTIMATOR_DATA_DIR": str(folder / "data"),
        "HOME": str(folder),
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }
    return fixed | more


def run(command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A shell command as the documents run it, in the project's folder."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environment(Path(folder), **more),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def commands(block: str) -> list[str]:
    r"""The commands of a console block: its `$ ` lines, each with the lines after a trailing backslash."""
    return [found.removeprefix("$ ") for found in re.findall(r"^\$ (?:.*\\\n)*.*$", block, re.MULTILINE)]


def output(body: str) -> str:
    """A console block with the output of its commands, as they print now."""
    shown = []
    for command in commands(body):
        done = run(command)
        if done.returncode:
            raise RuntimeError(f"{command}\n{done.stderr}")
        shown.append(f"$ {command}\n{done.stdout}{done.stderr}".rstrip())
    return "```console\n" + "\n\n".join(shown) + "\n```\n"


def vocabularies(_: str) -> str:
    """Every closed vocabulary of the request and the answers, from the code that defines it."""
    rows = ["| vocabulary | what it says | values |", "| --- | --- | --- |"]
    for enum in enums():
        values = ", ".join(f"`{member.value if issubclass(enum, StrEnum) else name}`" for name, member in named(enum))
        rows.append(f"| `{enum.__name__}` | {' '.join((enum.__doc__ or '').split())} | {values} |")
    return "\n".join(rows) + "\n"


def named(enum: type[StrEnum] | type[IntEnum]) -> list[tuple[str, StrEnum | IntEnum]]:
    """Members with their names, aliases included."""
    return list(enum.__members__.items())


def enums() -> Iterator[type[StrEnum] | type[IntEnum]]:
    """The enums that the public modules define, in the order of the code."""
    for name in VOCABULARIES:
        module = importlib.import_module(name)
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, StrEnum | IntEnum) and thing.__module__ == name:
                yield thing


def settings(_: str) -> str:
    """The server's settings."""
    from api.settings import Settings

    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `ESTIMATOR_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def metrics(_: str) -> str:
    """What the server counts, and what it tells of its prices."""
    from api.market_metrics import DESCRIBED
    from api.metrics import documented

    found = [*documented(), *((name, "gauge", ", ".join(labels), words) for name, (labels, words) in DESCRIBED.items())]
    rows = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    rows += [f"| `{name}` | {kind} | {labels} | {words} |" for name, kind, labels, words in found]
    return "\n".join(rows) + "\n"


def routes(_: str) -> str:
    """Every operation of the HTTP API."""
    from api.app import create_app
    from api.settings import Settings

    rows = ["| operation | answers |", "| --- | --- |"]
    for path, item in create_app(Settings()).openapi()["paths"].items():
        for method, operation in item.items():
            rows.append(f"| `{method.upper()} {path}` | {' '.join(operation['description'].split())} |")
    return "\n".join(rows) + "\n"


def cli(_: str) -> str:
    """Every command with its arguments and flags, from the commands themselves."""
    return "\n".join(_command(path, command) for path, command in _commands())


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of the command line with its path, from the top."""
    from typer.main import get_command

    from estimator.cli.app import app

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield path, command
        for name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                yield from walk(inner, (*path, name))

    return walk(get_command(app), ())


def _command(path: tuple[str, ...], command: Any) -> str:
    """One command: what it does, and a table of what it takes (independent of how a terminal would draw it)."""
    unlisted = ("help", "install_completion", "show_completion")
    rows = [
        f"| {_takes(parameter)} | {_cell(getattr(parameter, 'help', None) or '')} |"
        for parameter in command.params
        if parameter.name not in unlisted and not getattr(parameter, "hidden", False)
    ]
    inner = [f"`{name}`" for name, sub in getattr(command, "commands", {}).items() if not sub.hidden]
    parts = [f"## `{' '.join(('estimator', *path))}`", "\n\n".join(_paragraphs(command.help or ""))]
    if inner:
        parts.append(f"Commands: {', '.join(inner)}.")
    if rows:
        parts.append("\n".join(["| argument or flag | |", "| --- | --- |", *rows]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _takes(parameter: Any) -> str:
    """`--gpus`, `--gpu`, `-g` GPU[:COUNT]."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if getattr(parameter, "is_flag", False) else (parameter.metavar or "VALUE")
    return _cell(f"{names} {value}")


def accuracy(_: str) -> str:
    """The cross-validated accuracy table: a minute or two of fitting and predicting what was left out."""
    done = run("estimator benchmarks evaluate --format markdown")
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def whole_runs(_: str) -> str:
    """Hours and dollars of whole published runs, by kind."""
    done = run("estimator benchmarks evaluate --runs --format markdown")
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def run_kinds(_: str) -> str:
    """What published runs took over their steps, by kind, as the package ships it."""
    table = csv.DictReader((ROOT / "estimator" / "data" / "run_kinds.csv").read_text(encoding="utf-8").splitlines())
    rows = ["| kind of run | hours over steps | 80% of runs | groups |", "| --- | --- | --- | --- |"]
    for row in table:
        factor, spread = float(row["factor"]), math.exp(float(row["half_width"]))
        rows.append(
            f"| `{row['kind']}` | {factor:.2f} | {factor / spread:.2f} to {factor * spread:.2f} | {row['groups']} |"
        )
    return "\n".join(rows) + "\n"


CASES = (
    "language: pretraining and full fine-tuning",
    "language: LoRA and QLoRA",
    "language: mixture of experts",
    "classic: all",
    "timm models",
)
LEFT_OUT = ("known lab, unseen group", "unseen model", "unseen GPU type", "unseen lab")


def accuracy_summary(_: str) -> str:
    """The lines of docs/accuracy.md that say most, as a table that fits a page."""
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    found = {(row[0], row[1]): row for row in cells if len(row) == 7}
    rows = [f"| | {' | '.join(LEFT_OUT)} |", f"| --- |{' --- |' * len(LEFT_OUT)}"]
    for case in CASES:
        scores = [found.get((case, out)) for out in LEFT_OUT]
        rows.append(f"| {case} | {' | '.join(_score(score) for score in scores)} |")
    return "\n".join(rows) + "\n"


def _score(row: list[str] | None) -> str:
    """`9.5 (26.4)`: the median error, and that of a constant utilisation."""
    return "" if row is None else f"{row[3].split(' / ')[0]} ({row[5].split(' / ')[0]})"


PARTS: dict[str, Callable[[str], str]] = {
    "output": output,
    "vocabularies": vocabularies,
    "settings": settings,
    "metrics": metrics,
    "routes": routes,
    "cli": cli,
    "accuracy": accuracy,
    "accuracy-summary": accuracy_summary,
    "whole-runs": whole_runs,
    "run-kinds": run_kinds,
}


def refreshed(text: str) -> str:
    """A document with its generated parts as they should be."""
    return PART.sub(lambda part: part["open"] + PARTS[part["name"]](part["body"]) + part["close"], text)


def main() -> int:
    """Write or check every document."""
    stale = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = refreshed(text)
        if new != text:
            stale.append(path.relative_to(ROOT))
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    verb = "stale" if "--check" in sys.argv else "written"
    print("\n".join(f"{verb}: {path}" for path in stale) or "all up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
