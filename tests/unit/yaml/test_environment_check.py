"""Variables that were meant to be settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyjms.configuration.document import Document
from pyjms.configuration.layers import RESERVED_VARIABLES, refuse_misspelt_variables
from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings, load_settings
from pyjms_broker.settings import load_broker_settings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("PYJMS_ACTIVEMQ_BROKER_URL", "did you mean PYJMS_ACTIVEMQ__BROKER_URL?"),
        ("PYJMS_ACTIVEMQ_BROKERURL", "did you mean PYJMS_ACTIVEMQ__BROKER_URL?"),
        ("PYJMS_BROKER_URL", "did you mean PYJMS_ACTIVEMQ__BROKER_URL?"),
        ("PYJMS_SPARK_MASTER", "did you mean PYJMS_SPARK__MASTER?"),
        ("PYJMS_APP_REGION", "did you mean PYJMS_APP__REGION?"),
        ("PYJMS_PIPELINES_DELAYS_SCHEMA", "did you mean PYJMS_PIPELINES__DELAYS__SCHEMA?"),
        (
            "PYJMS_LISTENERS_MY_ORDERS_AUTO_STARTUP",
            "did you mean PYJMS_LISTENERS__MY_ORDERS__AUTO_STARTUP?",
        ),
    ],
)
def test_a_variable_without_the_double_underscore_is_refused(variable: str, meant: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        load_settings(environ={variable: "1"})
    assert str(caught.value).startswith(f"environment variable {variable}: there is no such sett")
    assert meant in str(caught.value)
    assert caught.value.source == f"environment variable {variable}"


def test_what_is_near_to_no_setting_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert load_settings(environ={"PYJMS_CI_IMAGE": "1"}).activemq.broker_url is None
    assert caplog.messages == [
        "Environment variable PYJMS_CI_IMAGE is not a setting: it is ignored"
    ]


def test_every_one_is_reported() -> None:
    with pytest.raises(ConfigurationException) as caught:
        load_settings(environ={"PYJMS_ACTIVEMQ_USER": "a", "PYJMS_ACTIVEMQ_PASSWORD": "hunter2"})
    assert [line.partition("; ")[2] for line in str(caught.value).splitlines()] == [
        "did you mean PYJMS_ACTIVEMQ__PASSWORD?",
        "did you mean PYJMS_ACTIVEMQ__USER?",
    ]
    assert "hunter2" not in str(caught.value)


def test_the_broker_s_variables_are_looked_at_by_the_broker() -> None:
    environ = {"PYJMS_BROKER_PERSISTENT": "false", "PYJMS_ACTIVEMQ_USER": "the application's"}
    with pytest.raises(ConfigurationException) as caught:
        load_broker_settings(environ=environ)
    assert str(caught.value) == (
        "environment variable PYJMS_BROKER_PERSISTENT: there is no such setting; "
        "did you mean PYJMS_BROKER__PERSISTENT?"
    )
    environ = {"PYJMS_BROKER_SYSTEM_USAGE_MEMORY_LIMIT": "1mb"}
    with pytest.raises(ConfigurationException, match="PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT"):
        load_broker_settings(environ=environ)


def test_what_means_something_is_let_through(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {
        "PYJMS_SPARK_PASSWORD_1": "",
        "PYJMS_MY_TOKEN": "abc",
        "PYJMS_BROKER_SERVICE_HOST": "10.0.0.1",  # these four: Kubernetes
        "PYJMS_BROKER_SERVICE_PORT_OPENWIRE": "61616",
        "PYJMS_BROKER_PORT": "tcp://10.0.0.1:61616",
        "PYJMS_BROKER_PORT_61616_TCP_ADDR": "10.0.0.1",
        "ACTIVEMQ_BROKER_URL": "",
    }
    path = tmp_path / "application.yaml"
    path.write_text("app: {token: '${PYJMS_MY_TOKEN}'}")
    assert load_settings(path, environ=environ).app == {"token": "abc"}
    assert caplog.messages == []
    refuse_misspelt_variables(environ, "PYJMS_", PyjmsSettings, Document())
    assert "PYJMS_MY_TOKEN" in caplog.text


def test_every_variable_that_the_project_reads_is_reserved() -> None:
    """Tests and benchmarks use other prefixes: a broker would take theirs for misspelt settings."""
    read = re.compile(r"(?:environ(?:\.get\(|\[)\s*|= )\"(PYJMS_\w+[A-Z])\"")
    folders = ("pyjms", "broker", "tests", "benchmarks", "examples")
    found = {
        name
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for name in read.findall(path.read_text("utf-8"))
    }
    reserved = re.compile("|".join(name.replace("*", r"\w*") for name in RESERVED_VARIABLES))
    assert "PYJMS_CONFIG" in found
    assert {n for n in found if "__" not in n and not reserved.fullmatch(n)} == set()
