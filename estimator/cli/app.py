"""Which commands are there? Each lives in its own file and loads what it needs only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from estimator.cli.benchmarks import benchmarks
from estimator.cli.catalogue import gpus, instances, models
from estimator.cli.diff import diff
from estimator.cli.follow import reconcile, track
from estimator.cli.offers import offers_command
from estimator.cli.plan import estimate, plan
from estimator.cli.predict import predict
from estimator.cli.prices import app as prices
from estimator.cli.serve import serve
from estimator.cli.tokens import tokens

app = typer.Typer(
    help="Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: name.replace("_", "-"),  # --seq_len, as the key is written in a file
    },
)


def _version(wanted: bool) -> None:
    if wanted:
        from estimator.cli.main import version

        print(version())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?"""


app.command()(plan)
app.command()(estimate)
app.command()(predict)
app.command()(diff)
app.command()(track)
app.command()(reconcile)
app.command("offers")(offers_command)
app.command()(instances)
app.command()(gpus)
app.command()(models)
app.command()(tokens)
app.add_typer(benchmarks, name="benchmarks")
app.add_typer(prices, name="prices")
app.command()(serve)
