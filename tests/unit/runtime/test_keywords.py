"""Misspelt keyword arguments: the error names the option that was meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    JmsApplication,
    JmsPoolConnectionFactory,
    JmsTemplate,
    RetryPolicy,
    SingleConnectionFactory,
    aio,
    jms_listener,
    jms_scheduled,
)

FACTORY = ConnectionFactory("vm://keywords?broker.persistent=false")
CORE = aio.ConnectionFactory("vm://keywords?broker.persistent=false")
TEMPLATE = JmsTemplate(FACTORY)


@pytest.mark.parametrize(
    ("call", "keyword", "meant"),
    [
        (lambda **given: ConnectionFactory("tcp://h:1", **given), "username", "user"),
        (lambda **given: aio.ConnectionFactory("tcp://h:1", **given), "passwort", "password"),
        (FACTORY.create_connection, "username", "user_name"),
        (lambda **given: JmsTemplate(FACTORY, **given), "recieve_timeout", "receive_timeout"),
        (lambda **given: aio.JmsTemplate(CORE, **given), "recieve_timeout", "receive_timeout"),
        (lambda **given: SingleConnectionFactory(FACTORY, **given), "clientid", "client_id"),
        (lambda **given: CachingConnectionFactory(FACTORY, **given), "session_cache", "session_cache_size"),
        (lambda **given: JmsPoolConnectionFactory(FACTORY, **given), "max_conections", "max_connections"),
        (lambda **given: TEMPLATE.convert_and_send("q", "x", **given), "propertys", "properties"),
        (lambda **given: jms_listener("q", **given), "concurency", "concurrency"),
        (jms_scheduled, "fixedrate", "fixed_rate"),
        (RetryPolicy, "maximun", "maximum"),
        (JmsApplication, "containers", "container"),
    ],
)  # fmt: skip
def test_a_misspelt_keyword_is_an_error_with_the_right_one(
    call: Callable[..., object], keyword: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=f"has no option '{keyword}'; did you mean '{meant}'") as e:
        call(**{keyword: 1})
    assert e.value.__cause__ is None


@pytest.mark.parametrize(
    "call", [lambda **g: JmsTemplate(FACTORY, **g), lambda **g: jms_listener("q", **g)]
)
def test_a_login_at_the_wrong_place_names_the_right_one(call: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"belong to ConnectionFactory\(url, user=..., password="):
        call(username="shop")


def test_other_type_errors_stay_as_they_are() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        JmsTemplate()  # type: ignore[call-arg]
    assert "option" not in str(caught.value)
