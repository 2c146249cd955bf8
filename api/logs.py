"""What does a server write about itself? One line an event: JSON for machines, readable on a terminal, no secrets.

Code logs by the standard library; structlog makes the lines. Every line inside a request carries its `request_id`.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from api.problems import REQUEST_ID

Format = Literal["auto", "json", "console"]
KEY = re.compile(r"(est_[0-9a-f]{12})_[A-Za-z0-9_-]+")
PASSWORD = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+(?=@)")


def config(form: Format = "auto", level: str = "info") -> dict[str, Any]:
    """What `logging.config.dictConfig` takes: everything on standard error, in one form."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": "api.logs.formatter", "form": form}},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["lines"], "level": level.upper()},
        "loggers": {
            # The server's own lines say nothing that ours do not; libraries speak up when something is wrong
            "uvicorn.access": {"level": "CRITICAL", "propagate": False},
            **{name: {"level": "WARNING"} for name in ("httpx", "httpcore", "botocore", "urllib3", "alembic")},
        },
    }


def formatter(form: Format = "auto") -> logging.Formatter:
    """Lines of JSON, or coloured ones for people; `auto` looks whether a person reads along."""
    people = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        with_request,
    ]
    ends: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if people:
        plain = structlog.dev.plain_traceback  # the other ones show local variables, and so keys
        ends += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    else:
        ends += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*ends, _without_secrets])


def with_request(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The id of the request that is being answered."""
    name = REQUEST_ID.get()
    if name is not None:
        event.setdefault("request_id", name)
    event.pop("color_message", None)  # uvicorn's line once more, with escapes
    return event


def _without_secrets(_: WrappedLogger, __: str, rendered: Any) -> str:
    """The last step: keys and the passwords of addresses are cut out of whatever text got them in."""
    return masked(rendered)


def masked(text: str) -> str:
    """Text without API keys and passwords.

    >>> masked("postgresql://me:hush@db/x est_0123456789ab_" + "s" * 43)
    'postgresql://me:***@db/x est_0123456789ab_***'
    """
    return PASSWORD.sub(r"\1:***", KEY.sub(r"\1_***", text))
