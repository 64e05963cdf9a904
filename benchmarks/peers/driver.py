"""Our client's driver for the side-by-side benchmark: its coroutine API, one method per role.

Run by the benchmark's harness, whose folder of drivers is on the path (`benchlib`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from benchlib import Adapter, main

from pyjms.aio import (
    CacheLevel,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    DeliveryMode,
    Message,
    Session,
    TextMessage,
)

OnBody = Callable[[str], object]
KINDS = {"queue": "create_queue", "topic": "create_topic", "vtopic": "create_topic"}


def _destination(session: Session, spec: dict[str, Any]) -> Any:
    if spec["kind"] == "vqueue":
        return session.create_queue(f"Consumer.{spec['name']}.VirtualTopic.{spec['dest']}")
    name = f"VirtualTopic.{spec['dest']}" if spec["kind"] == "vtopic" else spec["dest"]
    return getattr(session, KINDS[spec["kind"]])(name)


def _text(message: Message) -> str:
    assert isinstance(message, TextMessage)
    return message.text or ""


class _Opened:
    connection: Any
    session: Any

    async def open_session(self, cfg: Any, *, transacted: bool = False) -> None:
        self.connection = await cfg.factory.create_connection()
        self.session = await self.connection.create_session(transacted)
        await self.connection.start()

    async def close(self) -> None:
        await self.connection.close()


class Producer(_Opened):
    async def open(self, cfg: Any, spec: dict[str, Any]) -> Producer:
        self.batch = spec["batch"] if spec["mode"] == "tx" else 0
        await self.open_session(cfg, transacted=bool(self.batch))
        self.producer = await self.session.create_producer(_destination(self.session, spec))
        mode = DeliveryMode.PERSISTENT if spec["persistent"] else DeliveryMode.NON_PERSISTENT
        self.producer.delivery_mode = mode
        self.sent = 0
        self.barrier = spec["mode"] == "async"
        return self

    async def send(self, body: str) -> None:
        await self.producer.send(self.session.create_text_message(body))
        if self.batch:
            self.sent += 1
            if self.sent == self.batch:
                await self.flush()

    async def flush(self) -> None:
        if self.batch:
            if self.sent:
                self.sent = 0
                await self.session.commit()
        elif self.barrier:
            # opening a producer is answered after all that was sent before has been read
            await (await self.session.create_producer(None)).close()


class Consumer(_Opened):
    async def open(self, cfg: Any, spec: dict[str, Any], on_body: OnBody) -> Consumer:
        self.batch = spec["batch"] if spec["mode"] == "tx" else 0
        await self.open_session(cfg, transacted=bool(self.batch))
        self.received = 0
        self.on_body = on_body
        consumer = await self.session.create_consumer(_destination(self.session, spec))
        await consumer.set_message_listener(self.in_batches if self.batch else self.one)
        return self

    def one(self, message: Message) -> None:
        self.on_body(_text(message))

    async def in_batches(self, message: Message) -> None:
        self.on_body(_text(message))
        self.received += 1
        if self.received >= self.batch:
            await self.flush()

    async def flush(self) -> None:
        if self.batch and self.received:
            self.received = 0
            await self.session.commit()


class Container:
    async def open(self, cfg: Any, spec: dict[str, Any], on_body: OnBody) -> Container:
        async def handle(message: Message) -> None:
            on_body(_text(message))

        self.container = DefaultMessageListenerContainer(
            cfg.factory,
            destination_name=spec["dest"],
            message_listener=handle,
            session_transacted=True,
            cache_level=CacheLevel.CONSUMER,
            concurrency=str(spec["concurrency"]),
        )
        await self.container.start()
        return self

    async def close(self) -> None:
        await self.container.shutdown()


class Responder(_Opened):
    async def open(self, cfg: Any, dest: str) -> Responder:
        await self.open_session(cfg)
        producer = await self.session.create_producer(None)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT

        async def answer(message: Message) -> None:
            reply = self.session.create_text_message(_text(message))
            reply.correlation_id = message.correlation_id or message.message_id
            await producer.send(reply, destination=message.reply_to)

        consumer = await self.session.create_consumer(self.session.create_queue(dest))
        await consumer.set_message_listener(answer)
        return self


class Requester(_Opened):
    async def open(self, cfg: Any, dest: str) -> Requester:
        await self.open_session(cfg)
        self.producer = await self.session.create_producer(self.session.create_queue(dest))
        self.producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        self.replies = await self.session.create_temporary_queue()
        self.consumer = await self.session.create_consumer(self.replies)
        return self

    async def request(self, body: str) -> str | None:
        message = self.session.create_text_message(body)
        message.reply_to = self.replies
        await self.producer.send(message)
        reply = await self.consumer.receive(20)
        return None if reply is None else _text(reply)


class MultiSender(_Opened):
    async def open(self, cfg: Any) -> MultiSender:
        await self.open_session(cfg)
        self.producer = await self.session.create_producer(None)
        self.producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        return self

    async def send_to(self, dest: str, body: str) -> None:
        queue = self.session.create_queue(dest)
        await self.producer.send(self.session.create_text_message(body), destination=queue)


class PyJms(Adapter):  # type: ignore[misc]
    """The adapter: one connection factory, a connection for each role."""

    client = "pyjms"
    is_async = True

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        url = cfg.url
        if url.startswith("vm:") and "persistent" not in url:
            url += "?broker.persistent=false"  # this version's brokers keep nothing on disk
        cfg.factory = ConnectionFactory(url)

    async def producer(self, spec: dict[str, Any]) -> Producer:
        return await Producer().open(self.cfg, spec)

    async def consumer(self, spec: dict[str, Any], on_body: OnBody) -> Consumer:
        return await Consumer().open(self.cfg, spec, on_body)

    async def container(self, spec: dict[str, Any], on_body: OnBody) -> Container:
        return await Container().open(self.cfg, spec, on_body)

    async def responder(self, dest: str) -> Responder:
        return await Responder().open(self.cfg, dest)

    async def requester(self, dest: str) -> Requester:
        return await Requester().open(self.cfg, dest)

    async def multi_sender(self) -> MultiSender:
        return await MultiSender().open(self.cfg)


if __name__ == "__main__":
    if "--loop" not in sys.argv and importlib.util.find_spec("uvloop") is not None:
        sys.argv += ["--loop", "uvloop"]  # as pyjms itself chooses where it runs the loop
    main(PyJms)
