"""Does it stay right for a day? A day of refreshes in minutes, under load, with what must always hold checked.

usage: python benchmarks/soak.py                      30 minutes: 288 steps of 5 minutes
       python benchmarks/soak.py --minutes 3          as many steps as fit

Two workers serve from one SQLite file while its time is stepped on: each step writes a later `now` into the file of
settings, renews the workers by SIGHUP every twelfth step, lets the source move its prices, and refreshes with that
`now`. Some steps have a source that hangs, sends garbage or says ten times the price. After each step must hold:

    right     every price in every answer is one that the source has said (benchmarks/house.py)
    whole     all machines of a region and market come from one state of the source, the last good one
    dated     no price is dated after its moment, and each price's age is what the clock says
    history   the history has one row for each change of a price, and none more
    alive     no answer but 200 or a stated refusal, no connection cut
    memory    the workers' memory does not grow (MB an hour of the soak)
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.house import REGIONS, SIZES, House, Load, Served, Source, asked, step_of  # noqa: E402
from benchmarks.load import rss  # noqa: E402

START = datetime(2026, 9, 15, tzinfo=UTC)
STEP_MINUTES = 5
RENEW = 12  # steps between two renewals of the workers
BAD = ("hang", "garbage", "tenfold", "zero", "gone")


class Soak:
    """One soak: the house, its server, and what was found wrong."""

    def __init__(self, house: House, served: Served) -> None:
        self.house, self.served = house, served
        self.now = START
        self.last_good = 0
        self.fetched = 1  # good fetches, the first one included
        self.wrong: list[str] = []
        self.memory: list[tuple[float, float]] = []
        self.draw = random.Random(7)

    def step(self, number: int) -> None:
        """Five minutes: prices move, somebody fetches, everything is looked at."""
        self.now += timedelta(minutes=STEP_MINUTES)
        source = self.house.source
        source.step += 1
        source.mode = self.draw.choice(BAD[1:]) if number % 6 == 5 else "good"
        settings(self.house.folder, self.now)
        done = self.house.refresh(ESTIMATOR_NOW=self.now.isoformat())
        if done.returncode == 0:
            self.last_good, self.fetched = source.step, self.fetched + 1
        elif source.mode == "good":
            self.wrong.append(f"step {number}: a good source gave exit {done.returncode}: {done.stderr[-200:]}")
        if number % RENEW == 0:
            self.renew()
        self.served.until(lambda: self.shown() == {self.last_good}, 30)
        if self.shown() != {self.last_good}:
            self.wrong.append(f"step {number}: shown {self.shown()}, last good {self.last_good}")
        self.look(number)
        self.memory.append((time.monotonic(), rss(self.served.process.pid) / 1e6))

    def renew(self) -> None:
        """New workers in place of the old ones; they read the later `now`."""
        before = set(self.served.children())
        self.served.reload()
        self.served.until(lambda: len(now := set(self.served.children())) == 2 and not now & before, 120)

    def shown(self) -> set[int | None]:
        """From which states of the source the prices that a server shows are."""
        return {
            step_of(offer["instance_type"], offer["market"], offer["price_usd_per_hour"])
            for region in REGIONS
            for offer in self.offers(region)
            if offer["instance_type"] in SIZES
        }

    def offers(self, region: str) -> list[dict[str, object]]:
        status, body = asked(f"{self.served.url}/v1/offers?cloud=azure&region={region}&limit=1000")
        return [one for one in body["offers"] if one["source"] == "azure:retail"] if status == 200 else []

    def look(self, number: int) -> None:
        """Dates and history."""
        for region in REGIONS:
            found = self.offers(region)
            if len(found) != 2 * len(SIZES):
                self.wrong.append(f"step {number}: {region} has {len(found)} prices")
            late = [one for one in found if datetime.fromisoformat(str(one["observed_at"])) > self.now]
            if late:
                self.wrong.append(f"step {number}: {region} has prices of the future: {late[0]['observed_at']}")
        with sqlite3.connect(self.house.folder / "data" / "prices.db") as connection:
            (rows,) = connection.execute("SELECT count(*) FROM prices").fetchone()
        if rows != self.fetched * len(REGIONS) * len(SIZES) * 2:
            self.wrong.append(f"step {number}: {rows} rows of history after {self.fetched} good fetches")

    def growth(self) -> float:
        """MB an hour, over the second half."""
        half = self.memory[len(self.memory) // 2 :]
        if len(half) < 3:
            return float("nan")
        return statistics.linear_regression([t / 3600 for t, _ in half], [mb for _, mb in half]).slope


def settings(folder: Path, now: datetime) -> None:
    """The file of settings with a `now`."""
    (folder / "server.toml").write_text(f"now = {now.isoformat()}\nlook_again_seconds = 0.2\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        house = House(Path(place), Source())
        settings(house.folder, START)
        house.refresh(ESTIMATOR_NOW=START.isoformat())
        flags = ("--workers", "2", "--settings", str(house.folder / "server.toml"))
        with house.serve(*flags) as served, Load([served.url], house.source, pause=0.05) as load:
            soak = Soak(house, served)
            until, number = time.monotonic() + said.minutes * 60, 0
            while time.monotonic() < until and number < 24 * 60 // STEP_MINUTES:
                number += 1
                soak.step(number)
        wrong = soak.wrong + load.wrong
        print(
            "| steps | hours of its time | good fetches | answers | refused | cut | wrong | memory, MB | MB an hour |"
        )
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        print(
            f"| {number} | {number * STEP_MINUTES / 60:.1f} | {soak.fetched} | {load.good} | {load.refused} "
            f"| {load.cut} | {len(wrong)} | {soak.memory[-1][1]:.0f} | {soak.growth():.1f} |"
        )
        for words in wrong[:10]:
            print(f"wrong: {words}", file=sys.stderr)
        return 1 if wrong or load.cut else 0


if __name__ == "__main__":
    raise SystemExit(main())
