"""Rules for every test of the house."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
    """Where CI=true a test that lacks something of the system fails: there is no silent skip of what must be checked.

    Such a skip gives a reason that begins with `needs`.
    """
    report: pytest.TestReport = yield
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if reason.removeprefix("Skipped: ").startswith("needs"):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped on CI: {reason}"
    return report
