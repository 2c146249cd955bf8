"""The command line: `estimator plan`, and everything else that the API can do, without a server."""

from estimator.cli.main import main

__all__ = ["main"]
