"""How fast is the planner? Prints a table; every figure also as a ratio, since machines differ and are noisy.

    python benchmarks/speed.py [--repeat 7] [--json]

Rows: one estimate in process, plans over the whole snapshot in process and as a command from a cold start, inverse
questions, Monte Carlo over 500 spot offers, predicted rows a second, and candidates a second on one core. What runs in
process is counted in processor seconds, which a busy machine stretches less than the clock's; commands by the clock.
Ratios are to a bare `python -c 'import numpy, pydantic'` for commands, and to llm-analysis on the same estimate where
that package is installed.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pricing.offers import OfferTable

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
LORA = ROOT / "examples" / "lora-llama3-8b.yaml"
NOW = datetime(2026, 9, 1, tzinfo=UTC)


def seconds(action: Callable[[], object], repeat: int, clock: Callable[[], float] = time.process_time) -> float:
    """Median seconds of `repeat` calls after one that is not counted."""
    action()
    taken = []
    for _ in range(repeat):
        start = clock()
        action()
        taken.append(clock() - start)
    return statistics.median(taken)


def command(*words: str) -> Callable[[], object]:
    environment = {**os.environ, "NO_COLOR": "1", "ESTIMATOR_OFFLINE": "1", "PYTHONPATH": str(ROOT)}

    def run() -> object:
        return subprocess.run(words, check=True, capture_output=True, env=environment, cwd=ROOT)

    return run


def figures(repeat: int) -> list[dict[str, object]]:
    from estimator import Workload, estimate, plan
    from estimator.job import job_of
    from estimator.planning.machines import fleet_of, kinds_of
    from estimator.planning.search import search
    from estimator.planning.solve import SolveFor, solve
    from estimator.request.sections import Constraints
    from estimator.rows.predict import predict_rows
    from pricing.offers import current_offers

    lora = Workload(model="llama3-8b", method="lora", tokens="50M", seq_len=2048, global_batch=64)
    large = Workload(model="llama2-70b", method="pretrain", tokens="1T", seq_len=4096)
    market = current_offers(now=NOW)
    one = seconds(lambda: estimate(lora, gpus=["H100:1"], offers=market, now=NOW), repeat)
    plan_lora = seconds(lambda: plan(lora, offers=market, now=NOW), repeat)
    plan_large = seconds(lambda: plan(large, offers=market, now=NOW), repeat)

    limited = lora.model_copy(
        update={"constraints": Constraints(deadline="24h", budget=50, confidence=0.9, markets=("on-demand", "spot"))}
    )
    plan_limited = seconds(lambda: plan(limited, offers=market, now=NOW), repeat)
    solving = {what.value: seconds(partial(solve, limited, what, offers=market, now=NOW), 1) for what in SolveFor}

    import numpy as np

    job = job_of(large)
    kinds = kinds_of(market.types, np.ones(len(market.types), dtype=bool), job)
    fleet = fleet_of(kinds, job, gpu_counts={}, limits={})
    evaluated = search(job, fleet).evaluated
    searching = seconds(lambda: search(job, fleet), repeat)

    from estimator.performance import step_time
    from estimator.planning.search import constants, execution

    best = search(job, fleet)
    many = np.resize(np.arange(len(best.row)), 100_000)
    from estimator.records import pick

    hardware, layout = pick(best.hardware, many), pick(best.layout, many)
    run, fitted = execution(job), constants(job)
    stepping = seconds(lambda: step_time(job.work, hardware, layout, execution=run, constants=fitted), repeat)

    quantiles, events, off = monte_carlo(market)

    sample = ROOT / "benchmarks_db" / "data" / "measurements" / "llm.csv"
    with sample.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    predicting = seconds(lambda: predict_rows(rows), 1)

    bare = seconds(command(sys.executable, "-c", "import numpy, pydantic"), repeat, time.perf_counter)
    cold = seconds(
        command(sys.executable, "-m", "estimator", "plan", str(LORA), "--format", "json"), repeat, time.perf_counter
    )
    version = seconds(command(sys.executable, "-m", "estimator", "--version"), repeat, time.perf_counter)
    peer = llm_analysis(repeat)
    return [
        row("one estimate in process", one * 1e3, "ms", peer and one / peer, "x llm-analysis"),
        row(
            "plan, LoRA 8B, whole snapshot, in process", plan_lora * 1e3, "ms", 60 / (plan_lora * 1e3), "x target rate"
        ),
        row("plan, 70B pretraining, whole snapshot", plan_large * 1e3, "ms", 500 / (plan_large * 1e3), "x target rate"),
        row(
            "plan, deadline, budget and 90% sure, spot and front",
            plan_limited * 1e3,
            "ms",
            120 / (plan_limited * 1e3),
            "x target rate",
        ),
        *(row(f"plan --solve-for {what}", taken, "s", 1.0 / taken, "x target rate") for what, taken in solving.items()),
        row("10,000 quasi-random paths x 500 spot offers", quantiles, "s", 2.0 / quantiles, "x target rate"),
        row("10,000 seeded paths x 500, event by event", events, "s", 2.0 / events, "x target rate"),
        row("  their mean hours against the exact formula", off * 100.0, "% off", None, ""),
        row("search incl. memory and enumeration", evaluated / searching, "candidates/s", None, ""),
        row("step time alone", len(many) / stepping, "candidates/s", len(many) / stepping / 2e5, "x target"),
        row("predict", len(rows) / predicting, "rows/s", len(rows) / predicting / (10_000 / 30), "x target"),
        row("`estimator plan`, cold", cold, "s", cold / bare, "x bare import of numpy and pydantic"),
        row("`estimator --version`, cold", version, "s", version / bare, "x bare import"),
        row("python -c 'import numpy, pydantic'", bare, "s", 1.0, ""),
    ]


def monte_carlo(market: OfferTable) -> tuple[float, float, float]:
    """Seconds of 10,000 paths over 500 ways to run a job on spot: by quantiles, and with every interruption played.

    And how far the mean hours of the played paths lie from the exact expectation, the median of the 500.
    """
    import numpy as np

    from estimator import Workload
    from estimator.job import job_of
    from estimator.planning.offered import GpuFilter, offered
    from estimator.planning.ways import ways_of
    from estimator.risk.outcome import outcome_of
    from estimator.risk.renewal import best_interval, expected_hours
    from estimator.risk.simulate import event_by_event

    job = job_of(Workload(model="llama3-8b", method="lora", tokens="50M", seq_len=2048, global_batch=64))
    every = GpuFilter({}, ())
    plain = ways_of(job, offered(market, job.workload.constraints, every).table, every).plain
    spot = np.flatnonzero(plain.hazards.spot_share > 0)
    some = plain.select(spot[np.linspace(0, len(spot) - 1, 500).astype(int)])
    quick = seconds(lambda: outcome_of(some, deadline=24.0, budget=500.0, paths=10_000), 1)
    hazard, down = some.hazards.typical, some.hazards.wait.typical
    interval = np.minimum(best_interval(hazard, some.write), some.training)
    asked = (some.training, hazard, interval, some.write, down)
    start = time.process_time()
    clock, _ = event_by_event(*asked, paths=10_000, seed=1)
    played = time.process_time() - start
    return quick, played, float(np.median(np.abs(clock.mean(axis=0) / expected_hours(*asked) - 1.0)))


def row(what: str, value: float, unit: str, ratio: float | None, of: str) -> dict[str, object]:
    return {"what": what, "value": value, "unit": unit, "ratio": ratio, "ratio_of": of}


def llm_analysis(repeat: int) -> float | None:
    """Seconds of the same LoRA-sized estimate by llm-analysis, or None where it is not installed."""
    try:
        from llm_analysis.analysis import LLMAnalysis
        from llm_analysis.config import ModelConfig, get_dtype_config_by_name, get_gpu_config_by_name
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)  # it reports every step of its arithmetic
    shape = ModelConfig(  # OPT-1.3B: it takes inner widths that are multiples of the hidden size, and what fits alone
        name="opt-1.3b", num_layers=24, n_head=32, hidden_dim=2048, vocab_size=50272, max_seq_len=2048,
        num_key_value_heads=32, ffn_embed_dim=8192,
    )  # fmt: skip
    analysis = LLMAnalysis(shape, get_gpu_config_by_name("h100-sxm-80gb"), get_dtype_config_by_name("w16a16e16"))
    return seconds(lambda: analysis.training(batch_size_per_gpu=1, seq_len=2048), repeat)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = figures(options.repeat)
    if options.json:
        print(json.dumps(table, indent=2))
        return
    for line in table:
        value, ratio = line["value"], line["ratio"]
        shown = f"{value:,.0f}" if isinstance(value, float) and value >= 1000 else f"{value:.3g}"
        beside = f"{ratio:.2f} {line['ratio_of']}" if isinstance(ratio, float) else ""
        print(f"{line['what']:<52} {shown:>12} {line['unit']:<14} {beside}")


if __name__ == "__main__":
    main()
