"""The same wheel works on Linux, macOS and Windows: pure, short names, no encoding or system call taken for granted."""

from __future__ import annotations

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from estimator.request.measured_text import is_text
from pricing.store import Store
from tests.end_to_end.conftest import ROOT, environment

PACKAGES = ("estimator", "pricing", "api", "benchmarks_db")
NOT_ON_WINDOWS = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"}
RESERVED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.IGNORECASE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_is_for_every_system(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 10 * 2**20
    with zipfile.ZipFile(wheel) as file:
        names = [PurePosixPath(name) for name in file.namelist()]
    assert not [name for name in names if name.suffix in (".so", ".pyd", ".dylib", ".dll", ".pyc")]
    assert len({str(name).casefold() for name in names}) == len(names), "names that differ in case alone"
    assert not [name for name in names if any(RESERVED.search(part) for part in name.parts)]
    assert max(len(str(name)) for name in names) < 120, "Windows allows 260 with the folder in front"


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = {line for line in listed.stdout.splitlines() if (ROOT / line).exists()}
    if not tracked:
        pytest.skip("not a checkout")
    with zipfile.ZipFile(wheel) as file:
        assert tracked <= set(file.namelist())


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_no_module_needs_what_windows_lacks() -> None:
    wrong = []
    for path, tree in sources():
        for node in tree.body:  # at the top: inside a function it may be guarded
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path}: {name}" for name in names if name.partition(".")[0] in NOT_ON_WINDOWS]
    assert wrong == []


@pytest.mark.parametrize("path", [r"C:\Users\Ana María\prices.db", r"D:/data/prices.db", r"\\server\share\prices.db"])
def test_a_path_of_windows_is_a_file_and_no_url(path: str) -> None:
    store = Store(path)
    assert store.dialect == "sqlite"
    assert str(store.path).endswith("prices.db")


@pytest.mark.parametrize("path", [r"C:\runs\mine.csv", r"..\runs\mine 2.csv", r"\\server\share\mine.csv"])
def test_a_path_of_windows_is_no_measurement_in_words(path: str) -> None:
    assert not is_text(path)


def test_a_console_and_files_of_windows_are_read_and_written(tmp_path: Path) -> None:
    """Code page 1252, an ASCII locale, CRLF, byte order marks, blanks and accents in the path."""
    folder = tmp_path / "Ana María"
    folder.mkdir()
    request = "\ufeffname: résumé – Größe\r\nmodel: llama3-8b\r\nmethod: lora\r\ntokens: 50M\r\n"
    (folder / "plan me.yaml").write_bytes(request.encode())
    rows = "\ufeffmodel,gpu,gpus,precision,seq_len,notes\r\nllama3-8b,H100,8,bf16,2048,übung\r\n"
    (folder / "rows.csv").write_bytes(rows.encode())
    commands = [
        ["plan", "plan me.yaml", "--top", "1"],
        ["plan", "plan me.yaml", "--format", "json", "-o", "out.json"],
        ["predict", "rows.csv", "-o", "out.csv"],
        ["gpus"],
    ]
    script = f"from estimator.cli.main import run\nfor words in {commands!r}:\n    print(run(words))"
    env = {key: value for key, value in environment(tmp_path).items() if key not in ("PYTHONUTF8", "LC_ALL")}
    env |= {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    env["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, timeout=120, check=False
    )
    shown = done.stdout.decode("utf-8")
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    assert re.findall(r"^\d+$", shown, re.MULTILINE) == ["0"] * len(commands)
    assert "résumé – Größe" in (folder / "out.json").read_text(encoding="utf-8")
    with (folder / "out.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["notes"], row["error"]) == ("übung", "")
    assert float(row["predicted_throughput"]) > 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `estimator`, as an installation makes it."""
    folder = tmp_path_factory.mktemp("bin")
    command = "from estimator.cli import main; main()"
    (folder / "estimator").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{command}" "$@"\n', encoding="utf-8")
    (folder / "estimator").chmod(0o755)
    return folder


@pytest.mark.parametrize(("line", "offered"), [("estimator sw", "sweep"), ("estimator sweep --sch", "--scheduler")])
def test_a_tab_completes_commands_and_flags(program: Path, line: str, offered: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    words = line.split(" ")
    script = f"""
        eval "$(estimator --show-completion bash)"
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}
        _estimator_completion estimator
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{program}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True, timeout=60, env=env)
    assert done.stdout.split() == [offered]
