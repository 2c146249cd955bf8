"""Nothing that a client can send makes the server fail, and every answer is what the OpenAPI document promises."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.app import create_app
from api.settings import Settings

from .conftest import NOW

SHEETS = (
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.spreadsheet",
)


@schemathesis.serializer(*SHEETS)
def as_it_is(_: schemathesis.SerializationContext, value: Any) -> Any:
    return value if isinstance(value, bytes) else str(value).encode()


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(now=NOW, offline=True)))


@pytest.mark.filterwarnings("ignore:Skipped test cases with unsupported payload")  # workbooks are fuzzed elsewhere
@schema.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_operation_keeps_its_promises(case: schemathesis.Case) -> None:
    # A name that no table knows has the right shape and is refused all the same, so that check cannot hold.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
