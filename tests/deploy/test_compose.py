"""The compose file keeps to the compose specification, publishes nothing but loopback, and names what exists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from api.settings import Settings

FOLDER = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture
def compose() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


def test_it_keeps_to_the_specification(compose: dict[str, Any]) -> None:
    checked = jsonschema.validators.validator_for(schema := get_builtin_schema("vendor.compose-spec"))(schema)
    checked.validate(json.loads(json.dumps(compose)))
    compose["services"]["app"]["prots"] = []
    with pytest.raises(jsonschema.ValidationError):
        checked.validate(json.loads(json.dumps(compose)))


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in compose["services"]["database"]
    assert compose["services"]["database"]["networks"] == ["inside"]
    assert compose["networks"]["inside"] == {"internal": True}


def test_what_faces_the_world_cannot_write_its_root(compose: dict[str, Any]) -> None:
    for name in ("app", "prometheus", "grafana"):
        service = compose["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


def test_its_settings_exist_and_secrets_have_no_default(compose: dict[str, Any]) -> None:
    given = compose["services"]["app"]["environment"]
    assert {name.removeprefix("ESTIMATOR_").lower() for name in given} <= set(Settings.model_fields)
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert "${POSTGRES_PASSWORD:?" in text
    assert "${GRAFANA_PASSWORD:?" in text


def test_what_is_mounted_from_here_is_here(compose: dict[str, Any]) -> None:
    mounts = [m for s in compose["services"].values() for m in s.get("volumes", []) if m.startswith("./")]
    assert mounts
    for mount in mounts:
        assert (FOLDER / mount.split(":")[0]).is_dir(), mount


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert ":" in service["image"]
        assert not service["image"].endswith(":latest")
