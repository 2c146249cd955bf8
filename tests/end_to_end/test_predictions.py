"""`predict` from the command line and over HTTP."""

from __future__ import annotations

from pathlib import Path

from .conftest import CommandLine
from .test_faces import post


def test_predictions_are_the_same_from_the_command_line_and_http(
    estimator: CommandLine, server: str, tmp_path: Path
) -> None:
    rows = [
        {"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": "8", "micro_batch": "1", "seq_len": "4096"},
        {"model": "resnet50", "gpu": "A100-SXM4-40GB", "gpus": "1", "micro_batch": "256", "seq_len": ""},
        {"model": "unheard-of", "gpu": "T4", "gpus": "1", "micro_batch": "", "seq_len": ""},
    ]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n")
    done = estimator("predict", str(table), "-o", str(tmp_path / "out.csv"))
    assert "1" in done.stderr
    written = (tmp_path / "out.csv").read_text().splitlines()
    answered = post(server, "predict", {"rows": rows})["rows"]
    assert written == [",".join(answered[0]), *(",".join(row.values()) for row in answered)]
