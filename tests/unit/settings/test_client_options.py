"""Options of the client in broker_url, and the settings that override them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms import ConnectionFactory as BlockingConnectionFactory
from pyjms.app.objects import make_client_factory
from pyjms.client.factory import ConnectionFactory
from pyjms.client.options import ClientOptions
from pyjms.errors import ConfigurationException
from pyjms.settings import load_settings

URL = (
    "tcp://localhost:61616?jms.sendTimeout=700&jms.closeTimeout=800&jms.nonBlockingRedelivery=true"
)


def options(tmp_path: Path, text: str, section: str) -> ClientOptions:
    path = tmp_path / "application.yaml"
    path.write_text(text, encoding="utf-8")
    settings = load_settings(path)
    broker = settings.activemq if section == "activemq" else settings.brokers["other"]
    return make_client_factory(broker).options


@pytest.mark.parametrize("section", ["activemq", "brokers"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], (0.7, 0.8, True)),
        (["send_timeout: 2s"], (2.0, 0.8, True)),
        (["close_timeout: 0", "non_blocking_redelivery: false"], (0.7, None, False)),
        (["send_timeout: 0"], (None, 0.8, True)),
    ],
)
def test_only_settings_that_are_set_override_the_url(
    tmp_path: Path, section: str, lines: list[str], expected: tuple[Any, ...]
) -> None:
    indent = "  " if section == "activemq" else "    "
    head = "activemq:\n" if section == "activemq" else "brokers:\n  other:\n"
    text = head + "".join(f"{indent}{line}\n" for line in [f"broker_url: {URL}", *lines])
    found = options(tmp_path, text, section)
    assert (found.send_timeout, found.close_timeout, found.non_blocking_redelivery) == expected


def test_without_url_options_the_defaults_apply(tmp_path: Path) -> None:
    found = options(tmp_path, "activemq:\n  broker_url: tcp://localhost:61616\n", "activemq")
    assert (found.send_timeout, found.close_timeout, found.non_blocking_redelivery) == (
        None, 15.0, False,
    )  # fmt: skip


@pytest.mark.parametrize("key", ["user", "user_name"])
def test_both_spellings_of_the_user(tmp_path: Path, key: str) -> None:
    path = tmp_path / "application.yaml"
    text = f"activemq:\n  broker_url: tcp://localhost:1\n  {key}: anna\n  password: x\n"
    path.write_text(text, encoding="utf-8")
    assert make_client_factory(load_settings(path).activemq).user_name == "anna"
    keywords: Any = {key: "anna"}
    assert ConnectionFactory("tcp://localhost:1", **keywords).user_name == "anna"
    assert BlockingConnectionFactory("tcp://localhost:1", **keywords).user_name == "anna"


def test_one_spelling_of_the_user_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "application.yaml"
    path.write_text("activemq:\n  user: a\n  user_name: b\n", encoding="utf-8")
    with pytest.raises(ConfigurationException, match="are the same"):
        load_settings(path)
    with pytest.raises(TypeError, match="are the same"):
        ConnectionFactory("tcp://localhost:1", user="a", user_name="b")
