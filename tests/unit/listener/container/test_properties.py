"""Properties: defaults, names, rules of setting. (spring-jms 1.1, 1.2.1, 1.3)"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pyjms.enums import AcknowledgeMode, CacheLevel
from pyjms.errors import IllegalStateException, UnsupportedOperationException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.listener.task_executor import SimpleAsyncTaskExecutor
from pyjms.runtime.backoff import ExponentialBackOff, FixedBackOff
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.support.qos import QosSettings
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder

DEFAULTS = {
    "connection_factory": None,
    "destination": None,
    "destination_name": None,
    "pub_sub_domain": False,
    "reply_pub_sub_domain": False,
    "reply_qos_settings": None,
    "message_selector": None,
    "message_listener": None,
    "subscription_durable": False,
    "subscription_shared": False,
    "subscription_name": None,
    "durable_subscription_name": None,
    "pub_sub_no_local": False,
    "client_id": None,
    "session_transacted": False,
    "session_acknowledge_mode": 1,
    "acknowledge_after_listener": True,
    "expose_listener_session": True,
    "accept_messages_while_stopping": False,
    "receive_timeout": 1.0,
    "concurrent_consumers": 1,
    "max_concurrent_consumers": 1,
    "max_messages_per_task": None,
    "idle_consumer_limit": 1,
    "idle_task_execution_limit": 1,
    "idle_receives_per_task_limit": None,
    "cache_level": 4,
    "transaction_manager": None,
    "transaction_name": None,
    "transaction_timeout": None,
    "recovery_interval": 5.0,
    "error_handler": None,
    "exception_listener": None,
    "message_converter": None,
    "auto_startup": True,
    "phase": 2147483647,
}


def listener(message: Message) -> None:
    """Takes a message."""


class ByMethod:
    def on_message(self, message: Message) -> None:
        """Takes a message."""


@pytest.fixture
def container() -> DefaultMessageListenerContainer:
    return DefaultMessageListenerContainer()


@pytest.mark.fact(
    "spring-jms 1.1/messageSelector", "spring-jms 1.1/sessionTransacted",
    "spring-jms 1.1/autoStartup",
)  # fmt: skip
@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_defaults_are_springs(
    name: str, value: bool | float | None, container: DefaultMessageListenerContainer
) -> None:
    assert getattr(container, name) == value


def test_every_property_is_a_keyword_and_an_attribute() -> None:
    for kind in (DefaultMessageListenerContainer, SimpleMessageListenerContainer):
        assert all(hasattr(kind(), name) for name in kind.OPTIONS)
    assert set(DEFAULTS) - {"connection_factory"} < DefaultMessageListenerContainer.OPTIONS
    with pytest.raises(
        TypeError, match="no option 'receive_time_out'; did you mean 'receive_timeout'"
    ):
        DefaultMessageListenerContainer(receive_time_out=1)  # type: ignore[call-arg]


@pytest.mark.fact("spring-jms 1.1/connectionFactory")
async def test_connection_factory_is_required(container: DefaultMessageListenerContainer) -> None:
    container.destination_name = "q"
    with pytest.raises(ValueError, match="Property 'connection_factory' is required"):
        await container.initialize()
    assert not container.is_active


@pytest.mark.fact("spring-jms 1.1/destination / destinationName")
async def test_a_destination_is_required_and_a_topic_sets_the_domain(
    provider: JmsProvider, container: DefaultMessageListenerContainer
) -> None:
    container.connection_factory = provider
    with pytest.raises(ValueError, match="'destination' or 'destination_name' is required"):
        await container.initialize()
    container.destination = Queue("a")
    assert not container.pub_sub_domain
    container.destination = Topic("b")
    assert container.pub_sub_domain
    assert container.destination_name is None  # type: ignore[unreachable]
    container.destination_name = "c"
    assert container.destination is None


@pytest.mark.fact("spring-jms 1.1/pubSubDomain")
@pytest.mark.parametrize(("topic", "call"), [(False, "createQueue"), (True, "createTopic")])
async def test_pub_sub_domain_says_how_names_are_resolved(
    topic: bool, call: str, provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(listener, pub_sub_domain=topic)
    await container.start()
    await clock.settle()
    assert f"Session.{call}" in provider.calls
    assert provider.open_sessions[0].consumers[0].destination == (Topic if topic else Queue)("q")


def test_reply_domain_follows_until_it_is_set(container: DefaultMessageListenerContainer) -> None:
    container.pub_sub_domain = True
    assert container.reply_pub_sub_domain is True
    container.reply_pub_sub_domain = False
    assert container.reply_pub_sub_domain is False


def test_reply_settings_are_carried(container: DefaultMessageListenerContainer) -> None:
    settings = QosSettings(priority=7)
    container.reply_qos_settings = settings
    assert container.reply_qos_settings is settings


@pytest.mark.fact("spring-jms 1.1/messageSelector")
async def test_the_selector_goes_to_the_consumer(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(listener, message_selector="colour = 'red'")
    await container.start()
    await clock.settle()
    assert provider.open_sessions[0].consumers[0].message_selector == "colour = 'red'"


@pytest.mark.fact("spring-jms 1.1/messageListener")
async def test_a_listener_must_be_one_and_must_be_there(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    for good in (listener, ByMethod(), ByMethod().on_message, lambda m, session: None):
        DefaultMessageListenerContainer(message_listener=good)
    with pytest.raises(ValueError, match="Message listener needs to be"):
        DefaultMessageListenerContainer(message_listener="on_message")  # type: ignore[arg-type]
    container = build(None, error_handler=recorder.on_error)
    provider.send("q", "a")
    await container.start()
    await recorder.until(lambda: bool(recorder.errors))
    assert isinstance(recorder.errors[0], IllegalStateException)
    assert "No message listener specified" in str(recorder.errors[0])
    assert provider.count("ConnectionFactory.createConnection") == {
        "ConnectionFactory.createConnection": 1
    }


@pytest.mark.fact("spring-jms 1.1/subscriptionDurable, subscriptionShared")
@pytest.mark.parametrize("name", ["subscription_durable", "subscription_shared"])
def test_durable_and_shared_set_the_domain(
    name: str, container: DefaultMessageListenerContainer
) -> None:
    setattr(container, name, False)
    assert not container.pub_sub_domain
    setattr(container, name, True)
    assert container.pub_sub_domain
    setattr(container, name, False)  # type: ignore[unreachable]
    assert container.pub_sub_domain


async def test_shared_subscriptions_are_refused_with_a_reason(
    provider: JmsProvider, build: Callable[..., Any]
) -> None:
    container = build(listener, subscription_shared=True)
    with pytest.raises(UnsupportedOperationException, match="OpenWire has no shared"):
        await container.initialize()


def test_subscription_name_is_the_listeners_class_name(
    container: DefaultMessageListenerContainer,
) -> None:
    container.message_listener = ByMethod()
    assert container.subscription_name == f"{ByMethod.__module__}.ByMethod"
    container.message_listener = listener
    assert container.subscription_name == f"{ByMethod.__module__}.ByMethod"
    container.subscription_name = None
    container.message_listener = listener
    assert container.subscription_name == f"{__name__}.listener"


@pytest.mark.fact("spring-jms 1.1/durableSubscriptionName")
def test_durable_subscription_name_makes_durable(
    container: DefaultMessageListenerContainer,
) -> None:
    container.durable_subscription_name = "sub"
    assert (container.subscription_name, container.subscription_durable) == ("sub", True)
    assert not container.pub_sub_domain
    container.durable_subscription_name = None
    assert (container.subscription_name, container.subscription_durable) == (None, False)


@pytest.mark.fact("spring-jms 1.1/pubSubNoLocal")
async def test_no_local_is_for_topics_only(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    for topic in (False, True):
        container = build(listener, pub_sub_domain=topic, pub_sub_no_local=True)
        await container.start()
        await clock.settle()
        await container.shutdown()
    created = [call for call in provider.calls if call.startswith("Session.createConsumer")]
    assert created == ["Session.createConsumer", "Session.createConsumer(None,no_local=True)"]


@pytest.mark.fact("spring-jms 1.1/clientId")
async def test_client_id_is_set_first_and_on_the_shared_connection_only(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(listener, client_id="c1")
    await container.start()
    await clock.settle()
    assert provider.calls[:2] == [
        "ConnectionFactory.createConnection",
        "Connection.setClientID(c1)",
    ]
    await container.shutdown()
    provider.calls.clear()
    container = build(listener, client_id="c1", cache_level="NONE")
    await container.start()
    await clock.advance(1.5)
    assert "Connection.createSession(transacted=false,ack=1)" in provider.calls
    assert "Connection.setClientID(c1)" not in provider.calls


@pytest.mark.fact("spring-jms 1.1/sessionAcknowledgeMode")
def test_acknowledge_modes_by_name_and_by_number(
    container: DefaultMessageListenerContainer,
) -> None:
    names = {"AUTO_ACKNOWLEDGE": 1, "CLIENT_ACKNOWLEDGE": 2, "DUPS_OK_ACKNOWLEDGE": 3,
             "SESSION_TRANSACTED": 0}  # fmt: skip
    for name, number in names.items():
        container.session_acknowledge_mode = name
        assert container.session_acknowledge_mode == number
    for number in (4, 42):
        container.session_acknowledge_mode = number
        assert container.session_acknowledge_mode == number
    assert container.session_acknowledge_mode == 42
    with pytest.raises(ValueError, match="INDIVIDUAL_ACKNOWLEDGE"):
        container.session_acknowledge_mode = "INDIVIDUAL_ACKNOWLEDGE"


def test_known_modes_are_enum_members(container: DefaultMessageListenerContainer) -> None:
    container.session_acknowledge_mode = 4
    assert container.session_acknowledge_mode is AcknowledgeMode.INDIVIDUAL


@pytest.mark.fact("spring-jms 1.1/receiveTimeout")
@pytest.mark.parametrize("timeout", [0, None, 2.5])
async def test_receive_timeout_is_handed_to_receive(
    timeout: float | None, provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(listener, receive_timeout=timeout, max_messages_per_task=1)

    async def once(consumer: Any, message: Message | None) -> None:
        container.receive_timeout = 60

    provider.on_receive = once
    await container.start()
    await clock.advance(3)
    assert provider.timeouts[0] == timeout
    answered = provider.calls.count("receive=null")
    assert answered == (0 if timeout is None else 1)


@pytest.mark.fact(
    "spring-jms 1.1/maxMessagesPerTask", "spring-jms 1.1/idleConsumerLimit",
    "spring-jms 1.1/idleTaskExecutionLimit", "spring-jms 1.1/idleReceivesPerTaskLimit",
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("max_messages_per_task", 0),
        ("idle_receives_per_task_limit", 0),
        ("idle_consumer_limit", 0),
        ("idle_task_execution_limit", 0),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    name: str, bad: int, container: DefaultMessageListenerContainer
) -> None:
    with pytest.raises(ValueError, match=name):
        setattr(container, name, bad)
    setattr(container, name, 3)
    assert getattr(container, name) == 3


def test_negative_means_unlimited(container: DefaultMessageListenerContainer) -> None:
    container.max_messages_per_task = -1
    container.idle_receives_per_task_limit = -1
    assert container.max_messages_per_task == -1


@pytest.mark.fact("spring-jms 1.1/cacheLevel", "spring-jms 1.2.1")
def test_cache_levels_by_name_and_number(container: DefaultMessageListenerContainer) -> None:
    names = ["CACHE_NONE", "CACHE_CONNECTION", "CACHE_SESSION", "CACHE_CONSUMER", "CACHE_AUTO"]
    for number, name in enumerate(names):
        container.cache_level = name
        assert container.cache_level == number
        container.cache_level = number
        assert container.cache_level is CacheLevel(number)
    for bad in ("CACHE_ALL", 5, -1):
        with pytest.raises(ValueError, match=str(bad)):
            container.cache_level = bad


@pytest.mark.fact("spring-jms 1.1/backOff / recoveryInterval")
def test_the_last_of_back_off_and_recovery_interval_wins() -> None:
    fixed = DefaultMessageListenerContainer().back_off
    assert isinstance(fixed, FixedBackOff)
    assert (fixed.interval, fixed.max_attempts) == (5.0, None)
    growing = ExponentialBackOff()
    both = DefaultMessageListenerContainer(back_off=growing, recovery_interval=2.0)
    assert both.recovery_interval == 2.0
    both.back_off = growing
    assert both.back_off is growing
    assert both.recovery_interval is None


def test_the_default_helpers(container: DefaultMessageListenerContainer) -> None:
    assert isinstance(container.destination_resolver, SimpleDestinationResolver)
    assert isinstance(container.task_executor, SimpleAsyncTaskExecutor)


@pytest.mark.fact(
    "spring-jms 1.1/exposeListenerSession", "spring-jms 1.1/acceptMessagesWhileStopping"
)
def test_plain_switches(container: DefaultMessageListenerContainer) -> None:
    assert container.phase == 2**31 - 1
    assert container.expose_listener_session
    assert not container.accept_messages_while_stopping


@pytest.mark.fact("spring-jms 1.3.1")
def test_concurrency_sets_both_numbers(container: DefaultMessageListenerContainer) -> None:
    container.concurrency = "3-5"
    assert (container.concurrent_consumers, container.max_concurrent_consumers) == (3, 5)
    container = DefaultMessageListenerContainer(concurrency="5")
    assert (container.concurrent_consumers, container.max_concurrent_consumers) == (1, 5)
    assert container.concurrency == "1-5"
    for bad in ("a", "1-", "3:5", "", "-3"):
        with pytest.raises(ValueError, match=repr(bad)):
            container.concurrency = bad


@pytest.mark.fact("spring-jms 1.3.2", "spring-jms 1.1/concurrentConsumers / maxConcurrentConsumers")
def test_the_two_numbers_keep_their_order(container: DefaultMessageListenerContainer) -> None:
    container.concurrent_consumers = 4
    assert container.max_concurrent_consumers == 4
    container.max_concurrent_consumers = 1
    assert container.max_concurrent_consumers == 4
    for name in ("concurrent_consumers", "max_concurrent_consumers"):
        with pytest.raises(ValueError, match=name):
            setattr(container, name, 0)


@pytest.mark.fact("spring-jms 1.3.3")
def test_a_lower_upper_number_is_raised(container: DefaultMessageListenerContainer) -> None:
    container.concurrency = "3-2"
    assert (container.concurrent_consumers, container.max_concurrent_consumers) == (3, 3)


@pytest.mark.fact("spring-jms 1.2.2")
@pytest.mark.parametrize(
    ("external", "level"), [(True, CacheLevel.NONE), (False, CacheLevel.CONSUMER)]
)
async def test_auto_is_resolved_at_initialisation(
    external: bool, level: CacheLevel, provider: JmsProvider, build: Callable[..., Any]
) -> None:
    class Manager:
        connection_factory = provider

    container = build(listener, transaction_manager=Manager() if external else None)
    assert container.cache_level is CacheLevel.AUTO
    await container.initialize()
    assert container.cache_level is level


def test_the_signature_names_the_connection_factory_first() -> None:
    assert (
        next(iter(inspect.signature(DefaultMessageListenerContainer).parameters))
        == "connection_factory"
    )


def test_a_name_in_the_place_of_a_destination() -> None:
    with pytest.raises(TypeError, match="write destination_name='orders'"):
        DefaultMessageListenerContainer(destination="orders")  # type: ignore[arg-type]
