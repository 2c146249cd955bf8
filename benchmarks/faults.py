"""What breaks, what is answered meanwhile, and what brings it back? Prints a table; exits 1 where something was wrong.

usage: python benchmarks/faults.py [NAME ...]      all faults, or those whose names contain a word

Each fault strikes a real server under load (benchmarks/house.py), which holds every price in every answer against what
the source ever said. `good` answers are 200 and right; `refused` are a stated 503 or 429; `cut` connections had no
answer. Needs PostgreSQL and redis-server; what needs a small disk needs root (it mounts a tmpfs).
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.house import House, Load, Served, Source, asked, free_port, price  # noqa: E402
from tests.operations.servers import redis_server  # noqa: E402
from tests.pricing.conftest import Cluster, _binaries  # noqa: E402

MEASURED = "model,gpu,throughput,unit,seq_len,precision\nllama3-8b,H100:8,60000,tokens/s,4096,bf16\n"
BEFORE = "641260e"  # the last commit before migrations by Alembic: what an old replica runs


@dataclass
class Row:
    """One line of the table."""

    fault: str
    load: Load | None
    lost: str
    recovery: str
    fine: bool

    def line(self) -> str:
        """As Markdown."""
        load = self.load
        counts = (
            "|  |  |  |  |" if load is None else f"| {load.good} | {load.refused} | {load.cut} | {len(load.wrong)} |"
        )
        return f"| {self.fault} {counts} {self.lost} | {self.recovery} | {'yes' if self.fine else 'NO'} |"


def rows_of(url: str) -> tuple[int, int, int]:
    """Prices in the history, API keys and measurements of a database."""
    from pricing.store import Store

    store = Store(url)
    with store.reading() as ask:
        found = [ask(f"SELECT count(*) FROM {table}")[0][0] for table in ("prices", "api_keys", "measurements")]
    store.close()
    return found[0], found[1], found[2]


def shown(url: str, size: str = "Standard_NC4as_T4_v3") -> float | None:
    """The price that a server shows for a machine in eastus."""
    status, body = asked(f"{url}/v1/offers?cloud=azure&region=eastus&market=on-demand&instance_type={size}")
    return body["offers"][0]["price_usd_per_hour"] if status == 200 and body["offers"] else None


def shows(url: str, step: int) -> Callable[[], bool]:
    """Whether a server shows prices of this state of the source."""
    return lambda: shown(url) == price("Standard_NC4as_T4_v3", "on-demand", step)


def seconds(value: float) -> str:
    return f"{value:.1f} s"


# --- databases ------------------------------------------------------------------------------------------------------


def postgres_stopped(house: House) -> Row:
    """Two replicas on one PostgreSQL that is stopped for ten seconds and started again."""
    with cluster(house) as (database, url), house.serve() as one, house.serve() as two:
        house.run("keys", "add", "nightly")
        write(house.folder / "rows.csv", MEASURED)
        house.run("benchmarks", "add", str(house.folder / "rows.csv"))
        house.refresh()
        before = rows_of(url)
        one.until(shows(one.url, 0), 30)
        two.until(shows(two.url, 0), 30)
        with Load([one.url, two.url], house.source) as load:
            time.sleep(3)
            database._run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
            time.sleep(10)
            options = f"-c listen_addresses='' -k {database.folder} -c fsync=off -c max_connections=60"
            database._run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")
            house.source.step = 1
            done = house.refresh()
            back = max(one.until(shows(one.url, 1), 60), two.until(shows(two.url, 1), 60))
        after = rows_of(url)
        kept = after[1:] == before[1:] and after[0] >= before[0]
        told = one.says("going on with what was read before") and one.says("answers again")
        return Row("PostgreSQL stopped for 10 s, two replicas", load, "nothing" if kept else f"{before} {after}",
                   f"prices read before go on, marked; new prices {seconds(back)} after the next refresh",
                   kept and told and done.returncode == 0 and back < 60 and sound(load, refused=0))  # fmt: skip


def redis_gone(house: House) -> Row:
    """Redis killed under load with keys that are counted, and started again."""
    port = free_port()
    with redis_server(house.folder, port) as redis, cluster(house):
        house.refresh()
        made = house.run("keys", "add", "load")
        key = {"authorization": f"Bearer {made.stdout.strip()}"}
        with (
            house.serve(
                ESTIMATOR_REDIS_URL=f"redis://127.0.0.1:{port}/0", ESTIMATOR_KEY_RATE_PER_MINUTE="100000"
            ) as one,
            Load([one.url], house.source, **key) as load,
        ):
            time.sleep(2)
            redis.kill()
            redis.wait()
            told = one.until(lambda: one.says("Redis does not answer"), 15)
            time.sleep(3)
            with redis_server(house.folder, port):
                back = one.until(lambda: one.says("Redis answers again"), 30)
                time.sleep(1)
        return Row("Redis killed for some seconds", load, "counts of the last minute, shared answers",
                   f"said after {seconds(told)}; each process counts for itself; shared again {seconds(back)} after",
                   told < 15 and back < 30 and sound(load, refused=0))  # fmt: skip


def corrupt_database(house: House) -> Row:
    """Garbage written over the SQLite file of a running server."""
    house.refresh()
    house.run("keys", "add", "nightly")
    file = house.folder / "data" / "prices.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    house.run("prices", "export", "-o", str(house.folder / "export.json"))
    with house.serve() as one:
        one.until(shows(one.url, 0), 30)
        with Load([one.url], house.source) as load:
            time.sleep(2)
            damage(file)
            told = one.until(lambda: one.says("set aside as"), 60)
            during = shown(one.url)
            imported = house.run("prices", "import", str(house.folder / "export.json"))
            back = one.until(shows(one.url, 0), 60)
        aside = list(file.parent.glob("prices.db.damaged-*"))
        keys = rows_of(str(file))[1]
        fine = told < 60 and len(aside) >= 1 and keys == 1 and imported.returncode == 0 and back < 60
        return Row("SQLite file overwritten in the middle", load,
                   f"price history, which stays in the file set aside; {keys} of 1 keys kept",
                   f"noticed {seconds(told)} after; shipped prices ({during}) until `prices import`, {seconds(back)}",
                   fine and sound(load))  # fmt: skip


def damage(file: Path) -> None:
    """Overwrite the pages of the packed prices."""
    with sqlite3.connect(file) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'packed'").fetchone()
    with file.open("r+b") as stream:
        stream.seek(size * (root - 1))
        stream.write(b"\xa5" * size)


# --- disks ----------------------------------------------------------------------------------------------------------


def disk_full_refresh(house: House) -> Row:
    """A refresh while the disk has no room for what it brings."""
    with small_disk(house.folder / "data", "4m") as disk:
        house.refresh()
        with house.serve() as one:
            one.until(shows(one.url, 0), 30)
            with Load([one.url], house.source) as load:
                fill(disk)
                house.source.step = 1
                failed = house.refresh()
                time.sleep(2)
                still = shown(one.url)
                (disk / "filler").unlink()
                again = house.refresh()
                back = one.until(shows(one.url, 1), 60)
        right = still in (price("Standard_NC4as_T4_v3", "on-demand", step) for step in (0, 1))
        said = "full" in failed.stderr or failed.returncode == 0
        return Row("disk full during a refresh", load, "nothing",
                   f"exit {failed.returncode}, one line; last good prices stay; the next refresh: {seconds(back)}",
                   right and said and again.returncode == 0 and back < 60 and "Traceback" not in failed.stderr
                   and sound(load))  # fmt: skip


def disk_full_measurements(house: House) -> Row:
    """`benchmarks add` on a full disk."""
    with small_disk(house.folder / "data", "256k") as disk:
        write(house.folder / "one.csv", MEASURED)
        house.run("benchmarks", "add", str(house.folder / "one.csv"))
        before = (disk / "measurements.csv").read_bytes()
        fill(disk)
        write(house.folder / "two.csv", MEASURED.splitlines()[0] + "\n" + "\n".join(
            f"llama3-8b,H100:8,{60000 + n},tokens/s,4096,bf16" for n in range(400)) + "\n")  # fmt: skip
        failed = house.run("benchmarks", "add", str(house.folder / "two.csv"))
        same = (disk / "measurements.csv").read_bytes() == before
        left = [file.name for file in disk.iterdir() if file.name.startswith(".")]
        (disk / "filler").unlink()
        again = house.run("benchmarks", "list", "--own", "--format", "json")
        fine = failed.returncode == 2 and same and not left and again.returncode == 0
        return Row("disk full during `benchmarks add`", None, "nothing: the file is as before",
                   f"exit {failed.returncode}: {last(failed.stderr)}; again once there is room", fine)  # fmt: skip


def read_only_home(house: House) -> Row:
    """Everything that only reads, with a home that cannot be written; then what writes says why it cannot."""
    with small_disk(house.folder / "data", "8m") as disk:
        house.refresh()
        house.run("keys", "add", "nightly")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        try:
            plan = house.run("plan", "--model", "llama3-8b", "--tokens", "10M", "--method", "lora", "--cloud", "azure")
            wrote = house.refresh()
            with house.serve() as one, Load([one.url], house.source) as load:
                ready = one.until(shows(one.url, 0), 30)
                time.sleep(3)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    fine = plan.returncode == 0 and ready < 30 and wrote.returncode != 0 and "Traceback" not in wrote.stderr
    return Row("home is read-only", load, "nothing", f"plans and server go on; refresh: {last(wrote.stderr)}",
               fine and sound(load, refused=0))  # fmt: skip


# --- clocks and sources ---------------------------------------------------------------------------------------------


def clock_jump(house: House) -> Row:
    """A refresh on a machine whose clock runs a year ahead, then one on a right clock."""
    house.refresh()
    with house.serve() as one:
        one.until(shows(one.url, 0), 30)
        with Load([one.url], house.source) as load:
            house.source.step = 1
            house.refresh(ESTIMATOR_NOW=(datetime.now(UTC) + timedelta(days=365)).isoformat())
            ahead = one.until(shows(one.url, 1), 30)
            house.source.step = 2
            house.refresh()
            back = one.until(shows(one.url, 2), 30)
        _, body = asked(f"{one.url}/v1/offers?cloud=azure&region=eastus&limit=5")
        now = datetime.now(UTC).isoformat()
        dated = all(offer["observed_at"] <= now for offer in body["offers"] if offer["source"] == "azure:retail")
    return Row("clock a year ahead for one refresh", load, "nothing",
               f"shown after {seconds(ahead)}; the next refresh redates and replaces, {seconds(back)}",
               dated and ahead < 30 and back < 30 and sound(load, refused=0))  # fmt: skip


def source_fault(mode: str, words: str) -> Callable[[House], Row]:
    """A source that misbehaves: the last good set stays, its failure is told, and it is replaced once all is well."""

    def strike(house: House) -> Row:
        house.refresh()
        with house.serve() as one:
            one.until(shows(one.url, 0), 30)
            with Load([one.url], house.source) as load:
                house.source.step, house.source.mode = 1, mode
                began = time.monotonic()
                failed = house.refresh()
                took = time.monotonic() - began
                time.sleep(3)
                still = shown(one.url) == price("Standard_NC4as_T4_v3", "on-demand", 0)
                house.source.mode = "good"
                again = house.refresh()
                back = one.until(shows(one.url, 1), 60)
        return Row(words, load, "nothing",
                   f"refresh exits {failed.returncode} after {took:.0f} s; next one in {seconds(back)}",
                   failed.returncode == 1 and still and again.returncode == 0 and back < 60
                   and sound(load, refused=0))  # fmt: skip

    return strike


# --- processes ------------------------------------------------------------------------------------------------------


def worker_killed(house: House) -> Row:
    """kill -9 of one of two workers."""
    house.refresh()
    with house.serve("--workers", "2") as one:
        one.until(lambda: len(one.children()) == 2, 30)
        one.until(shows(one.url, 0), 30)
        with Load([one.url], house.source) as load:
            time.sleep(3)
            victim = one.children()[0]
            os.kill(victim, signal.SIGKILL)
            back = one.until(lambda: len(one.children()) == 2 and victim not in one.children(), 60)
            time.sleep(3)
    return Row("kill -9 of one of two workers", load, "requests that it was answering (at most its connections)",
               f"another in its place after {seconds(back)}", back < 60 and sound(load, cut=2))  # fmt: skip


def leader_killed(house: House) -> Row:
    """kill -9 of the process that fetches, in the middle of it; two replicas with a background refresh."""
    with cluster(house) as (_, url):
        house.refresh()
        often = {"ESTIMATOR_REFRESH_MINUTES": "0.1", "ESTIMATOR_REFRESH_CLOUDS": "azure"}
        with house.serve(**often) as one, house.serve(**often) as two, Load([one.url, two.url], house.source) as load:
            one.until(shows(one.url, 0), 30)
            house.source.mode, house.source.step = "hang", 1
            fetching = one.until(lambda: holders(url) > 0, 60)
            time.sleep(2)
            leaders = holders(url)
            for pid in fetchers(one) + fetchers(two):
                os.kill(pid, signal.SIGKILL)
            house.source.mode = "good"
            back = max(one.until(shows(one.url, 1), 90), two.until(shows(two.url, 1), 90))
        before = rows_of(url)[0]
    return Row("kill -9 of the leader while it fetches", load, "nothing: last good sets stay",
               f"the next one that looks fetches; new prices {seconds(back)} after",
               fetching < 60 and leaders == 1 and back < 90 and before > 0 and sound(load, refused=0))  # fmt: skip


def holders(url: str) -> int:
    """How many processes hold the lock of the leader."""
    from sqlalchemy import create_engine, text

    from pricing.store_leader import REFRESH_LOCK

    engine = create_engine(url)
    with engine.connect() as connection:
        sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = :lock AND granted"
        found: int = connection.execute(text(sql), {"lock": REFRESH_LOCK}).scalar_one()
    engine.dispose()
    return found


def fetchers(served: Served) -> list[int]:
    """Pids of the refreshes that a server has begun."""
    text = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text()
    every = [int(pid) for task in Path(f"/proc/{served.process.pid}/task").iterdir()
             for pid in (task / "children").read_text().split()]  # fmt: skip
    return [pid for pid in dict.fromkeys([*map(int, text.split()), *every]) if "refresh" in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def rolling_upgrade(house: House) -> Row:
    """An old replica beside a new one on the schema that the new one has made."""
    old = house.folder / "old"
    old.mkdir()
    archive = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(old)], input=archive, check=True)
    with cluster(house) as (_, url):
        earlier = House(house.folder, house.source, house.environment, old)
        earlier.refresh()
        key = earlier.run("keys", "add", "nightly").stdout.strip()
        with earlier.serve() as before:
            before.until(shows(before.url, 0), 60)
            with Load([before.url], house.source) as load:
                migrated = house.run("prices", "migrate")
                with house.serve() as now:
                    load.urls.append(now.url)
                    house.source.step = 1
                    by_new = house.refresh()
                    seen = max(before.until(shows(before.url, 1), 60), now.until(shows(now.url, 1), 60))
                    house.source.step = 2
                    by_old = earlier.refresh()
                    both = max(before.until(shows(before.url, 2), 60), now.until(shows(now.url, 2), 60))
                    load.urls = [before.url]  # the new one is stopped here, and not by the fault
                    time.sleep(2)
        kept = rows_of(url)[1] == 1 and key.startswith("est_")
    fine = kept and max(seen, both) < 60 and {migrated.returncode, by_new.returncode, by_old.returncode} == {0}
    return Row("old and new version on one database", load, "nothing", "none needed: each reads what the other fetches",
               fine and sound(load, refused=0))  # fmt: skip


def corrupt_measurements(house: House) -> Row:
    """Garbage in the file of kept measurements."""
    house.refresh()
    write(house.folder / "rows.csv", MEASURED)
    house.run("benchmarks", "add", str(house.folder / "rows.csv"))
    file = house.folder / "data" / "measurements.csv"
    good = file.read_bytes()
    with house.serve() as one, Load([one.url], house.source) as load:
        file.write_bytes(good[:-20] + b"\xff\x00 garbage")
        told = one.until(lambda: one.says("kept measurements cannot be used"), 30)
        plan = house.run("plan", "--model", "llama3-8b", "--tokens", "10M", "--method", "lora")
        _, body = asked(f"{one.url}/v1/plan", {"model": "llama3-8b", "method": "lora", "tokens": "77M"})
        warned = any("measurements" in words for words in body.get("warnings", []))
        file.write_bytes(good)
        back = one.until(lambda: not asked_warnings(one), 30)
    return Row("kept measurements overwritten with garbage", load, "nothing: the file is left as it is",
               f"said in the log and every plan ({seconds(told)}); `plan` exits {plan.returncode} with the line; "
               f"leans on them again {seconds(back)} after it is mended",
               told < 30 and warned and plan.returncode == 2 and back < 30 and sound(load, refused=0))  # fmt: skip


def asked_warnings(served: Served) -> list[str]:
    _, body = asked(f"{served.url}/v1/plan", {"model": "llama3-8b", "method": "lora", "tokens": "78M"})
    return [words for words in body.get("warnings", []) if "measurements" in words]


# --- tools ----------------------------------------------------------------------------------------------------------


def sound(load: Load, refused: int | None = None, cut: int = 0) -> bool:
    """No wrong number, no connection without an answer beyond `cut`, and no more refusals than `refused`."""
    for words in load.wrong[:5]:
        print(f"  wrong: {words}", file=sys.stderr)
    return not load.wrong and load.cut <= cut and load.good > 0 and (refused is None or load.refused <= refused)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:160]


@contextmanager
def cluster(house: House) -> Iterator[tuple[Cluster, str]]:
    """A PostgreSQL of its own, whose URL every process of the house gets."""
    binaries = _binaries()
    assert binaries is not None, "needs PostgreSQL"
    database = Cluster(binaries)
    url = database.new_database()
    house.environment["ESTIMATOR_DATABASE_URL"] = url
    try:
        yield database, url
    finally:
        del house.environment["ESTIMATOR_DATABASE_URL"]
        database.stop()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of so many bytes at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave no room."""
    with (disk / "filler").open("wb", buffering=0) as stream:
        try:
            while stream.write(b"\0" * 4096):
                pass
        except OSError:
            return


FAULTS: dict[str, Callable[[House], Row]] = {
    "postgres": postgres_stopped,
    "redis": redis_gone,
    "disk-refresh": disk_full_refresh,
    "disk-measurements": disk_full_measurements,
    "clock": clock_jump,
    "source-hangs": source_fault("hang", "price source hangs"),
    "source-garbage": source_fault("garbage", "price source returns garbage"),
    "source-tenfold": source_fault("tenfold", "price source says ten times the price"),
    "source-zero": source_fault("zero", "price source says 0"),
    "worker": worker_killed,
    "leader": leader_killed,
    "corrupt-database": corrupt_database,
    "corrupt-measurements": corrupt_measurements,
    "read-only": read_only_home,
    "upgrade": rolling_upgrade,
}


def main() -> int:
    words = sys.argv[1:]
    if "-h" in words or "--help" in words:
        print(__doc__)
        return 0
    rows = []
    print("| fault, under load | good | refused | cut | wrong | lost | recovery | as it should be |", flush=True)
    print("| --- | ---: | ---: | ---: | ---: | --- | --- | --- |", flush=True)
    for name, strike in FAULTS.items():
        if words and not any(word in name for word in words):
            continue
        folder = Path(tempfile.mkdtemp(prefix="house-"))
        try:
            row = strike(House(folder, Source()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        rows.append(row)
        print(row.line(), flush=True)
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
