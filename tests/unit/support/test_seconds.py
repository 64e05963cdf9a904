"""Durations in arguments: what is no number of seconds is refused, and the error names it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import pyjms
from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    JmsApplication,
    JmsTemplate,
    JmsTransactionManager,
    aio,
)
from pyjms.client.policies import RedeliveryPolicy
from pyjms.jms.message import Message
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.runtime.backoff import ExponentialBackOff, FixedBackOff
from pyjms.settings import PyjmsSettings
from pyjms.support.qos import QosSettings

URL = "vm://seconds?broker.persistent=false"
FACTORY = ConnectionFactory(URL)
TEMPLATE: Any = JmsTemplate(FACTORY)


def assigned(name: str, use: Callable[[JmsTemplate], object]) -> Callable[[Any], object]:
    def call(value: Any) -> object:
        template = JmsTemplate(FACTORY)
        setattr(template, name, value)
        return use(template)

    return call


def receive_with(value: Any) -> Message | None:
    with FACTORY.create_connection() as connection:
        consumer = connection.create_session().create_consumer(pyjms.Queue("empty"))
        return consumer.receive(value)


def send_with(value: Any) -> None:
    with FACTORY.create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(pyjms.Queue("q"))
        producer.send(session.create_text_message("x"), time_to_live=value)


def validated(name: str) -> Callable[[Any], object]:
    def call(value: Any) -> None:
        options: Any = {name: value}
        factory = aio.ConnectionFactory(URL)
        DefaultMessageListenerContainer(factory, destination_name="q", **options).validate()

    return call


def in_transaction(value: Any) -> None:
    with JmsTransactionManager(CachingConnectionFactory(FACTORY)).transaction(timeout=value):
        pass


def unopened(value: Any) -> None:
    factory: Any = ConnectionFactory(URL)
    factory.options.send_timeout = value
    factory.create_connection().close()


def expiring(template: JmsTemplate) -> None:
    template.explicit_qos_enabled = True
    template.convert_and_send("q", "x")


CALLS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "template": ("receive_timeout", lambda v: JmsTemplate(FACTORY, receive_timeout=v)),
    "template ttl": ("time_to_live", lambda v: JmsTemplate(FACTORY, time_to_live=v)),
    "template delay": ("delivery_delay", lambda v: JmsTemplate(FACTORY, delivery_delay=v)),
    "assigned": ("receive_timeout", assigned("receive_timeout", lambda t: t.receive("empty"))),
    "assigned ttl": ("time_to_live", assigned("time_to_live", expiring)),
    "assigned delay": (
        "delivery_delay",
        assigned("delivery_delay", lambda t: t.convert_and_send("q", "x")),
    ),
    "receive": ("timeout", lambda v: TEMPLATE.receive("empty", timeout=v)),
    "receive_and_convert": ("timeout", lambda v: TEMPLATE.receive_and_convert("empty", timeout=v)),
    "request": ("timeout", lambda v: TEMPLATE.request("empty", "x", timeout=v)),
    "send": ("time_to_live", lambda v: TEMPLATE.convert_and_send("q", "x", time_to_live=v)),
    "delay": ("delay", lambda v: TEMPLATE.convert_and_send("q", "x", delay=v)),
    "consumer": ("timeout", receive_with),
    "producer": ("time_to_live", send_with),
    "qos": ("time_to_live", lambda v: QosSettings(time_to_live=v)),
    "factory": ("send_timeout", lambda v: ConnectionFactory(URL, send_timeout=v)),
    "factory close": ("close_timeout", lambda v: ConnectionFactory(URL, close_timeout=v)),
    "assigned factory": ("send_timeout", unopened),
    "redelivery": ("redelivery_delay", lambda v: RedeliveryPolicy(redelivery_delay=v)),
    "first redelivery": (
        "initial_redelivery_delay", lambda v: RedeliveryPolicy(initial_redelivery_delay=v)),
    "longest redelivery": (
        "maximum_redelivery_delay", lambda v: RedeliveryPolicy(maximum_redelivery_delay=v)),
    "container": ("receive_timeout", validated("receive_timeout")),
    "container transaction": ("transaction_timeout", validated("transaction_timeout")),
    "container recovery": ("interval", validated("recovery_interval")),
    "fixed": ("jitter", lambda v: FixedBackOff(jitter=v)),
    "exponential": ("initial_interval", ExponentialBackOff),
    "manager": ("default_timeout", lambda v: JmsTransactionManager(FACTORY, default_timeout=v)),
    "transaction": ("timeout", in_transaction),
    "application": (
        "stop_timeout", lambda v: JmsApplication(settings=PyjmsSettings(), stop_timeout=v)),
}  # fmt: skip
MAY_BE_NEGATIVE = {"template", "assigned", "receive", "receive_and_convert", "request", "consumer",
                   "container", "longest redelivery"}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "value", ["5x", "5s", True, dt.timedelta(seconds=1), Decimal(1), [0.5]], ids=repr
)
def test_what_is_not_a_number_is_refused_by_name(call: str, value: object) -> None:
    name, use = CALLS[call]
    with pytest.raises(TypeError) as caught:
        use(value)
    text = str(caught.value)
    assert text.startswith(f"{name} is a number of seconds such as 0.5, not {value!r:.50}")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_without_an_end_are_refused_by_name(call: str, value: float) -> None:
    name, use = CALLS[call]
    with pytest.raises(ValueError, match=f"^{name} is a finite number of seconds, not {value}"):
        use(value)


@pytest.mark.parametrize("call", sorted(CALLS.keys() - MAY_BE_NEGATIVE))
def test_negative_durations_are_refused_by_name(call: str) -> None:
    name, use = CALLS[call]
    with pytest.raises(ValueError, match=f"^{name} is a number of seconds, 0 or more, not -1"):
        use(-1)


@pytest.mark.parametrize("value", [0, 0.01, Fraction(1, 100), -1])
def test_numbers_are_accepted(value: float) -> None:
    assert TEMPLATE.receive("empty", timeout=value) is None


def test_the_error_says_what_else_may_be_written() -> None:
    with pytest.raises(TypeError, match=r"texts with a unit.*are for settings files"):
        TEMPLATE.receive("empty", timeout="5s")
    with pytest.raises(TypeError, match=r"write its total_seconds\(\); None waits for ever"):
        TEMPLATE.receive("empty", timeout=dt.timedelta(1))
