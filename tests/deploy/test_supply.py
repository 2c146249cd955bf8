"""What the image is made of is listed as the lock file has it, under licences that a company may ship."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import jsonschema
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from scripts import sbom

FOLDER = Path(__file__).resolve().parents[2] / "deploy"
ALLOWED = {
    "Apache-2.0", "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "Zlib", "CC0-1.0", "PSF-2.0",
    "MPL-2.0", "LGPL-3.0-only",  # psycopg: used as a library, unchanged
}  # fmt: skip


def test_the_lists_belong_to_the_lock_file() -> None:
    assert sbom.stale() == [], "run scripts/lock, then scripts/sbom.py"


def test_every_licence_is_known_and_allowed() -> None:
    with (FOLDER / "licences.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert set(re.split(r" (?:AND|OR) ", row["licence"])) <= ALLOWED, row
    copyleft = [row["package"] for row in rows if "LGPL" in row["licence"]]
    assert copyleft == ["psycopg", "psycopg-binary"]


def test_the_bill_of_materials_is_cyclonedx_with_a_package_url_and_a_licence_each() -> None:
    text = (FOLDER / "sbom.cdx.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    for component in document["components"]:
        assert component["purl"].startswith(f"pkg:pypi/{component['name'].lower()}@")
        assert component["licenses"]
    assert "://pypi" not in text


def test_the_scheduled_workflow_is_one_and_runs_what_exists() -> None:
    text = (FOLDER / "workflows" / "data.yaml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    schema = get_builtin_schema("vendor.github-workflows")
    jsonschema.validators.validator_for(schema)(schema).validate(
        json.loads(json.dumps({"on": workflow.pop(True), **workflow}))
    )
    for script in re.findall(r"scripts/[\w.]+", text):
        assert (FOLDER.parent / script).exists()
