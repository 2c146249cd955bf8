"""The container image is built as its rules say: two stages, no root, nothing written outside /data."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word.upper(), rest) for word, _, rest in (line.partition(" ") for line in lines)]


def final_stage() -> list[tuple[str, str]]:
    listed = instructions()
    last = max(n for n, (word, _) in enumerate(listed) if word == "FROM")
    return listed[last:]


def test_what_builds_does_not_ship() -> None:
    stages = [rest for word, rest in instructions() if word == "FROM"]
    assert stages == ["${PYTHON} AS build", "${PYTHON}"]
    assert not any(word == "RUN" and "pip" in rest for word, rest in final_stage())
    assert [rest for word, rest in final_stage() if word == "COPY"] == ["--from=build /opt/estimator /opt/estimator"]


def test_the_process_is_not_root_and_is_watched() -> None:
    words = dict(final_stage())
    assert words["USER"].split(":")[0] not in ("root", "0")
    assert "/healthz" in words["HEALTHCHECK"]
    assert words["ENTRYPOINT"] == '["estimator"]'
    assert '"serve"' in words["CMD"]


def test_only_the_data_folder_is_written() -> None:
    words = dict(final_stage())
    assert words["VOLUME"] == "/data"
    assert "ESTIMATOR_DATA_DIR=/data" in words["ENV"]
    assert "PYTHONDONTWRITEBYTECODE=1" in words["ENV"]


def test_everything_the_build_copies_is_let_through_by_the_ignore_file() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line]
    copied = [p for word, rest in instructions() if word == "COPY" and "--from" not in rest for p in rest.split()[:-1]]
    assert {"pyproject.toml", "deploy/requirements.lock", "deploy/build.lock"} <= set(copied)
    for path in copied:
        verdict = [not rule.startswith("!") for rule in rules if fnmatch.fnmatch(path, rule.lstrip("!"))]
        assert verdict[-1] is False, path


def test_nothing_is_installed_that_the_lock_files_do_not_name() -> None:
    installs = [
        part for word, rest in instructions() if word == "RUN" for part in rest.split("&&") if " install" in part
    ]
    pips = [part.strip() for part in installs if "pip" in part]
    assert pips
    for part in pips:
        assert "--no-deps" in part, part
        assert "--require-hashes" in part or "--no-index" in part, part
    wheel = next(rest for word, rest in instructions() if word == "RUN" and "pip wheel" in rest)
    assert "--no-build-isolation" in wheel


def test_the_image_holds_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = " ".join(rest for word, rest in instructions() if word == "COPY")
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert f"{package} {package}" in copied
    for named in project["project"]["license-files"]:
        assert named in copied


def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("needs hadolint (comes with the extra dev on x86-64 Linux)")
    done = subprocess.run(
        ["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout + done.stderr == ""


def test_the_rehearsal_goes_through_the_same_steps() -> None:
    script = (ROOT / "scripts" / "rehearse_image").read_text(encoding="utf-8")
    for step in ("--require-hashes", "--no-build-isolation", "--no-index", "compileall", "-name tests", "10001"):
        assert step in script
        assert step in (ROOT / "Dockerfile").read_text(encoding="utf-8")
