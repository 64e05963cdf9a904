"""The filter chain: the base classes of broker filters and of the region broker.

Each behaviour of the broker (stop guard, transactions, composite destinations, advisories ...)
is a `BrokerFilter` in its own module; `pyjms_broker.service.filter_chain` assembles them in one
list around the region broker. Methods run to completion on the broker's event loop. Any method may
raise a JMSException, which becomes the client's response. (activemq-broker B1 to B6)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Concatenate, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar, cast

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.errors import IllegalStateException
from pyjms.wire.openwire import commands
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.message import MessageReference

__all__ = ["BrokerFilter", "BrokerPlugin", "InnermostBroker", "PluginFilter", "intercepted"]

_Plugin = TypeVar("_Plugin")
_B = TypeVar("_B")
_P = ParamSpec("_P")
_R = TypeVar("_R")

_NEXT: Final = attrgetter("next")
_ONCE_A_MESSAGE: Final = (
    "send",
    "acknowledge",
    "message_pull",
    "message_consumed",
    "message_dispatched",
    "message_delivered",
)


def intercepted(
    method: Callable[Concatenate[_B, _P], _R],
    handle: Callable[[Any, tuple[Any, ...], Callable[[], _R]], _R],
) -> Callable[Concatenate[Any, _P], _R]:
    """Return a filter's method with the name and the signature of `method`.

    A call returns `handle(filter, arguments, proceed)`; `proceed` calls the next broker with the
    same arguments. Calls that happen once for each message are better written out.
    """
    forward = delegated(method, _NEXT)

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        arguments = (*cast("tuple[Any, ...]", args), *kwargs.values())
        return handle(self, arguments, lambda: forward(self, *args, **kwargs))

    return call


class BrokerPlugin(Protocol):
    """Installs a filter into the chain. Source: ActiveMQ BrokerPlugin."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the new outermost broker of the chain, usually a BrokerFilter around `broker`."""


class BrokerFilter(Broker):
    """Forwards every call to the next broker of the chain; override methods as needed.

    A filter that does not override a method in `_ONCE_A_MESSAGE` adds no cost per message: its
    caller directly calls the next broker that overrides it. Therefore only `connect` sets `next`.

    Source: ActiveMQ BrokerFilter.
    """

    def __init__(self, next_broker: Broker) -> None:
        self.connect(next_broker)

    def connect(self, next_broker: Broker) -> None:
        """Forward all calls to `next_broker` from now on.

        The filters around this one must be reconnected, from the inside out, because they may call
        brokers behind it directly.
        """
        self.next = next_broker
        for name in _ONCE_A_MESSAGE:
            if getattr(type(self), name) is getattr(BrokerFilter, name):
                setattr(self, name, getattr(next_broker, name))

    broker_name = DelegatedAttribute[str](_NEXT, "The broker's name.", read_only=True)

    @property
    def scheduler_support(self) -> bool:
        """Whether messages with AMQ_SCHEDULED_DELAY are scheduled."""
        return self.next.scheduler_support

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    @property
    def authenticates_clients(self) -> bool:
        return self.next.authenticates_clients

    # called for each message, so written out
    def send(self, exchange: ProducerExchange, message: commands.ActiveMQMessage) -> Completion:
        return self.next.send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: commands.MessageAck) -> Completion:
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: commands.MessagePull) -> None:
        self.next.message_pull(context, pull)

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_consumed(context, reference)

    is_awaited = delegated(Broker.is_awaited, _NEXT)
    authenticate = delegated(Broker.authenticate, _NEXT)
    add_connection = delegated(Broker.add_connection, _NEXT)
    remove_connection = delegated(Broker.remove_connection, _NEXT)
    add_session = delegated(Broker.add_session, _NEXT)
    remove_session = delegated(Broker.remove_session, _NEXT)
    add_producer = delegated(Broker.add_producer, _NEXT)
    remove_producer = delegated(Broker.remove_producer, _NEXT)
    add_consumer = delegated(Broker.add_consumer, _NEXT)
    remove_consumer = delegated(Broker.remove_consumer, _NEXT)
    remove_subscription = delegated(Broker.remove_subscription, _NEXT)
    process_consumer_control = delegated(Broker.process_consumer_control, _NEXT)

    add_destination_info = delegated(Broker.add_destination_info, _NEXT)
    remove_destination_info = delegated(Broker.remove_destination_info, _NEXT)
    add_destination = delegated(Broker.add_destination, _NEXT)
    remove_destination = delegated(Broker.remove_destination, _NEXT)
    destinations = delegated(Broker.destinations, _NEXT)

    begin_transaction = delegated(Broker.begin_transaction, _NEXT)
    prepare_transaction = delegated(Broker.prepare_transaction, _NEXT)
    commit_transaction = delegated(Broker.commit_transaction, _NEXT)
    rollback_transaction = delegated(Broker.rollback_transaction, _NEXT)
    forget_transaction = delegated(Broker.forget_transaction, _NEXT)
    set_rollback_only = delegated(Broker.set_rollback_only, _NEXT)
    prepared_transactions = delegated(Broker.prepared_transactions, _NEXT)

    message_expired = delegated(Broker.message_expired, _NEXT)
    send_to_dead_letter_queue = delegated(Broker.send_to_dead_letter_queue, _NEXT)
    message_discarded = delegated(Broker.message_discarded, _NEXT)
    slow_consumer = delegated(Broker.slow_consumer, _NEXT)
    message_delivered = delegated(Broker.message_delivered, _NEXT)
    message_dispatched = delegated(Broker.message_dispatched, _NEXT)
    message_without_consumers = delegated(Broker.message_without_consumers, _NEXT)
    fast_producer = delegated(Broker.fast_producer, _NEXT)
    destination_full = delegated(Broker.destination_full, _NEXT)
    now_master_broker = delegated(Broker.now_master_broker, _NEXT)
    network_bridge_started = delegated(Broker.network_bridge_started, _NEXT)
    network_bridge_stopped = delegated(Broker.network_bridge_stopped, _NEXT)
    network_forward_failed = delegated(Broker.network_forward_failed, _NEXT)


class PluginFilter(BrokerFilter, Generic[_Plugin]):
    """The filter of a plug-in, which reads the options of `plugin`."""

    def __init__(self, next_broker: Broker, plugin: _Plugin) -> None:
        super().__init__(next_broker)
        self.plugin = plugin


class InnermostBroker(Broker):
    """The base of the region broker, with the methods that filters around it handle.

    It refuses transactions and ignores events that are only for filters.
    """

    broker_name: str = ""
    scheduler_support: bool = False

    @property
    def authenticates_clients(self) -> bool:
        return False

    def authenticate(self, context: ConnectionContext, info: commands.ConnectionInfo) -> Completion:
        """Admit every client."""
        return COMPLETED

    def _refuse_transaction(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise IllegalStateException(
            "A transaction call reached the region broker", hint="put a TransactionBroker around it"
        )

    begin_transaction = _refuse_transaction
    prepare_transaction = _refuse_transaction
    commit_transaction = _refuse_transaction
    rollback_transaction = _refuse_transaction
    forget_transaction = _refuse_transaction
    set_rollback_only = _refuse_transaction

    def _ignore_event(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing, because the event is for filters."""

    message_consumed = _ignore_event
    message_delivered = _ignore_event
    message_dispatched = _ignore_event
    message_without_consumers = _ignore_event
    message_discarded = _ignore_event
    slow_consumer = _ignore_event
    fast_producer = _ignore_event
    destination_full = _ignore_event
    now_master_broker = _ignore_event
    network_bridge_started = _ignore_event
    network_bridge_stopped = _ignore_event
    network_forward_failed = _ignore_event

    def is_awaited(self, reference: MessageReference) -> bool:
        """Return False: only connected consumers count."""
        return False

    def prepared_transactions(self, context: ConnectionContext) -> list[commands.XATransactionId]:
        """Return an empty list: there are no transactions."""
        return []
