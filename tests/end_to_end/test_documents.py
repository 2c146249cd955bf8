"""The documents tell the truth: their commands run, their generated parts are current, their lists are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from estimator.request.run import Bill, Currency, Evaluation, Run, Spot
from estimator.request.sections import Architecture, Constraints, Custom, Lora, Options, OwnMachine, Quota
from estimator.request.workload import Workload
from scripts.refresh_docs import PART, ROOT, commands, documents, enums, refreshed, run

BLOCK = re.compile(r"(?P<before>[^\n]*\n)```(?P<kind>console|python)\n(?P<body>.*?)```", re.DOTALL)
SECTIONS = (
    Workload,
    Lora,
    Architecture,
    Custom,
    OwnMachine,
    Constraints,
    Quota,
    Options,
    Run,
    Evaluation,
    Spot,
    Bill,
    Currency,
)
HERE = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]


def blocks(path: Path, kind: str) -> list[str]:
    """The blocks meant to be run here: generated ones are checked as such, `<!-- not run ... -->` says why not."""
    text = PART.sub("", path.read_text(encoding="utf-8"))
    return [m["body"] for m in BLOCK.finditer(text) if m["kind"] == kind and not m["before"].startswith("<!-- not run")]


@pytest.mark.parametrize("path", [pytest.param(p, id=p.name) for p in documents() if p.name != "accuracy.md"])
def test_the_generated_parts_are_current(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert refreshed(text) == text, "run: python scripts/refresh_docs.py"


def test_the_accuracy_table_is_the_one_that_evaluate_prints() -> None:
    """Figures may differ in their last digit: fits on other processors end elsewhere in the last bits."""
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    shown, computed = figures(text), figures(refreshed(text))
    assert [words for words, _ in shown] == [words for words, _ in computed]
    for (words, old), (_, new) in zip(shown, computed, strict=True):
        assert old == pytest.approx(new, rel=0.03, abs=1.01), words


def figures(text: str) -> list[tuple[str, list[float]]]:
    """Each line as its words and its numbers."""
    number = re.compile(r"[+-]?\d+(?:\.\d+)?")
    return [(number.sub("#", line), [float(n) for n in number.findall(line)]) for line in text.splitlines()]


@pytest.mark.parametrize("path", HERE)
def test_the_console_blocks_run(path: Path, server: str) -> None:
    for block in blocks(path, "console"):
        for command in commands(block):
            done = run(command.replace("http://127.0.0.1:8000", server))
            assert done.returncode == 0, f"{command}\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}"


@pytest.mark.parametrize("path", HERE)
def test_the_python_blocks_run(path: Path, server: str, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(path, "python")):
        script = tmp_path / f"block{number}.py"
        script.write_text(block.replace("http://127.0.0.1:8000", server))
        done = run(f"python -W error {script}")
        assert done.returncode == 0, f"{block}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("path", HERE)
def test_the_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_vocabulary_is_listed_in_the_request_reference() -> None:
    text = (ROOT / "docs" / "request.md").read_text(encoding="utf-8")
    for enum in enums():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{enum.__name__}` |"))
        for name, member in enum.__members__.items():
            assert f"`{member.value if isinstance(member, str) else name}`" in row


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_the_request_is_documented(section: type[Workload]) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / "request.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    missing = set(section.model_fields) - said
    assert not missing


def test_ci_runs_both_commands_of_the_readme_word_by_word() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for name, word in (("the install command", "estimator plan"), ("the test command", "pytest")):
        block = re.search(rf"<!-- not run here: {name} -->\n```console\n\$ (.*)\n```", readme)
        assert block
        assert word in block[1]
        assert f"""command="$(readme_command '{name}')"\nsh -euxc "$command"\n""" in script
