"""A sweep that is killed goes on from what it had, ends in the same file, and never mixes two questions."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import yaml

from benchmarks_db.errors import WorkloadError
from estimator.sheets.answers import market_at
from estimator.sweep.cells import Question
from estimator.sweep.engines import here
from estimator.sweep.parts import Parts
from estimator.sweep.run import cells_in_part, manifest_of, sweep
from tests.end_to_end.conftest import ROOT, environment
from tests.estimator.sweep.conftest import GRID, NOW, question_of


def swept(question: Question, output: Path, **more: bool) -> int:
    """Cells that were there already."""
    parts = Parts(output)
    with parts.claimed():
        report = sweep(question, manifest_of(question, NOW.isoformat()), parts, here, **more)
    return report.taken_up


def test_a_killed_sweep_goes_on_and_ends_in_the_same_bytes(tmp_path: Path, question: Question) -> None:
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(GRID, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-c", "from estimator.cli import main; main()", "sweep", str(tmp_path / "sweep.yaml")]
    command += ["-o", str(tmp_path / "killed.parquet"), "--jobs", "2"]
    env = {**environment(tmp_path), "ESTIMATOR_NOW": NOW.isoformat()}
    folder = tmp_path / "killed.parquet.parts"
    process = subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(list(folder.glob("part-*"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed.parquet").exists()
    assert len(list(folder.glob("part-*"))) >= 2
    assert not psutil.wait_procs(workers, timeout=20)[1], "workers outlive the sweep"

    again = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert "of them by an earlier run" in again.stderr
    assert not folder.exists()
    swept(question, tmp_path / "alone.parquet")
    assert (tmp_path / "killed.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


class Stopped(Exception):  # noqa: N818
    pass


def stopped(question: Question, output: Path) -> None:
    """A sweep that ends after two parts of four cells."""

    def progress(done: int, whole: int) -> None:
        if done == 8:
            raise Stopped

    with pytest.raises(Stopped), (parts := Parts(output)).claimed():
        sweep(question, manifest_of(question, NOW.isoformat()), parts, here, progress=progress)


def test_another_question_is_refused_until_the_parts_are_thrown_away(tmp_path: Path, question: Question) -> None:
    output = tmp_path / "out.parquet"
    stopped(question, output)
    other = question_of({**GRID, "tokens": "30M"})
    with pytest.raises(WorkloadError, match="the request or its grid changed since; --restart"):
        swept(other, output)
    market = question.markets[""]
    dearer = replace(market.offers, usd_per_hour=market.offers.usd_per_hour * 2)
    with pytest.raises(WorkloadError, match="the prices changed since"):
        swept(Question(question.spec, {"": market_at(dearer, NOW)}), output)
    assert swept(question, output) == 8
    stopped(question, output)
    assert swept(other, output, restart=True) == 0


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"grid\.cloud\.0"):
        swept(question_of({**GRID, "model": "llama3-8b", "grid": {"cloud": ["asw"]}}), tmp_path / "out.parquet")
    assert not list(tmp_path.iterdir())


def test_a_part_that_a_crash_cut_short_is_done_again(tmp_path: Path, question: Question) -> None:
    output = tmp_path / "out.parquet"
    stopped(question, output)
    part = Parts(output).path(1)
    part.write_bytes(part.read_bytes()[:-40])
    assert swept(question, output) == 4


def test_two_sweeps_into_one_file_are_refused(tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with (
        Parts(output).claimed(),
        pytest.raises(WorkloadError, match="another sweep is writing"),
        Parts(output).claimed(),
    ):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(WorkloadError, match=r"missing.out\.parquet cannot be written"),
        Parts(tmp_path / "missing" / "out.parquet").claimed(),
    ):
        pass


def test_the_length_of_a_part_hangs_on_the_grid_alone() -> None:
    assert [cells_in_part(n) for n in (1, 256, 257, 10_000, 10**6, 10**9)] == [1, 1, 2, 16, 245, 4096]


def test_cells_that_share_their_physics_are_in_one_part(question: Question) -> None:
    manifest = manifest_of(question, NOW.isoformat())
    assert (question.spec.alike, manifest.cells_in_part) == (4, 4)
    assert [cells_in_part(10**6, alike) % alike for alike in (1, 12, 4000)] == [0, 0, 0]
    assert cells_in_part(10**6, 5000) == 245  # too many to stay together
