"""Which commands are there? Each lives in its own file; only the one that runs is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Name -> (module, attribute); the attribute is a function, or a Typer app with commands of its own.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "plan": ("estimator.cli.plan", "plan"),
    "estimate": ("estimator.cli.plan", "estimate"),
    "predict": ("estimator.cli.predict", "predict"),
    "diff": ("estimator.cli.diff", "diff"),
    "track": ("estimator.cli.follow", "track"),
    "reconcile": ("estimator.cli.follow", "reconcile"),
    "offers": ("estimator.cli.offers", "offers_command"),
    "instances": ("estimator.cli.catalogue", "instances"),
    "gpus": ("estimator.cli.catalogue", "gpus"),
    "models": ("estimator.cli.catalogue", "models"),
    "tokens": ("estimator.cli.tokens", "tokens"),
    "inventory": ("estimator.cli.inventory", "inventory"),
    "benchmarks": ("estimator.cli.benchmarks", "benchmarks"),
    "prices": ("estimator.cli.prices", "app"),
    "sheet": ("estimator.cli.sheet", "app"),
    "sweep": ("estimator.cli.sweep", "sweep"),
    "serve": ("estimator.cli.serve", "serve"),
    "keys": ("estimator.cli.keys", "app"),
    "mcp": ("estimator.cli.mcp", "mcp"),
}
HELP = "Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?"


class _Commands(TyperGroup):
    """Commands that all take `--offline` and `--no-color`; those to which a flag means nothing do not show it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, with the flags that it lacks."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _complete(found)
        return found


def _complete(command: Any) -> None:
    for each in getattr(command, "commands", {}).values():
        _complete(each)
    known = {name for param in command.params for name in param.opts}
    if not known.issuperset(("--offline", "--no-color")):
        command.params += [flag for flag in _flags() if known.isdisjoint(flag.opts)]


def _flags() -> list[Any]:
    from typer.main import get_command

    def flag(name: str) -> Any:
        return typer.Option(False, name, hidden=True, expose_value=False, callback=_lay_over)

    def flags(offline: bool = flag("--offline"), no_color: bool = flag("--no-color")) -> None:
        """Takes both and does nothing: the commands that they are lent to are asked for them."""

    app = typer.Typer(add_completion=False)
    app.command()(flags)
    return [param for param in get_command(app).params if "--help" not in param.opts]


def _lay_over(context: typer.Context, param: typer.CallbackParam, wanted: bool) -> None:
    """A flag wins over its variable for as long as the command runs."""
    name = {"offline": "ESTIMATOR_OFFLINE", "no_color": "NO_COLOR"}[str(param.name)]
    before = os.environ.get(name)
    if not wanted:
        return
    os.environ[name] = "1"

    def restore() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    context.call_on_close(restore)


def app_of(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands (all of them for help and completion)."""
    app = typer.Typer(
        cls=_Commands,
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "token_normalize_func": lambda name: name.replace("_", "-"),  # --seq_len, as the key is written in a file
        },
    )
    app.callback()(_root)
    for name in names:
        module, attribute = COMMANDS[name]
        command: Any = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def __getattr__(name: str) -> typer.Typer:
    """`app`, the whole command line, built when it is asked for."""
    if name == "app":
        return app_of()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version(wanted: bool) -> None:
    if wanted:
        from estimator.cli.main import version

        print(version())
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?"""
