"""The container image is built as its rules say: two stages, no root, nothing written outside /data."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path

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
    assert len(stages) == 2
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
    assert "pyproject.toml" in copied
    for path in copied:
        verdict = [not rule.startswith("!") for rule in rules if fnmatch.fnmatch(path, rule.lstrip("!"))]
        assert verdict[-1] is False, path


def test_the_image_holds_every_package_and_an_extra_for_each_of_its_tasks() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = " ".join(rest for word, rest in instructions() if word == "COPY")
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert f"{package} {package}" in copied
    for named in project["project"]["license-files"]:
        assert named in copied
    install = next(rest for word, rest in instructions() if "pip install" in rest)
    extras = re.search(r"\.\[([\w,]+)\]", install)
    assert extras
    assert set(extras[1].split(",")) <= set(project["project"]["optional-dependencies"])
