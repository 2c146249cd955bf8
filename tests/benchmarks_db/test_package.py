"""A package of data is read when it is whole, and refused when it is not."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks_db.errors import WorkloadError
from benchmarks_db.package import MANIFEST, MEASUREMENTS, PRICES, is_package, read_member, write_package
from estimator.cli.main import run
from scripts.data_package import main as made

WHEN = datetime(2026, 11, 30, tzinfo=UTC)
ROWS = b"model,gpu,throughput,unit,source\r\nllama3-8b,H100,3100,tokens/s,nightly run\r\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "data.zip"
    write_package(path, {PRICES: b'{"version": "1", "offers": []}', MEASUREMENTS: ROWS}, WHEN)
    return path


def rewritten(path: Path, name: str, content: bytes) -> None:
    """The package with another content under one name; the checksum that ZIP itself keeps fits."""
    with zipfile.ZipFile(path) as file:
        members = {each: file.read(each) for each in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for each, kept in members.items():
            file.writestr(each, content if each == name else kept)


def test_what_went_in_comes_out(package: Path) -> None:
    assert is_package(package)
    assert read_member(package, MEASUREMENTS) == ROWS


def test_the_same_data_make_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write_package(tmp_path / name, {MEASUREMENTS: ROWS}, WHEN) for name in ("one.zip", "two.zip"))
    assert one == two
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (MEASUREMENTS, ROWS.replace(b"3100", b"3900"), "is damaged or was changed: the checksum of measurements.csv"),
        (MANIFEST, b"{}", "has a manifest that cannot be read"),
        (MANIFEST, b"[1]", "has a manifest that cannot be read"),
        (MANIFEST, b'{"format": "other"}', "is no package of data"),
        (MANIFEST, b'{"format": "gpu-cost-estimator data", "version": 2}', "is of version 2"),
        (MANIFEST, b'{"format": "gpu-cost-estimator data", "version": 1, "files": {}}', "holds nothing"),
    ],
)
def test_a_package_that_was_changed_is_refused(package: Path, name: str, content: bytes, words: str) -> None:
    rewritten(package, name, content)
    with pytest.raises(WorkloadError, match=words):
        read_member(package, MEASUREMENTS)


def test_a_damaged_or_foreign_zip_is_refused(package: Path, tmp_path: Path) -> None:
    whole = package.read_bytes()
    package.write_bytes(whole[:60] + bytes(20) + whole[80:])
    with pytest.raises(WorkloadError, match="the package"):
        read_member(package, MEASUREMENTS)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("a.txt", "a")
    with pytest.raises(WorkloadError, match="is no package of data"):
        read_member(tmp_path / "other.zip", PRICES)


def test_a_published_package_is_imported_and_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("ESTIMATOR_NOW", "2026-11-30T12:00:00Z")
    (tmp_path / "rows.csv").write_bytes(ROWS)
    package = made(tmp_path / "out", tmp_path / "rows.csv")
    checksum, name = (tmp_path / "out" / "estimator-data-2026-11-30.zip.sha256").read_text().split()
    assert name == package.name
    assert len(checksum) == 64
    assert json.loads(read_member(package, PRICES))["version"] == "1"

    assert run(["prices", "import", str(package)]) == 0
    assert run(["benchmarks", "add", str(package)]) == 0
    assert "1" in capsys.readouterr().err
    rewritten(package, PRICES, b'{"version": "1", "offers": [], "x": 1}')
    assert run(["prices", "import", str(package)]) == 2
    assert "the checksum of prices.json does not fit" in capsys.readouterr().err
