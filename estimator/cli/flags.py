"""The flags that many commands share, and the surroundings they make with the environment (flags win)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.settings import Settings, overrides_file, settings

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="table, json, csv, markdown; plan, estimate and listings also xlsx.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead of standard output.", show_default=False),
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Touch no network; use what is stored or shipped.")]
PlainOption = Annotated[bool, typer.Option("--no-color", help="No colour (also: NO_COLOR).")]
MaxAgeOption = Annotated[
    str | None,
    typer.Option("--max-age", metavar="DURATION", help="Use no price older than this: 48h, 7d.", show_default=False),
]

OverridesOption = Annotated[
    str | None,
    typer.Option(
        "--overrides",
        metavar="FILE",
        help="What you pay otherwise than the list says (YAML); none: list prices.",
        show_default=False,
    ),
]


def surroundings(
    *, offline: bool = False, no_color: bool = False, output: Path | None = None, overrides: str | None = None
) -> Settings:
    """The environment's settings with the shared flags laid over them."""
    found = settings()
    to_file = output is not None and str(output) != "-"
    return replace(
        found,
        offline=found.offline or offline,
        overrides=found.overrides if overrides is None else overrides_file(overrides, found.data_dir),
        color=found.color and not no_color and not to_file,
        width=None if to_file else found.width,
    )
