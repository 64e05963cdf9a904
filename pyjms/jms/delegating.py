"""Sessions and consumers that delegate to others: the base classes of wrappers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final

from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import (
    MessageAvailableListener,
    MessageConsumer,
    MessageListener,
    Session,
    with_handle,
)
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.runtime.forwarding import DelegatedAttribute, delegate

target_of = methodcaller("_target")
_used_target_of = methodcaller("_used_target")
_consumer_of = methodcaller("_consumer")


class DelegatingSession(Session):
    """Delegates every call except `close` to the session that `_target()` returns."""

    @abstractmethod
    def _target(self) -> Session:
        """Return the session to delegate to; raise if it is no longer available."""

    def _used_target(self) -> Session:
        """Return it for a call that may leave something behind in its transaction."""
        return self._target()

    @property
    def transacted(self) -> bool:
        return self._target().transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._target().acknowledge_mode

    stats: DelegatedAttribute[Any] = DelegatedAttribute(target_of, read_only=True)  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(
        target_of, read_only=True
    )  # ActiveMQ's
    message_listener: Final = DelegatedAttribute[MessageListener | None](target_of, read_only=True)

    run: Final = delegate(Session.run, target_of)
    set_message_listener = delegate(Session.set_message_listener, target_of)
    create_queue = delegate(Session.create_queue, target_of)
    create_topic = delegate(Session.create_topic, target_of)
    create_message: Final = delegate(Session.create_message, target_of)
    create_text_message = delegate(Session.create_text_message, target_of)
    create_bytes_message = delegate(Session.create_bytes_message, target_of)
    create_map_message: Final = delegate(Session.create_map_message, target_of)
    create_stream_message: Final = delegate(Session.create_stream_message, target_of)
    create_object_message: Final = delegate(Session.create_object_message, target_of)
    create_blob_message: Final = delegate(Session.create_blob_message, target_of)
    create_temporary_queue = delegate(Session.create_temporary_queue, target_of)
    create_temporary_topic = delegate(Session.create_temporary_topic, target_of)
    delete_temporary = delegate(Session.delete_temporary, target_of)
    create_producer = delegate(Session.create_producer, target_of)
    create_consumer = delegate(Session.create_consumer, target_of)
    create_pull_consumer = delegate(Session.create_pull_consumer, target_of)
    create_durable_subscriber = delegate(Session.create_durable_subscriber, target_of)
    create_shared_consumer = delegate(Session.create_shared_consumer, _used_target_of)
    create_shared_durable_consumer = delegate(
        Session.create_shared_durable_consumer, _used_target_of
    )
    create_browser = delegate(Session.create_browser, _used_target_of)
    unsubscribe = delegate(Session.unsubscribe, target_of)
    commit = delegate(Session.commit, target_of)
    rollback = delegate(Session.rollback, target_of)
    wait_for_completions: Final = delegate(Session.wait_for_completions, target_of)
    recover: Final = delegate(Session.recover, target_of)
    add_synchronization = delegate(Session.add_synchronization, _used_target_of)
    set_local_transaction_event_listener = delegate(
        Session.set_local_transaction_event_listener, target_of
    )


class DelegatingConsumer(MessageConsumer):
    """Delegates every call to the consumer `_target`, and announces its messages with itself."""

    def __init__(self, target: MessageConsumer) -> None:
        self._target = target

    def _consumer(self) -> MessageConsumer:
        """Return the target; subclasses raise if it cannot be used any more."""
        return self._target

    destination: Final = DelegatedAttribute[Destination](_consumer_of, read_only=True)
    message_selector: Final = DelegatedAttribute[str | None](_consumer_of, read_only=True)
    stats: DelegatedAttribute[Any] = DelegatedAttribute(_consumer_of, read_only=True)  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(
        _consumer_of, read_only=True
    )  # ActiveMQ's

    @property
    def is_closed(self) -> bool:
        return self._target.is_closed

    @property
    def message_listener(self) -> MessageListener | None:
        return self._consumer().message_listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        await self._consumer().set_message_listener(listener)

    async def set_message_available_listener(
        self, listener: MessageAvailableListener | None
    ) -> None:
        await self._consumer().set_message_available_listener(with_handle(listener, self))

    async def receive(self, timeout: float | None = None) -> Message | None:
        return await self._target.receive(timeout)

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        return await self._target.receive_checked(check, timeout)

    async def close(self) -> None:
        await self._target.close()
