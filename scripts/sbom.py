"""Write what the image is made of, from deploy/requirements.lock: a CycloneDX bill of materials and the licences.

usage: python scripts/sbom.py [--check]

Names and versions come from the lock file, licences from the metadata of the packages as they are installed where this
runs (`pip install -r deploy/requirements.lock`); the rest of the bill is written by cyclonedx-bom. `--check` says
whether the committed files still belong to the lock file, and needs neither.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "deploy" / "requirements.lock"
SBOM = ROOT / "deploy" / "sbom.cdx.json"
LICENCES = ROOT / "deploy" / "licences.csv"
SPELLINGS = {  # as packages write them -> SPDX
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2.0 License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "New BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",  # python-dateutil
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-3.0-only",
}


def locked() -> dict[str, str]:
    """Name and version of every package of the lock file."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE))


def licence(name: str) -> str:
    """The SPDX expression of an installed package; "" where its metadata does not tell."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        return ""
    if expression := found.get("License-Expression"):
        return expression
    said = _classified(found) or _stated(found)
    return SPELLINGS.get(said, said)


def _classified(found: PackageMetadata) -> str:
    named = [
        c.split(" :: ")[-1] for c in found.get_all("Classifier") or () if c.startswith("License :: OSI Approved ::")
    ]
    return named[0] if len(named) == 1 else ""


def _stated(found: PackageMetadata) -> str:
    """The licence as the package writes it, where it is a name and not its whole text."""
    text = (found.get("License") or "").strip()
    return text if "\n" not in text and len(text) < 60 else ""


def write() -> None:
    """Write both files; SystemExit names packages whose licence nobody states."""
    known = {name: licence(name) for name in locked()}
    unknown = [name for name, text in known.items() if not text]
    if unknown:
        raise SystemExit(f"no licence is stated by, or not installed: {', '.join(unknown)}")
    done = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", "requirements", "--pyproject", "pyproject.toml", "--output-reproducible",
         "--spec-version", "1.6", "--output-format", "JSON", str(LOCK)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    document = json.loads(done.stdout)
    for component in [*document["components"], *document["metadata"]["tools"]["components"]]:
        component.pop("externalReferences", None)  # where a registry keeps it: the package URL says enough
        component.pop("description", None)
    for component in document["components"]:
        component["licenses"] = [{"expression": known[component["name"]]}]
        component["bom-ref"] = component["purl"]
    del document["dependencies"]  # a lock file does not say who needs what
    SBOM.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8", newline="\n")
    lines = ["package,version,licence", *(f"{name},{version},{known[name]}" for name, version in locked().items())]
    LICENCES.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def stale() -> list[str]:
    """What the committed files say otherwise than the lock file and pyproject.toml."""
    wrong = []
    document = json.loads(SBOM.read_text(encoding="utf-8"))
    if {(c["name"], c["version"]) for c in document["components"]} != set(locked().items()):
        wrong.append(SBOM.name)
    rows = [line.split(",") for line in LICENCES.read_text(encoding="utf-8").splitlines()[1:]]
    if {(name, version) for name, version, _ in rows} != set(locked().items()):
        wrong.append(LICENCES.name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if document["metadata"]["component"]["version"] != project["version"]:
        wrong.append(f"{SBOM.name} (version)")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        raise SystemExit(f"stale: {', '.join(stale())}; run scripts/lock and scripts/sbom.py" if stale() else 0)
    write()
