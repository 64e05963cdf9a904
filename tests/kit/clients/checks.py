"""A check that a broker serves OpenWire clients: a message makes a round trip."""

from __future__ import annotations

from pyjms.aio import ConnectionFactory, TextMessage

__all__ = ["exchange_message"]


async def exchange_message(url: str, queue: str, *login: str) -> None:
    """Send a message to `queue` and receive it; `login` is the user and the password."""
    factory = ConnectionFactory(url)
    async with (
        await factory.create_connection(*login) as connection,
        await connection.create_session() as session,
    ):
        await connection.start()
        destination = session.create_queue(queue)
        async with await session.create_producer(destination) as producer:
            await producer.send(session.create_text_message("hello"))
        async with await session.create_consumer(destination) as consumer:
            received = await consumer.receive(timeout=10)
    assert isinstance(received, TextMessage)
    assert received.text == "hello"
