"""The Compose file and the Kubernetes manifests: their schemas, and what they promise.

The schemas in tests/data/schemas are those of the Compose specification and of Kubernetes 1.33.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from pyjms.settings import load_settings
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.clients.checks import exchange_message
from tests.kit.processes.children import ROOT
from tests.kit.web.sites import WebBroker

COMPOSE, KUBERNETES = ROOT / "config" / "compose", ROOT / "config" / "kubernetes"
SCHEMAS = ROOT / "tests" / "data" / "schemas"
PASSWORDS = {"ADMIN_PASSWORD": "a", "SHOP_PASSWORD": "s", "MONITOR_PASSWORD": "m"}
ANY_PORT = {"OPENWIRE_PORT": "0", "WEB_PORT": "0"}


def _document(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return _document(COMPOSE / "compose.yaml")


def _manifests() -> list[dict[str, Any]]:
    text = (KUBERNETES / "broker.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def _manifest(kind: str, name: str = "broker") -> dict[str, Any]:
    (found,) = [
        each for each in _manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def _problems(schema: dict[str, Any], document: object) -> list[str]:
    validator = jsonschema.validators.validator_for(schema)(schema)
    return [f"{each.json_path}: {each.message[:200]}" for each in validator.iter_errors(document)]


# Compose


def test_the_compose_file_is_valid(compose: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / "compose.json").read_text(encoding="utf-8"))
    assert _problems(schema, compose) == []
    wrong = {**compose, "services": {"broker": {"image": "x", "helthcheck": {}}}}
    assert _problems(schema, wrong)


def test_all_files_of_the_compose_file_exist(compose: dict[str, Any]) -> None:
    sources = [
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
    ]
    files = [each for each in sources if each.startswith(".")]
    assert len(files) == 7
    assert [each for each in files if not (COMPOSE / each).is_file()] == []
    named = {each for each in sources if not each.startswith(".")}
    assert named == compose["volumes"].keys()


def test_no_password_has_a_default(compose: dict[str, Any]) -> None:
    text = json.dumps(compose)
    assert set(re.findall(r"\$\{(\w+):\?", text)) == PASSWORDS.keys()
    assert set(re.findall(r"\$\{(\w+)", text)) == PASSWORDS.keys()


def test_prometheus_reads_the_services_and_the_rules(compose: dict[str, Any]) -> None:
    scraped = _document(COMPOSE / "prometheus.yaml")
    jobs = {each["job_name"]: each for each in scraped["scrape_configs"]}
    assert jobs["broker"]["static_configs"] == [{"targets": ["broker:8161"]}]
    assert jobs["orders"]["static_configs"] == [{"targets": ["orders:8081"]}]
    assert jobs["broker"]["basic_auth"]["password_file"] == "/run/secrets/monitor_password"
    mounted = [each.split(":")[1] for each in compose["services"]["prometheus"]["volumes"]]
    assert set(scraped["rule_files"]) <= set(mounted)


async def test_the_broker_of_the_compose_file_has_its_users(tmp_path: Path) -> None:
    environment = {**PASSWORDS, **ANY_PORT, "BROKER_DATA": str(tmp_path)}
    settings = load_broker_settings(COMPOSE / "broker.yaml", environ=environment)
    async with BrokerService.from_settings(settings) as service:
        (connector,) = service.connectors
        url = connector.connect_uri
        await exchange_message(url, "orders.new", "shop", "s")
        site = WebBroker(service)
        for user, password, path, expected in (
            ("monitor", "m", "/metrics", 200),
            ("shop", "s", "/metrics", 403),
            ("admin", "a", "/admin/", 200),
        ):
            async with site.client(user, password) as client:
                assert (await client.get(path)).status_code == expected


def test_the_application_of_the_compose_file_finds_the_broker(compose: dict[str, Any]) -> None:
    service = compose["services"]["orders"]
    environment = {**service["environment"], "PYJMS_ACTIVEMQ__PASSWORD": "s"}
    settings = load_settings(environ=environment)
    assert settings.activemq.broker_url == "failover:(tcp://broker:61616)"
    assert service["command"][:3] == ["pyjms", "run", "orders"]
    assert f"127.0.0.1:{service['command'][4]}" in service["healthcheck"]["test"][3]


# Kubernetes


def test_the_manifests_are_valid() -> None:
    schema = json.loads((SCHEMAS / "kubernetes.json").read_text(encoding="utf-8"))

    def problems(manifest: dict[str, Any]) -> list[str]:
        kind = schema["kinds"][manifest["kind"]]
        whole = {"$schema": schema["$schema"], "$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]}
        return _problems(whole, manifest)

    assert [problem for each in _manifests() for problem in problems(each)] == []
    assert problems({**_manifest("StatefulSet"), "spek": {}})


def _pod() -> dict[str, Any]:
    found: dict[str, Any] = _manifest("StatefulSet")["spec"]["template"]["spec"]
    return found


def test_the_services_find_the_pod() -> None:
    labels = _manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    (container,) = _pod()["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    services = [each for each in _manifests() if each["kind"] == "Service"]
    assert len(services) == 2
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    assert _manifest("StatefulSet")["spec"]["serviceName"] == "broker-pods"


def test_volumes_and_mounts_belong_together() -> None:
    pod = _pod()
    claims = _manifest("StatefulSet")["spec"]["volumeClaimTemplates"]
    volumes = [each["name"] for each in pod["volumes"]]
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert {*volumes, *(each["metadata"]["name"] for each in claims)} == mounts.keys()
    assert mounts["config"]["subPath"] in _manifest("ConfigMap")["data"]


def test_the_pod_is_the_user_of_the_image() -> None:
    user = _pod()["securityContext"]["runAsUser"]
    image = (ROOT / "config" / "Containerfile").read_text(encoding="utf-8")
    assert f"USER {user}\n" in image


@pytest.fixture
def users(tmp_path: Path) -> Path:
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "users.properties").write_text("admin=a\n", encoding="utf-8")
    (folder / "groups.properties").write_text("admins=admin\n", encoding="utf-8")
    return folder


def _probes() -> Iterator[tuple[str, str]]:
    (container,) = _pod()["containers"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[name]["httpGet"]["port"] == "web"
        yield name, container[name]["httpGet"]["path"]


async def test_the_broker_of_the_config_map_answers_the_probes(tmp_path: Path, users: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(_manifest("ConfigMap")["data"]["broker.yaml"], encoding="utf-8")
    environment = {**ANY_PORT, "BROKER_DATA": str(tmp_path / "data"), "USERS": str(users)}
    settings = load_broker_settings(file, environ=environment)
    async with BrokerService.from_settings(settings) as service:
        async with WebBroker(service).client() as client:
            assert {name: (await client.get(path)).status_code for name, path in _probes()} == {
                "startupProbe": 200,
                "livenessProbe": 200,
                "readinessProbe": 200,
            }
        (connector,) = service.connectors
        await exchange_message(connector.connect_uri, "orders", "admin", "a")
