"""Marks, endpoints and the registry without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyjms import (
    ConfigurationException,
    IllegalStateException,
    Queue,
    Topic,
    jms_listener,
    on_shutdown,
    on_startup,
    send_to,
)
from pyjms.app.lifecycle import hook_kind
from pyjms.listener.decorators import MISSING, Header, listener_marks, send_to_destination
from pyjms.listener.endpoint import SimpleJmsListenerEndpoint
from pyjms.listener.registry import JmsListenerEndpointRegistry


def test_the_function_itself_comes_back_marked() -> None:
    def handler(text: str) -> None: ...

    marked = jms_listener("b", concurrency=3)(jms_listener("c", id="c")(handler))
    assert marked is handler
    first, second = listener_marks(handler)
    assert (first.destination, first.id, first.options["concurrency"]) == ("b", None, "3")
    assert (second.destination, second.id, second.options.get("auto_startup")) == ("c", "c", None)
    assert listener_marks(print) == ()


def test_send_to_of_function_class_and_nothing() -> None:
    @send_to("class")
    class Handlers:
        def plain(self) -> None: ...

        @send_to("own")
        def own(self) -> None: ...

    handlers = Handlers()
    assert send_to_destination(handlers.plain) == "class"
    assert send_to_destination(handlers.own) == "own"
    assert send_to_destination(print) is None
    assert repr(Header().default) == repr(MISSING) == "MISSING"


def test_a_destination_does_as_well_as_its_name() -> None:
    @jms_listener(Topic("news"))
    @jms_listener(Queue("orders?consumer.prefetchSize=1&consumer.priority=2"))
    @send_to(Topic("out"))
    def handler(text: str) -> None: ...

    assert [mark.destination for mark in listener_marks(handler)] == [
        "topic://news",
        "queue://orders?consumer.prefetchSize=1&consumer.priority=2",
    ]
    assert send_to_destination(handler) == "topic://out"


@pytest.mark.parametrize(("mark", "name"), [(jms_listener, "jms_listener"), (send_to, "send_to")])
def test_a_mark_without_brackets_is_refused_with_the_right_form(mark: Any, name: str) -> None:
    def handler(text: str) -> None: ...

    with pytest.raises(TypeError, match=rf'write @{name}\("name"\) above handler'):
        mark(handler)
    with pytest.raises(TypeError, match=f"@{name} takes a name, a Queue or a Topic, not int"):
        mark(7)


@pytest.mark.parametrize(("mark", "kind"), [(on_startup, "startup"), (on_shutdown, "shutdown")])
def test_hooks_are_marked_with_and_without_brackets(mark: Any, kind: str) -> None:
    @mark  # type: ignore[untyped-decorator]
    def plain() -> None: ...

    @mark()  # type: ignore[untyped-decorator]
    def with_brackets() -> None: ...

    assert hook_kind(plain) == hook_kind(with_brackets) == kind
    with pytest.raises(TypeError, match=f"@on_{kind} decorates a function, not str"):
        mark("now")


def test_an_override_names_what_an_endpoint_has() -> None:
    endpoint = SimpleJmsListenerEndpoint(destination="a", id="x", message_listener=print)
    endpoint.override(destination="b", selector=None)
    assert (endpoint.destination, endpoint.selector) == ("b", None)
    with pytest.raises(ConfigurationException, match="no setting 'colour'"):
        endpoint.override(colour="red")


@pytest.mark.fact("spring-jms 6.8")
def test_factories_with_different_phases_must_agree() -> None:
    registry = JmsListenerEndpointRegistry()

    def register(phase: int) -> None:
        endpoint = SimpleJmsListenerEndpoint(destination="a", message_listener=print)
        made: Any = SimpleNamespace(phase=phase, is_running=False)
        registry.register(endpoint, lambda _endpoint: made)

    default = registry.phase
    register(default)
    assert registry.phase == default
    register(7)
    register(default)
    register(7)
    assert registry.phase == 7
    with pytest.raises(IllegalStateException, match="Encountered phase mismatch"):
        register(8)
    assert len(registry) == 4


def test_several_destinations_are_a_composite_one() -> None:
    @jms_listener("a", Queue("b?consumer.prefetchSize=1"), id="x")
    def handler(text: str) -> None: ...

    (mark,) = listener_marks(handler)
    assert (mark.destination, mark.id) == ("a,queue://b?consumer.prefetchSize=1", "x")
    with pytest.raises(ValueError, match="'a\\?n=1' is not the last of several destinations"):
        jms_listener("a?n=1", "b")
    with pytest.raises(TypeError, match=r'write @jms_listener\("name"\)'):
        jms_listener()


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="no option 'time_out'; did you mean 'timeout'"):
        jms_listener("a", time_out=3)  # type: ignore[call-arg]
