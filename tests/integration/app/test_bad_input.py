"""What an application says when something is wrong with it: one clear error each."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NoReturn, Protocol

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide
from pydantic import PydanticUserError

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    DefaultJmsListenerContainerFactory,
    Header,
    JmsApplication,
    Payload,
    PyjmsSettings,
    Session,
    jms_listener,
    load_settings,
    on_startup,
    send_to,
)
from pyjms.configuration.document import Problems


class Unknown:
    """Nothing that anybody could make of a message."""


class Placed:
    """A type that pydantic refuses with a remedy, like typing.TypedDict in Python 3.11."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> NoReturn:
        raise PydanticUserError("Please use the other class", code=None)


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


def test_a_misspelt_key_is_reported_with_file_line_and_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "application.yaml"
    file.write_text("jms:\n  listener:\n    auto_startupp: false\n")
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(fine, config=file)
    assert f"{file}:3" in str(raised.value)
    assert "auto_startup" in str(raised.value)


def test_an_invalid_selector_is_reported_before_anything_starts() -> None:
    @jms_listener("in", id="choosy", selector="price >")
    async def choosy(text: str) -> None: ...

    text = problem_of(choosy)
    assert re.search(r"test_bad_input\.py:\d+: Listener 'choosy'", text)
    assert "price >" in text


@pytest.mark.parametrize("concurrency", ["many", "3-", "0", "5-2"])
def test_a_concurrency_that_is_none(concurrency: str) -> None:
    @jms_listener("in", id="busy", concurrency=concurrency)
    async def busy(text: str) -> None: ...

    text = problem_of(busy)
    assert re.search(r"test_bad_input\.py:\d+: Listener 'busy'", text)
    assert concurrency in text


def test_an_argument_that_cannot_be_supplied() -> None:
    @jms_listener("in")
    async def handler(thing: Unknown) -> None: ...

    text = problem_of(handler)
    assert "handler: parameter 'thing'" in text
    assert "Unknown" in text


@pytest.mark.parametrize("destination", ["", "  ", "${app.empty}", "topc://news", "queue://"])
def test_a_destination_that_is_none(destination: str) -> None:
    @jms_listener(destination)
    async def handler(text: str) -> None: ...

    @jms_listener("in")
    @send_to(destination)
    async def answers(text: str) -> str:
        raise NotImplementedError

    first, second = problem_of(handler, answers, settings={"app": {"empty": ""}}).splitlines()
    assert "destination" in first
    assert "answers: its @send_to: Invalid destination name" in second


def test_a_subscription_of_a_queue() -> None:
    @jms_listener("queue://in", id="a", subscription="audit")
    @jms_listener("in", id="b", subscription="audit")
    async def handler(text: str) -> None: ...

    lines = problem_of(handler).splitlines()
    assert [re.findall(r"py:\d+: (Listener '.')", line) for line in lines] == [
        ["Listener 'a'"],
        ["Listener 'b'"],
    ]
    assert all("'audit': a queue has no subscriptions (write topic://" in line for line in lines)


def test_a_subscription_that_nothing_makes_durable() -> None:
    @jms_listener("topic://in", subscription="audit")
    async def handler(text: str) -> None: ...

    text = problem_of(handler)
    assert "its container factory creates no durable subscriptions (set durable on this" in text
    durable = PyjmsSettings(jms={"subscription_durable": True, "client_id": "me"})
    JmsApplication(handler, settings=durable).check()


def test_a_durable_subscription_without_a_client_id() -> None:
    class Container(ApplicationContainer):
        durables = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            subscription_durable=True,
        )

    @jms_listener("queue://in", container_factory="durables")
    async def of_a_queue(text: str) -> None: ...

    @jms_listener("news", id="news", container_factory="durables", subscription="audit")
    async def of_a_topic(text: str) -> None: ...

    text = problem_of(settings={"jms": {"subscription_durable": True}})
    assert text.startswith("A durable subscription needs a client id")
    assert "set jms.client_id" in text
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(
            of_a_queue, of_a_topic, container=Container, settings=PyjmsSettings()
        ).check()
    assert str(raised.value).endswith(f": Listener 'news': {text}")
    url = "tcp://localhost:61616?jms.clientID=me"
    named = PyjmsSettings(jms={"subscription_durable": True}).with_broker_url(url)
    JmsApplication(of_a_topic, container=Container, settings=named).check()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"activemq": {"broker_url": "tpc://x:1"}}, "Transport scheme NOT recognized: [tpc]"),
        ({"brokers": {"b": {"broker_url": "tpc://x:1"}}}, "NOT recognized: [tpc]"),
        ({"activemq": {"broker_url": "vm://x?broker.foo=1"}}, "Unknown parameters=[{foo=1}]"),
        ({"activemq": {"broker_url": "vm://x?broker.persistent=maybe"}}, "persistent=maybe cannot"),
        *(
            (
                {"listeners": {"fine": {"concurrency": bad}}},
                f"listeners.fine.concurrency: Invalid concurrency '{bad}': write the maximum",
            )
            for bad in ("9-2", "0", "0-3", "many", "3-", "-1")
        ),
        ({"listeners": {"fine": {"selector": "a ="}}}, "listeners.fine.selector: Invalid selector"),
        (
            {"listeners": {"fine": {"destination": "topc://a"}}},
            "listeners.fine.destination: Invalid dest",
        ),
        ({"jms": {"subscription_durable": True}}, "set jms.client_id"),
    ],
)
def test_what_settings_alone_show(given: dict[str, Any], text: str) -> None:
    assert text in problem_of(fine, settings=given)
    assert len(problem_of(fine, settings=given).splitlines()) == 1
    problems = Problems()
    JmsApplication(settings=PyjmsSettings(**given)).wiring.find_settings_problems(problems)
    with pytest.raises(ConfigurationException) as raised:
        problems.raise_all()
    assert text in str(raised.value)


class Handlers:
    @jms_listener("in")
    async def method(self, text: str) -> None: ...


def module_of(*members: Any, **named: object) -> ModuleType:
    module = ModuleType("handlers_of_a_test")
    for member in members:
        member.__module__ = module.__name__
        setattr(module, member.__name__, member)
    for name, value in named.items():
        setattr(module, name, value)
    return module


def nothing_of(*targets: object) -> str:
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(*targets, settings=PyjmsSettings()).wiring.require_work()
    return str(raised.value)


def test_a_class_instead_of_an_instance() -> None:
    assert problem_of(Handlers) == (
        "Handlers is a class: its handlers need an instance (give the application Handlers(...), or "
        "a container with a provider of the class)"
    )


def test_nothing_to_run_says_what_was_looked_for(caplog: pytest.LogCaptureFixture) -> None:
    class Own:
        @jms_listener("in")
        async def method(self, text: str) -> None: ...

    @on_startup
    def begin() -> None: ...

    text = nothing_of(module_of())
    assert "Nothing to run in handlers_of_a_test: no function is marked" in text
    assert "@jms_listener, @on_startup or @on_shutdown" in text
    module = module_of(Own)
    assert "handlers_of_a_test.Own has marked methods" in nothing_of(module)
    assert "JmsApplication(Own(...))" in nothing_of(module)
    setattr(module, "own", Own())  # noqa: B010
    assert "JmsApplication(own)" in nothing_of(module)
    assert f"imports marked functions of {__name__}: name that" in nothing_of(module_of(fine=fine))
    JmsApplication(module, module.own, settings=PyjmsSettings()).wiring.require_work()
    hooks = JmsApplication(module_of(begin), settings=PyjmsSettings())
    hooks.wiring.require_work()
    hooks.check()
    assert caplog.text == ""


def test_methods_without_an_instance_are_refused() -> None:
    class Own:
        @staticmethod
        @jms_listener("in")
        def method(text: str) -> None: ...

    class Base(ABC):
        @abstractmethod
        def number(self) -> int: ...

        @jms_listener("in")
        def method(self, text: str) -> None:
            self.number()

    assert problem_of(module_of(fine, Own, Base)) == (
        "handlers_of_a_test.Own has marked methods: they need an instance, as in "
        "JmsApplication(Own(...)), or a provider of the class in the container"
    )


def test_protocols_and_references_to_functions_need_no_instance() -> None:
    @jms_listener("in")
    def handler(text: str) -> None: ...

    class Handling(Protocol):
        @jms_listener("in")
        def method(self, text: str) -> None: ...

    class Names:
        @staticmethod
        @jms_listener("in")
        def own(text: str) -> None: ...

        other = handler

    module = module_of(Handling, Names, handler, Names.own)
    found = JmsApplication(module, settings=PyjmsSettings()).wiring.endpoints()
    assert len(found) == 2


def test_a_second_parameter_that_nothing_explains() -> None:
    @jms_listener("in")
    async def handler(body, foo) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    @jms_listener("in")
    def typed(*, foo: Annotated[dict[str, Any], Payload()], body: str) -> None: ...

    text, other = problem_of(handler, typed).splitlines()
    assert "handler: parameter 'foo' cannot be supplied: the payload is 'body'" in text
    assert "typed: parameter 'body' of type <class 'str'> cannot be supplied" in other
    assert "the payload is 'foo'" in other


def test_the_reason_of_pydantic_is_told() -> None:
    @jms_listener("in")
    def handler(order: Placed) -> None: ...

    @jms_listener("in")
    def many(orders: list[Placed]) -> None: ...

    for text in problem_of(handler, many).splitlines():
        assert "cannot be supplied: Please use the other class" in text


def test_a_mark_that_stands_where_a_type_belongs() -> None:
    @jms_listener("in")
    async def handler(body: str, region: Header) -> None: ...

    text = problem_of(handler)
    assert "handler: Header is not a type for parameter 'region'" in text
    assert "write region: Annotated[str, Header(...)]" in text


def test_a_blocking_session_in_a_coroutine() -> None:
    @jms_listener("in")
    async def handler(text: str, session: Session) -> None: ...

    assert "parameter 'session'" in problem_of(handler)


def test_a_misspelt_provider() -> None:
    @jms_listener("in")
    async def handler(text: str, db: Annotated[object, Provide["jms_templat"]]) -> None: ...

    text = problem_of(handler)
    assert "handler: parameter 'db' cannot be injected" in text
    assert "no provider 'jms_templat'" in text
    assert "did you mean 'jms_template'?" in text


def test_a_provider_that_the_application_has_to_bring() -> None:
    @jms_listener("in")
    async def handler(text: str, db: Annotated[object, Provide["database"]]) -> None: ...

    text = problem_of(handler)
    assert "no provider 'database' (it has application_loop, " in text
    assert "pass a subclass of ApplicationContainer" in text


def test_two_listeners_of_one_id() -> None:
    @jms_listener("other", id="fine")
    async def again(text: str) -> None: ...

    lines = [each.__code__.co_firstlineno for each in (fine, again)]
    file = "tests/integration/app/test_bad_input.py"
    assert problem_of(fine, again) == (
        f"Another endpoint is already registered with id 'fine': "
        f"'in' ({file}:{lines[0]}) and 'other' ({file}:{lines[1]}) have it "
        "(give each @jms_listener its own id)"
    )


def test_settings_for_a_listener_that_does_not_exist() -> None:
    text = problem_of(fine, settings={"listeners": {"fin": {"concurrency": "2"}}})
    assert text == "listeners.fin: no @jms_listener has the id 'fin' (did you mean 'fine'?)"
    text = problem_of(fine, settings={"listeners": {"orders": {"concurrency": "2"}}})
    assert text == "listeners.orders: no @jms_listener has the id 'orders' (ids here: fine)"


def test_handlers_whose_call_would_do_nothing() -> None:
    """A generator does not begin, a wrapper without functools.wraps gets no argument."""

    @jms_listener("in", id="1")
    def generator(text: str) -> Any:
        yield text

    @jms_listener("in", id="2")
    async def asynchronous(text: str) -> Any:
        yield text

    def traced(function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    def counted(function: Any) -> Any:
        return functools.wraps(function)(traced(function))

    unnamed = jms_listener("in", id="3")(traced(fine))
    first, second, third = problem_of(generator, asynchronous, unnamed).splitlines()
    assert "generator: it is a generator, so calling it would not run it" in first
    assert "asynchronous: it is a generator" in second
    assert "wrapper: it takes (*args: 'Any', **kwargs: 'Any')" in third
    assert "functools.wraps" in third

    @jms_listener("in", id="4")
    @counted
    def named(text: str) -> None: ...

    JmsApplication(named, settings=PyjmsSettings()).check()


def test_a_container_factory_that_does_not_exist() -> None:
    @jms_listener("in", container_factory="elsewhere")
    async def handler(text: str) -> None: ...

    text = problem_of(handler)
    assert "there is no container factory 'elsewhere'" in text


def test_a_placeholder_that_nothing_fills() -> None:
    @jms_listener("${app.nowhere}")
    async def handler(text: str) -> None: ...

    assert "app.nowhere" in problem_of(handler)


def test_a_hook_with_an_argument_that_cannot_be_supplied() -> None:
    @on_startup
    async def begin(what: object) -> None: ...

    assert "begin: parameter 'what' cannot be supplied" in problem_of(begin)


def test_all_problems_are_reported_at_once() -> None:
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
