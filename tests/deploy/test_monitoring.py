"""Dashboard and alerts ask for metrics and labels that the server really exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from api import market_metrics, metrics
from api.app import create_app
from api.settings import Settings

FOLDER = Path(__file__).resolve().parents[2] / "deploy"
OF_PROMETHEUS = {"job", "instance", "namespace", "pod"}  # labels of the scrape, not of the server
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@dataclass(frozen=True)
class Asked:
    """A metric that an expression reads, with the labels that it names."""

    name: str
    labels: frozenset[str]


def asked(expression: str) -> list[Asked]:
    return list(_walked(promql_parser.parse(expression)))


def _walked(node: Any) -> Iterator[Asked]:
    if isinstance(node, promql_parser.VectorSelector):
        yield Asked(node.name, frozenset(matcher.name for matcher in node.matchers.matchers))
        return
    for part in ("lhs", "rhs", "expr", "vector_selector", "args"):
        inner = getattr(node, part, None)
        for each in inner if isinstance(inner, list) else [] if inner is None else [inner]:
            yield from _walked(each)


def grouped(expression: str) -> set[str]:
    """Labels of `by (...)` and `on (...)`."""
    return {label.strip() for found in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in found.split(",")}


def rules() -> list[dict[str, Any]]:
    file = yaml.safe_load((FOLDER / "prometheus" / "rules.yaml").read_text(encoding="utf-8"))
    return [rule for group in file["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    file = json.loads((FOLDER / "grafana" / "dashboards" / "estimator.json").read_text(encoding="utf-8"))
    return [panel for panel in file["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    found = [rule["expr"] for rule in rules()]
    found += [target["expr"] for panel in panels() for target in panel["targets"]]
    return [expression.replace('"$job"', '".*"') for expression in found]


def documented() -> dict[str, set[str]]:
    """Every series that the server may export, with its labels."""
    found = {}
    for name, kind, labels, _ in metrics.documented():
        for suffix in SUFFIXES[kind]:
            found[name + suffix] = {*filter(None, labels.split(", ")), *({"le"} if suffix == "_bucket" else ())}
    return found | {name: set(labels) for name, (labels, _) in market_metrics.DESCRIBED.items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a server says of itself after a plan: series with their labels."""
    folder = tmp_path_factory.mktemp("server")
    with TestClient(create_app(Settings(data_dir=folder, metrics="open", require_key="never"))) as client:
        answer = client.post("/v1/plan", json={"model": "llama3-8b", "method": "lora", "tokens": "1M"})
        assert answer.status_code == 200
        text = client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_asked_for_is_one_that_the_server_has() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = documented() | {name: set() for name in (*recorded, "up")}
    for expression in expressions():
        for ask in asked(expression):
            assert ask.name in known, f"{ask.name} in {expression}"
            assert ask.labels <= known[ask.name] | OF_PROMETHEUS, expression


def test_labels_that_are_summed_over_exist() -> None:
    for expression in expressions():
        labels = set().union(*(documented().get(ask.name, set()) for ask in asked(expression)))
        if labels:
            assert grouped(expression) <= labels | OF_PROMETHEUS, expression


def test_what_a_server_exports_after_a_plan_is_what_the_dashboard_draws(exported: dict[str, set[str]]) -> None:
    asked_for = {ask for expression in expressions() for ask in asked(expression) if ask.name in exported}
    assert {ask.name for ask in asked_for} >= {
        "estimator_http_requests_total",
        "estimator_http_request_duration_seconds_bucket",
        "estimator_planner_running",
        "estimator_plan_size_plans_bucket",
        "estimator_cache_lookups_total",
        "estimator_offers",
        "estimator_price_newest_age_seconds",
        "estimator_model_info",
    }
    for ask in asked_for:
        assert ask.labels <= exported[ask.name] | OF_PROMETHEUS


def test_the_dashboard_shows_every_metric_that_an_alert_is_about() -> None:
    drawn = {ask.name for panel in panels() for target in panel["targets"] for ask in asked(target["expr"])}
    alerted = {ask.name for rule in rules() for ask in asked(rule["expr"]) if not ask.name.startswith("estimator:")}
    assert alerted - drawn - {"estimator_price_scopes"} == set()


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    about = " ".join(rule["expr"] for rule in alerts)
    for subject in ("error_ratio", "newest_age", "scopes_failing", "refresh_last_run", "dependency_up"):
        assert subject in about
    for rule in alerts:
        assert rule["labels"]["severity"] in ("page", "ticket", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]


def test_panels_do_not_overlap_and_have_titles() -> None:
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        assert panel["datasource"]["uid"] == "prometheus"
        taken |= cells
    assert len({panel["title"] for panel in panels()}) == len(panels())


def test_the_data_source_of_the_dashboard_is_provisioned() -> None:
    sources = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8"))
    providers = yaml.safe_load((FOLDER / "grafana/provisioning/dashboards/estimator.yaml").read_text(encoding="utf-8"))
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    assert [source["uid"] for source in sources["datasources"]] == ["prometheus"]
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert providers["providers"][0]["options"]["path"] in mounted
