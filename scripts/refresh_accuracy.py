"""Write api/web/accuracy.json: the cross-validated table and the residuals that the accuracy page draws.

usage: python scripts/refresh_accuracy.py      a few minutes on two cores

Residuals are those of `estimator benchmarks evaluate`: rows that were left out of the fit and of the evidence. Drawn is
a sample of at most `MOST` rows a family and split, evenly over the rows, so that the page stays small.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MOST = 300
SPLITS = ("group", "unseen-lab")
FILE = ROOT / "api" / "web" / "accuracy.json"


def main() -> int:
    """Compute and write."""
    from estimator.evaluation.evaluate import MEANING, evaluate
    from estimator.fitting.study import judged

    scores = [
        {
            "case": line.case,
            "left_out": MEANING.get(line.split, line.split),
            "groups": line.groups,
            "median": round(line.median, 1),
            "p90": round(line.p90, 1),
            "bias": round(line.bias, 1),
            "constant": round(line.constant_mfu_median, 1),
            "coverage": round(line.coverage, 3),
            "width": round(line.width, 2),
        }
        for line in evaluate().scores
    ]
    residuals = []
    for family in ("language", "classic"):
        data, _whole, left = judged(family)
        gpus = data.names("gpu")
        for split in SPLITS:
            final = left[split][1]
            rows = np.flatnonzero(np.isfinite(final))
            picked = rows[np.linspace(0, len(rows) - 1, min(MOST, len(rows))).astype(int)]
            residuals.append(
                {
                    "family": family,
                    "left_out": MEANING[split],
                    "rows": len(rows),
                    "points": [
                        [float(f"{data.throughput[i]:.4g}"), round(float(final[i]), 4), str(gpus[i])] for i in picked
                    ],
                }
            )
    FILE.write_text(json.dumps({"scores": scores, "residuals": residuals}, separators=(",", ":")) + "\n")
    print(f"{FILE.relative_to(ROOT)}: {len(scores)} lines, {sum(len(r['points']) for r in residuals)} residuals")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
