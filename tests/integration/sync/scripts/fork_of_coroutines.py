"""Coroutines that fork: the child runs a new event loop without the parent's connections."""

import asyncio
import multiprocessing
import sys

from pyjms import IllegalStateException, aio

factory = aio.ConnectionFactory(sys.argv[1])
caching = aio.CachingConnectionFactory(factory)
template = aio.JmsTemplate(caching, receive_timeout=10)
inherited: dict = {}


async def in_child() -> None:
    calls = (
        inherited["connection"].create_session,
        inherited["connection"].start,
        lambda: inherited["consumer"].receive(10),
        lambda: inherited["session"].create_producer(aio.Queue("x")),
        lambda: inherited["producer"].send(inherited["message"]),
    )
    for call in calls:
        try:
            await call()
        except IllegalStateException as error:
            assert "before this process was forked" in str(error), error
        else:
            raise AssertionError(f"{call} is possible in the child")
    await inherited["connection"].close()
    await template.convert_and_send("scripts.coroutines", "of the child")
    await caching.destroy()


def child() -> None:
    asyncio.run(in_child())


async def main() -> None:
    connection = inherited["connection"] = await factory.create_connection()
    await connection.start()
    session = inherited["session"] = await connection.create_session()
    queue = aio.Queue("scripts.coroutines.parent")
    consumer = inherited["consumer"] = await session.create_consumer(queue)
    producer = inherited["producer"] = await session.create_producer(queue)
    message = inherited["message"] = session.create_text_message("x")
    await template.convert_and_send("scripts.coroutines", "of the parent")
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    await asyncio.to_thread(process.join)
    assert process.exitcode == 0, process.exitcode
    await producer.send(message)
    assert (await consumer.receive(10)).text == "x"
    received = {await template.receive_and_convert("scripts.coroutines")}
    if sys.argv[1].startswith("tcp:"):
        received.add(await template.receive_and_convert("scripts.coroutines"))
        assert received == {"of the parent", "of the child"}, received
    await caching.destroy()
    await connection.close()


asyncio.run(main())
print("done")
