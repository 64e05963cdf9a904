"""A session that delegates every call; the base of the cached session."""

from __future__ import annotations

from abc import abstractmethod

from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import (
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
    Session,
)
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message

__all__ = ["DelegatingSession"]


class DelegatingSession(Session):
    """Delegates every call to `_target()`, which may raise."""

    @abstractmethod
    def _target(self) -> Session:
        """Return the session to delegate to."""

    @property
    def transacted(self) -> bool:
        """That of the target."""
        return self._target().transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """That of the target."""
        return self._target().acknowledge_mode

    @property
    def message_listener(self) -> MessageListener | None:
        """That of the target."""
        return self._target().message_listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        await self._target().set_message_listener(listener)

    def create_queue(self, name: str) -> Queue:
        return self._target().create_queue(name)

    def create_topic(self, name: str) -> Topic:
        return self._target().create_topic(name)

    def create_message(self) -> Message:
        return self._target().create_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return self._target().create_text_message(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        return self._target().create_bytes_message(data)

    def create_map_message(self) -> MapMessage:
        return self._target().create_map_message()

    def create_stream_message(self) -> StreamMessage:
        return self._target().create_stream_message()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        return self._target().create_object_message(data)

    async def create_temporary_queue(self) -> TemporaryQueue:
        return await self._target().create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        return await self._target().create_temporary_topic()

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        await self._target().delete_temporary(destination)

    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        return await self._target().create_producer(destination)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        return await self._target().create_consumer(destination, selector, no_local=no_local)

    async def create_pull_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        timeout: float | None = None,
    ) -> MessageConsumer:
        return await self._target().create_pull_consumer(
            destination, selector, no_local=no_local, timeout=timeout
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        return await self._target().create_durable_subscriber(
            topic, name, selector, no_local=no_local
        )

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        return await self._target().create_browser(queue, selector)

    async def unsubscribe(self, name: str) -> None:
        await self._target().unsubscribe(name)

    async def commit(self) -> None:
        await self._target().commit()

    async def rollback(self) -> None:
        await self._target().rollback()

    async def recover(self) -> None:
        await self._target().recover()
