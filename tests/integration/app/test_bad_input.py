"""What an application says when something is wrong with it: one clear error each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from dependency_injector.wiring import Provide

from pyjms import (
    ConfigurationException,
    JmsApplication,
    PyjmsSettings,
    Session,
    jms_listener,
    load_settings,
    on_startup,
)


class Unknown:
    """Nothing that anybody could make of a message."""


def problem_of(*targets: object, settings: dict[str, Any] | None = None) -> str:
    application = JmsApplication(*targets, settings=PyjmsSettings(**(settings or {})))
    with pytest.raises(ConfigurationException) as raised:
        application.check()
    return str(raised.value)


@jms_listener("in", id="fine")
async def fine(text: str) -> None: ...


def test_a_url_option_that_does_not_exist_is_named() -> None:
    url = "tcp://localhost:61616?jms.sendTimout=5"
    text = problem_of(fine, settings={"activemq": {"broker_url": url}})
    assert "sendTimout" in text
    assert "sendTimeout" in text  # what was meant


def test_a_port_that_is_none_is_named() -> None:
    text = problem_of(fine, settings={"activemq": {"broker_url": "tcp://localhost:66666"}})
    assert "Invalid port '66666'" in text
    assert "1 to 65535" in text


def test_a_misspelt_key_is_told_with_file_line_and_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "application.yaml"
    file.write_text("jms:\n  listener:\n    auto_startupp: false\n")
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(fine, config=file)
    assert f"{file}:3" in str(raised.value)
    assert "auto_startup" in str(raised.value)


def test_a_selector_that_is_none_is_told_before_anything_starts() -> None:
    @jms_listener("in", id="choosy", selector="price >")
    async def choosy(text: str) -> None: ...

    text = problem_of(choosy)
    assert text.startswith("Listener 'choosy'")
    assert "price >" in text


@pytest.mark.parametrize("concurrency", ["many", "3-", "0", "5-2"])
def test_a_concurrency_that_is_none(concurrency: str) -> None:
    @jms_listener("in", id="busy", concurrency=concurrency)
    async def busy(text: str) -> None: ...

    text = problem_of(busy)
    assert text.startswith("Listener 'busy'")
    assert concurrency in text


def test_an_argument_that_nobody_can_supply() -> None:
    @jms_listener("in")
    async def handler(thing: Unknown) -> None: ...

    text = problem_of(handler)
    assert "handler: nobody can supply 'thing'" in text
    assert "Unknown" in text


def test_a_blocking_session_in_a_coroutine() -> None:
    @jms_listener("in")
    async def handler(text: str, session: Session) -> None: ...

    assert "nobody can supply 'session'" in problem_of(handler)


def test_a_misspelt_provider() -> None:
    @jms_listener("in")
    async def handler(text: str, db: Annotated[object, Provide["jms_templat"]]) -> None: ...

    text = problem_of(handler)
    assert "handler: nobody supplies 'db'" in text
    assert "no provider 'jms_templat'" in text
    assert "did you mean 'jms_template'?" in text


def test_two_listeners_of_one_id() -> None:
    @jms_listener("other", id="fine")
    async def again(text: str) -> None: ...

    assert problem_of(fine, again) == "Another endpoint is already registered with id 'fine'"


def test_settings_for_a_listener_that_does_not_exist() -> None:
    text = problem_of(fine, settings={"listeners": {"fin": {"concurrency": "2"}}})
    assert text == "listeners.fin: no @jms_listener has the id 'fin'; did you mean 'fine'?"


def test_a_container_factory_that_does_not_exist() -> None:
    @jms_listener("in", container_factory="elsewhere")
    async def handler(text: str) -> None: ...

    text = problem_of(handler)
    assert "there is no container factory 'elsewhere'" in text


def test_a_placeholder_that_nothing_fills() -> None:
    @jms_listener("${app.nowhere}")
    async def handler(text: str) -> None: ...

    assert "app.nowhere" in problem_of(handler)


def test_a_hook_with_an_argument_that_nobody_supplies() -> None:
    @on_startup
    async def begin(what: object) -> None: ...

    assert "begin: nobody supplies 'what'" in problem_of(begin)


def test_all_problems_are_told_at_once() -> None:
    @jms_listener("in", selector="(")
    async def one(text: str) -> None: ...

    @jms_listener("in")
    async def two(thing: Unknown) -> None: ...

    @on_startup
    def three(what: object) -> None: ...

    lines = problem_of(one, two, three).splitlines()
    assert len(lines) == 3


def test_settings_that_fit_have_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "application.yaml"
    file.write_text("listeners:\n  fine:\n    concurrency: 2-3\n")
    JmsApplication(fine, settings=load_settings(file)).check()
