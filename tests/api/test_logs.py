"""What a server writes: one JSON object an event, with the request's id, without secrets."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from api.logs import config, formatter
from api.problems import REQUEST_ID

KEY = "est_0123456789ab_" + "s" * 43


def line(record: logging.LogRecord, form: str = "json") -> str:
    return formatter(form).format(record)  # type: ignore[arg-type]


def record(message: str, *values: object, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("estimator.api")
    return logger.makeRecord("estimator.api", logging.INFO, __file__, 1, message, values, None, extra=extra)


def test_a_line_is_an_object_with_time_level_event_and_what_was_told_beside_it() -> None:
    found = json.loads(line(record("%s %d", "GET /healthz", 200, status=200, route="/healthz")))
    assert found["event"] == "GET /healthz 200"
    assert (found["status"], found["route"], found["level"]) == (200, "/healthz", "info")
    assert found["time"].endswith("Z")


def test_every_line_of_a_request_has_its_id() -> None:
    token = REQUEST_ID.set("abc")
    try:
        assert json.loads(line(record("planning")))["request_id"] == "abc"
    finally:
        REQUEST_ID.reset(token)
    assert "request_id" not in json.loads(line(record("planning")))


@pytest.mark.parametrize("form", ["json", "console"])
def test_keys_and_passwords_are_cut_out_of_messages_and_tracebacks(form: str) -> None:
    try:
        raise ValueError(f"cannot reach postgresql://me:hush@db/prices with {KEY}")
    except ValueError:
        fault = record("with %s", KEY)
        fault.exc_info = sys.exc_info()
    told = line(fault, form)
    assert "s" * 43 not in told
    assert "hush" not in told


def test_line_breaks_in_a_message_stay_inside_its_line() -> None:
    assert "\n" not in line(record("a\nb"))


def test_the_server_s_own_access_lines_which_hold_queries_are_off() -> None:
    assert config()["loggers"]["uvicorn.access"]["level"] == "CRITICAL"
