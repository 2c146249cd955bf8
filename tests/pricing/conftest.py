"""A price database for a test (SQLite in a folder, or in a PostgreSQL started for the session), and the commands."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from estimator.cli.main import run
from pricing.store import Store
from tests.pricing.sets import NOW

Estimator = Callable[..., tuple[int, str, str]]  # words -> exit code, standard output, standard error


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


def _unprivileged() -> str:
    """PostgreSQL refuses to run as root: then it runs as its own user, else as nobody."""
    if os.geteuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Cluster:
    """A PostgreSQL of the session's own, on a socket in a temporary folder, without network."""

    def __init__(self, binaries: Path) -> None:
        self._bin = binaries
        self._user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # short: sockets allow 107 characters
        if os.geteuid() == 0:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", "data", "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses='' -k {self.folder} -c fsync=off -c max_connections=60"
        self._run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def _run(self, program: str, *arguments: str) -> None:
        who = {"user": self._user} if os.geteuid() == 0 else {}
        done = subprocess.run(  # type: ignore[call-overload]
            [str(self._bin / program), *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            timeout=120,
            **who,
        )
        if done.returncode:
            log = self.folder / "log"
            told = log.read_text() if log.exists() else str(done.stdout)
            raise RuntimeError(f"{program} failed: {told}")

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://tester@/{name}?host={self.folder}"

    def new_database(self) -> str:
        from sqlalchemy import create_engine, text

        name = f"t{uuid.uuid4().hex}"
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    binaries = _binaries()
    if binaries is None:
        pytest.skip("needs PostgreSQL (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="needs psycopg")
    cluster = Cluster(binaries)
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once for each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/prices.db"
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.new_database()


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    found = Store(database)
    yield found
    found.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory, a clock that stands still, and nobody's accounts."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "ESTIMATOR_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ESTIMATOR_NOW", NOW.isoformat())
    monkeypatch.setenv("ESTIMATOR_DEBUG", "1")
    return tmp_path


@pytest.fixture
def estimator(home: Path, capsys: pytest.CaptureFixture[str]) -> Estimator:
    """Runs a command: exit code, standard output, standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(words))
        told = capsys.readouterr()
        return code, told.out, told.err

    return call
