"""Make a package of data: the current prices and machine facts of the price database, and measurements.

usage: python scripts/data_package.py FOLDER [MEASUREMENTS.csv]

Writes FOLDER/estimator-data-DATE.zip and beside it the SHA-256 in the form of `sha256sum --check`. The commands
`estimator prices import` and `estimator benchmarks add` verify and read it. The measurements count as own ones where
they are added: put in what your own runs showed, not what others published.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks_db.contribute import read_measurements
from benchmarks_db.package import MEASUREMENTS, PRICES, write_package
from estimator.cli.settings import settings


def main(folder: Path, measurements: Path | None = None) -> Path:
    """Write the package of this moment and its checksum; the path of the package."""
    command = [sys.executable, "-c", "from estimator.cli import main; main()", "prices", "export"]
    prices = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    members = {PRICES: prices}
    if measurements is not None:
        read_measurements(measurements)  # refused here rather than by everybody who fetches the package
        members[MEASUREMENTS] = measurements.read_bytes()
    now = settings().now.astimezone(UTC).replace(microsecond=0)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"estimator-data-{now:%Y-%m-%d}.zip"
    checksum = write_package(path, members, now)
    path.with_suffix(".zip.sha256").write_text(f"{checksum}  {path.name}\n", encoding="utf-8", newline="\n")
    return path


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    print(main(*(Path(word) for word in sys.argv[1:])))
