"""`pyjms broker config check`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.kit.processes.command_line import Result


def test_a_right_configuration(tmp_path: Path, pyjms_broker: Callable[..., Result]) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text('broker_name: shop\nconnectors: [{uri: "tcp://127.0.0.1:61616"}]\n')
    done = pyjms_broker("config", "check", file)
    assert done.stdout == f"{file} is right: broker shop at tcp://127.0.0.1:61616\n"
    assert [*tmp_path.iterdir()] == [file]


def test_all_problems_are_told(tmp_path: Path, pyjms_broker: Callable[..., Result]) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text("brokername: shop\npersistent: perhaps\n")
    done = pyjms_broker("config", "check", file)
    assert done.exit_code == 2
    assert f"{file}:1: brokername" in done.stderr
    assert f"{file}:2: persistent" in done.stderr


def test_activemqs_configuration(tmp_path: Path, pyjms_broker: Callable[..., Result]) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text(
        '<beans xmlns="http://www.springframework.org/schema/beans">'
        '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="${name}"/></beans>'
    )
    done = pyjms_broker("config", "check", file, "-D", "name=old")
    assert done.stdout == f"{file} is right: broker old at no connector\n"
