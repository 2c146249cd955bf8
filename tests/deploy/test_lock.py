"""The image installs what its lock files name, to the hash, and they satisfy what the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPT = (ROOT / "scripts" / "lock").read_text(encoding="utf-8")


def locked(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """Each package of a lock file with its hashes."""
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            asked, *hashes = re.split(r"\s+--hash=", line.strip())
            requirement = Requirement(asked)
            found[_folded(requirement.name)] = (requirement, hashes)
    return found


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_every_package_has_one_version_and_hashes(name: str) -> None:
    for requirement, hashes in locked(name).values():
        assert re.fullmatch(r"==[\w.+!]+", str(requirement.specifier)), requirement
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


def test_the_lock_has_what_the_project_asks_for() -> None:
    extras = re.search(r'^EXTRAS="(.*)"$', SCRIPT, re.MULTILINE)
    assert extras
    wanted = list(PROJECT["project"]["dependencies"])
    for extra in extras[1].split():
        wanted += PROJECT["project"]["optional-dependencies"][extra]
    have = locked("requirements.lock")
    for text in wanted:
        asked = Requirement(text)
        assert _folded(asked.name) in have, f"{asked}: run scripts/lock"
        (version,) = have[_folded(asked.name)][0].specifier
        assert asked.specifier.contains(version.version, prereleases=True), f"{asked}: run scripts/lock"


def test_the_lock_has_what_builds_the_wheel() -> None:
    have = locked("build.lock")
    for text in PROJECT["build-system"]["requires"]:
        asked = Requirement(text)
        (version,) = have[_folded(asked.name)][0].specifier
        assert asked.specifier.contains(version.version)


def test_lock_files_name_no_registry() -> None:
    for name in ("requirements.lock", "build.lock"):
        assert "://" not in (ROOT / "deploy" / name).read_text(encoding="utf-8")
