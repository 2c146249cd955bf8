"""Every manifest keeps to the schema of Kubernetes, and what runs has no more rights than it needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.29", "1.37")  # the oldest and the newest that are promised


def manifests() -> list[dict[str, Any]]:
    files = [path for path in sorted(FOLDER.glob("*.yaml")) if path.name != "kustomization.yaml"]
    return [document for path in files for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests() if manifest["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    """The pod templates of everything that runs."""
    found = [manifest["spec"]["template"] for manifest in of_kind("Deployment")]
    return found + [manifest["spec"]["jobTemplate"]["spec"]["template"] for manifest in of_kind("CronJob")]


def containers() -> list[dict[str, Any]]:
    return [each for pod in pods() for key in ("initContainers", "containers") for each in pod["spec"].get(key, [])]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_keeps_to_the_schema(version: str) -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_that_does_not_is_found() -> None:
    (deployment,) = of_kind("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["readOnlyRootFilesytem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


def test_the_kustomization_names_every_file_and_the_image() -> None:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    assert {path.name for path in FOLDER.glob("*.yaml")} == {"kustomization.yaml", *named["resources"]}
    assert {each["image"] for each in containers()} == {image["name"] for image in named["images"]}


def test_kustomize_renders_it() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl (Debian package kubernetes-client)")
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=True, timeout=60)
    rendered = list(yaml.safe_load_all(done.stdout))
    assert sorted(m["kind"] for m in rendered) == sorted(m["kind"] for m in manifests())
    assert {m["metadata"].get("namespace") for m in rendered if m["kind"] != "Namespace"} == {"gpu-cost-estimator"}


def test_nothing_runs_as_root_or_writes_its_root() -> None:
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["spec"]["automountServiceAccountToken"]
        assert {volume["name"] for volume in pod["spec"]["volumes"]} == {"data", "tmp"}
    for each in containers():
        rights = each["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {mount["mountPath"] for mount in each["volumeMounts"]} == {"/data", "/tmp"}
        assert "memory" in each["resources"]["limits"]


def test_requests_are_watched_by_what_the_server_answers() -> None:
    (deployment,) = of_kind("Deployment")
    (served,) = deployment["spec"]["template"]["spec"]["containers"]
    paths = {probe: served[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > 5 + 30  # preStop, then ESTIMATOR_SHUTDOWN_SECONDS
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_selectors_find_the_pods() -> None:
    labels = [pod["metadata"]["labels"] for pod in pods()]
    selectors = [m["spec"]["selector"] for m in of_kind("Service")]
    selectors += [m["spec"]["selector"]["matchLabels"] for m in of_kind("PodDisruptionBudget") + of_kind("Deployment")]
    selectors += [m["spec"]["podSelector"].get("matchLabels", {}) for m in of_kind("NetworkPolicy")]
    for selector in selectors:
        assert any(selector.items() <= label.items() for label in labels), selector


def test_the_autoscaler_looks_at_latency_and_leaves_the_budget_a_pod_to_take() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    names = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"] if metric["type"] == "Pods"]
    assert "estimator_plan_seconds_p95" in names
    assert scaler["spec"]["minReplicas"] > of_kind("PodDisruptionBudget")[0]["spec"]["maxUnavailable"]


def test_only_the_refresh_reaches_the_clouds_and_has_their_credentials() -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind("NetworkPolicy")}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    ports = {
        name: {port["port"] for rule in spec.get("egress", []) for port in rule["ports"]}
        for name, spec in policies.items()
    }
    assert ports == {"nothing": set(), "estimator": {53, 5432, 6379}, "refresh": {53, 5432, 443}}
    assert "ingress" not in policies["refresh"]
    secrets = {
        pod["metadata"]["labels"]["app"]: {
            s["secretRef"]["name"] for c in pod["spec"]["containers"] for s in c["envFrom"] if "secretRef" in s
        }
        for pod in pods()
    }
    assert secrets == {"estimator": {"estimator"}, "refresh": {"estimator", "estimator-clouds"}}


def test_settings_of_the_config_map_exist() -> None:
    from api.settings import Settings

    (settings,) = of_kind("ConfigMap")
    ours = [name for name in settings["data"] if name.startswith("ESTIMATOR_")]
    assert {name.removeprefix("ESTIMATOR_").lower() for name in ours} <= set(Settings.model_fields)
    Settings(**{name.removeprefix("ESTIMATOR_").lower(): settings["data"][name] for name in ours})
