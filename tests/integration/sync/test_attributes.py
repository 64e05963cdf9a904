"""Attributes of blocking objects: what can be set on the core object, and nothing else."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    DeliveryMode,
    JmsPoolConnectionFactory,
    JmsTemplate,
    JmsTransactionManager,
    PooledConnectionFactory,
    Queue,
    RedeliveryPolicy,
    SimpleMessageListenerContainer,
    SingleConnectionFactory,
    UserCredentialsConnectionFactoryAdapter,
)
from pyjms.jms import api
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.sync import DelegatingConnectionFactory, TransactionAwareConnectionFactoryProxy
from tests.kit.clients.messages import text_of

_numbers = itertools.count(1)


def make_factory(**options: Any) -> ConnectionFactory:
    return ConnectionFactory(f"vm://attributes-{next(_numbers)}?broker.persistent=false", **options)


CONFIGURED: list[Callable[[ConnectionFactory], Any]] = [
    lambda factory: factory,
    SingleConnectionFactory,
    CachingConnectionFactory,
    PooledConnectionFactory,
    JmsPoolConnectionFactory,
    DelegatingConnectionFactory,
    TransactionAwareConnectionFactoryProxy,
    UserCredentialsConnectionFactoryAdapter,
    JmsTransactionManager,
    JmsTemplate,
    lambda factory: DefaultMessageListenerContainer(factory, destination_name="q"),
    lambda factory: SimpleMessageListenerContainer(factory, destination_name="q"),
]
IDS = [
    "ConnectionFactory",
    "SingleConnectionFactory",
    "CachingConnectionFactory",
    "PooledConnectionFactory",
    "JmsPoolConnectionFactory",
    "DelegatingConnectionFactory",
    "TransactionAwareConnectionFactoryProxy",
    "UserCredentialsConnectionFactoryAdapter",
    "JmsTransactionManager",
    "JmsTemplate",
    "DefaultMessageListenerContainer",
    "SimpleMessageListenerContainer",
]
INTERNAL = {
    "OPTIONS", "call_timeout", "inheritance", "interceptor_chain", "least_consumers", "listener_call",
    "loop_holds", "most_consumers", "reply_sender",
    "settlement_chain", "turns",
}  # fmt: skip


def settable(core: object) -> set[str]:
    """The public attributes of an object that can be set."""
    names = {name for name in [*vars(core), *dir(core)] if not name.startswith("_")}
    found = set()
    for name in names - INTERNAL:
        member = inspect.getattr_static(type(core), name, None)
        if isinstance(member, property):
            if member.fset is not None:
                found.add(name)
        elif isinstance(member, DelegatedAttribute):
            if not member.read_only:
                found.add(name)
        elif not callable(member):
            found.add(name)
    return found


@pytest.mark.parametrize("make", CONFIGURED, ids=IDS)
def test_what_can_be_set_on_the_core_object_can_be_set(make: Any) -> None:
    facade = make(make_factory())
    names = settable(facade.core)
    assert names
    for name in sorted(names):
        value = getattr(facade, name)
        if name in {"session_acknowledge_mode", "destination"} or (
            value is None and name != "receive_timeout"
        ):
            continue  # see the test of values below
        setattr(facade, name, value)
        assert getattr(facade, name) == value
    missing = {name for name in names if not hasattr(type(facade), name)}
    assert missing == set()


@pytest.mark.parametrize("make", CONFIGURED, ids=IDS)
def test_a_misspelt_attribute_is_refused(make: Any) -> None:
    facade = make(make_factory())
    with pytest.raises(AttributeError, match="nonsense"):
        facade.nonsense = 1
    with pytest.raises(AttributeError, match="nonsense"):
        assert facade.nonsense


@pytest.fixture
def connection() -> Iterator[Any]:
    with make_factory().create_connection() as connection:
        yield connection


def test_a_misspelt_attribute_of_a_jms_object_is_refused(connection: Any) -> None:
    session = connection.create_session()
    queue = session.create_queue("q")
    objects = [
        connection,
        session,
        session.create_producer(queue),
        session.create_consumer(queue),
        session.create_browser(queue),
    ]
    for item in objects:
        with pytest.raises(AttributeError, match="nonsense"):
            item.nonsense = 1


def test_the_attributes_of_the_jms_interfaces_exist(connection: Any) -> None:
    session = connection.create_session()
    queue = session.create_queue("q")
    pairs = {
        api.Connection: connection,
        api.Session: session,
        api.MessageProducer: session.create_producer(queue),
        api.MessageConsumer: session.create_consumer(queue),
        api.QueueBrowser: session.create_browser(queue),
    }
    for interface, facade in pairs.items():
        names = {name for kind in interface.__mro__[:-1] for name in kind.__annotations__}
        names |= {n for n, v in vars(interface).items() if isinstance(v, property)}
        public = {name for name in names if not name.startswith("_")}
        assert {name for name in public if not hasattr(type(facade), name)} == set()


def test_settings_of_a_template_take_effect() -> None:
    factory = SingleConnectionFactory(make_factory())
    template = JmsTemplate(factory)
    template.receive_timeout = 0
    assert template.receive("q") is None
    template.receive_timeout = 10
    template.explicit_qos_enabled = True
    template.priority, template.time_to_live = 8, 60.0
    template.delivery_mode = DeliveryMode.NON_PERSISTENT
    template.default_destination = Queue("q")
    template.convert_and_send(None, "x")
    message = template.receive()
    assert message is not None
    assert (message.priority, message.delivery_mode) == (8, DeliveryMode.NON_PERSISTENT)
    assert message is not None
    assert message.expiration > message.timestamp
    factory.destroy()


def test_a_blocking_factory_is_returned_as_it_was_set() -> None:
    first, second = SingleConnectionFactory(make_factory()), SingleConnectionFactory(make_factory())
    template = JmsTemplate(first, receive_timeout=10)
    assert template.connection_factory is first
    template.connection_factory = second
    assert template.connection_factory is second
    template.convert_and_send("q", "x")
    assert not first.is_running
    assert second.is_running
    assert template.receive_and_convert("q") == "x"
    second.destroy()


def test_the_redelivery_policy_of_a_factory() -> None:
    policy = RedeliveryPolicy(maximum_redeliveries=0)
    factory = make_factory(redelivery_policy=policy)
    assert factory.redelivery_policy is policy
    assert factory.redelivery_policy_map.default_entry is policy
    other = RedeliveryPolicy(maximum_redeliveries=3)
    factory.redelivery_policy = other
    assert factory.core.redelivery_policy is other
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(transacted=True)
        factory.redelivery_policy.maximum_redeliveries = 0
        session.create_producer(Queue("poison")).send(session.create_text_message("x"))
        session.commit()
        consumer = session.create_consumer(Queue("poison"))
        assert text_of(consumer.receive(10)) == "x"
        session.rollback()
        dead = session.create_consumer(Queue("ActiveMQ.DLQ"))
        assert text_of(dead.receive(10)) == "x"


def test_properties_of_a_container_take_effect_while_it_runs() -> None:
    factory = make_factory()
    manager = JmsTransactionManager(SingleConnectionFactory(factory))
    container = DefaultMessageListenerContainer(
        factory, destination_name="q", message_listener=lambda _message: None
    )
    with container:
        container.wait_until_listening()
        container.max_concurrent_consumers = 4
        container.concurrent_consumers = 3
        assert container.concurrency == "3-4"
    container.transaction_manager = manager  # type: ignore[assignment]  # a blocking one
    assert cast("object", container.transaction_manager) is manager
    assert container.core.transaction_manager is manager.core
    with pytest.raises(AttributeError, match="is_running"):
        container.is_running = True  # type: ignore[misc]
    with pytest.raises(ValueError, match="concurrent_consumers"):
        container.concurrent_consumers = 0
