"""A plain topic: every subscriber gets every text that is sent while it listens."""

from __future__ import annotations

import sys

import anyio

from pyjms.aio import ConnectionFactory, Message, Session, TextMessage

TEXTS = 3


async def main() -> None:
    factory = ConnectionFactory("vm://topic?broker.persistent=false")
    async with await factory.create_connection() as connection:
        await connection.start()
        done = [anyio.Event(), anyio.Event()]
        for number, event in enumerate(done, start=1):
            await subscribe(await connection.create_session(), f"subscriber {number}", event)
        session = await connection.create_session()
        async with await session.create_producer(session.create_topic("test_topic")) as producer:
            for number in range(1, TEXTS + 1):
                await producer.send(session.create_text_message(f"text {number}"))
        for event in done:
            await event.wait()


async def subscribe(session: Session, name: str, done: anyio.Event) -> None:
    seen = 0

    def on_message(message: Message) -> None:
        nonlocal seen
        assert isinstance(message, TextMessage)
        print(f"{name}: {message.text}")
        seen += 1
        if seen == TEXTS:
            done.set()

    consumer = await session.create_consumer(session.create_topic("test_topic"))
    await consumer.set_message_listener(on_message)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
