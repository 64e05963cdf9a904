"""Spring Boot's application.yml: it is told that it is not read, and can be converted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pyjms.cli.main import app
from pyjms.errors import ConfigurationException
from pyjms.settings import load_settings
from pyjms.settings.spring import convert_spring_file

_YML = """spring:
  activemq:
    broker-url: tcp://mq:61616
    password: "0123"
    packages: {trust-all: true}
    pool: {enabled: true, idle-timeout: 30000}
  jms:
    listener: {concurrency: 3, acknowledge-mode: client, receive-timeout: PT1M2.5S}
    template: {delivery-mode: non-persistent, time-to-live: 1500, priority: 7}
    nonsense: 1
  lifecycle.timeout-per-shutdown-phase: 10s
server: {port: 8080}
management.server: {port: 8081, address: 0.0.0.0}
management.endpoints.web.exposure.include: health
logging.level.root: info
logging.level.com.acme: debug
shop:
  queue: orders.new
  url: ${SHOP_URL:http://localhost}
---
spring.config.activate.on-profile: prod
spring.activemq.broker-url: failover:(ssl://a:61617,ssl://b:61617)
"""


@pytest.fixture
def yml(tmp_path: Path) -> Path:
    path = tmp_path / "application.yml"
    path.write_text(_YML, encoding="utf-8")
    return path


def test_keys_get_their_names_and_units(yml: Path) -> None:
    files = convert_spring_file(yml).files()
    assert yaml.safe_load(files["application.yaml"]) == {
        "activemq": {
            "broker_url": "tcp://mq:61616",
            "password": "0123",
            "pool": {"enabled": True, "idle_timeout": "30000ms"},
        },
        "jms": {
            "listener": {
                "min_concurrency": 3,
                "session": {"acknowledge_mode": "client"},
                "receive_timeout": "62.5s",
            },
            "template": {
                "delivery_mode": "non_persistent",
                "time_to_live": "1500ms",
                "priority": 7,
            },
        },
        "lifecycle": {"timeout_per_shutdown_phase": "10s"},
        "health": {"port": 8081, "host": "0.0.0.0"},
        "logging": {"root": "INFO"},
        "app": {"shop": {"queue": "orders.new", "url": "${SHOP_URL:http://localhost}"}},
    }
    assert yaml.safe_load(files["application-prod.yaml"]) == {
        "activemq": {"broker_url": "failover:(ssl://a:61617,ssl://b:61617)"}
    }


def test_every_other_key_is_a_finding_with_its_line(yml: Path) -> None:
    found = [text.removeprefix(f"{yml}:") for text in convert_spring_file(yml).findings]
    assert [text.partition(": not converted: ")[0] for text in found] == [
        "5: spring.activemq.packages.trust-all",
        "10: spring.jms.nonsense",
        "12: server.port",
        "14: management.endpoints.web.exposure.include",
        "16: logging.level.com.acme",
    ]
    assert "there are no packages to trust" in found[0]


def test_properties_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text(
        "spring.activemq.brokerUrl=tcp://mq:61616\nspring.jms.template.priority=7\n"
        "spring.activemq.pool.enabled=true\nspring.jms.client-id=\napp.names[0]=a\napp.names[1]=b\n"
        "spring.jms.template.priority-x=1\n",
        encoding="utf-8",
    )
    conversion = convert_spring_file(path)
    assert conversion.values[""] == {
        "activemq": {"broker_url": "tcp://mq:61616", "pool": {"enabled": True}},
        "jms": {"template": {"priority": 7}, "client_id": ""},
        "app": {"names": ["a", "b"]},
    }
    assert conversion.findings == (
        f"{path}: spring.jms.template.priority-x: not converted: it is no setting of JMS",
    )


def test_a_value_that_is_wrong_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text("spring.jms.template.priority=11\n", encoding="utf-8")
    [finding] = convert_spring_file(path).findings
    assert "spring.jms.template.priority: not converted: " in finding
    assert "less than or equal to 9" in finding


def test_the_command_writes_files_that_are_read(
    yml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["config", "convert", "application.yml", "--output", "application.yaml"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1, result.output
    assert "application.yml:12: server.port: not converted" in result.stderr
    assert result.stderr.splitlines()[-1] == (
        "wrote application.yaml, application-prod.yaml; 5 keys not converted"
    )
    assert Path("application.yaml").stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    yml.unlink()
    settings = load_settings(profiles=["prod"], environ={})
    assert settings.activemq.broker_url == "failover:(ssl://a:61617,ssl://b:61617)"
    assert settings.jms.listener.receive_timeout == 62.5


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("jms: {client_id: x}\n", "rename it to application.yaml"),
        ("spring:\n  jms: {}\n", "pyjms config convert application.yml --output application.yaml"),
    ],
)
def test_a_file_named_as_spring_boots_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool, text: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("application.yml").write_text(text, encoding="utf-8")
    if beside:
        Path("application.yaml").write_text("jms: {client_id: y}\n", encoding="utf-8")
    with pytest.raises(ConfigurationException) as caught:
        load_settings(environ={})
    assert "application.yml is not read" in str(caught.value)
    assert hint in str(caught.value)


def test_a_file_of_that_name_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("application.yml").write_text("jms: {client_id: x}\n", encoding="utf-8")
    assert load_settings("application.yml", environ={}).jms.client_id == "x"


@pytest.mark.fact("spring-jms 8/spring.artemis.mode")
def test_artemis_has_no_section(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text("spring.artemis.mode=native\nspring.artemis.broker-url=tcp://mq:61616\n")
    conversion = convert_spring_file(path)
    assert conversion.values[""] == {}
    assert len(conversion.findings) == 2
    assert all("Artemis speaks OpenWire" in finding for finding in conversion.findings)


def test_values_that_contradict_each_other_are_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "application.yml"
    path.write_text(
        "spring.jms.listener:\n  min-concurrency: 5\n  max-concurrency: 2\n---\n"
        "spring.config.activate.on-profile: wide\n"
        "spring.jms.listener: {min-concurrency: 7, max-concurrency: 9}\n---\n"
        "spring.config.activate.on-profile: narrow\nspring.jms.listener.max-concurrency: 3\n"
    )
    conversion = convert_spring_file(path)
    key = "spring.jms.listener.max-concurrency: not converted: jms.listener: max_concurrency"
    assert conversion.findings == (
        f"{path}:3: {key} (2) is less than min_concurrency (5)",
        f"{path}:9: {key} (3) is less than min_concurrency (5)",
    )
    files = conversion.files()
    assert yaml.safe_load(files["application.yaml"]) == {
        "jms": {"listener": {"min_concurrency": 5}}
    }
    assert yaml.safe_load(files["application-wide.yaml"]) == {
        "jms": {"listener": {"min_concurrency": 7, "max_concurrency": 9}}
    }
