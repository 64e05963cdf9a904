"""The producers and consumers of `pyjms broker producer` and `consumer`.

Source: ActiveMQ ProducerThread, ConsumerThread. (activemq-edges CL8)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.jms.bodies import BytesMessage, TextMessage
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock

__all__ = ["Consumption", "Production", "Report", "Run", "consume", "produce"]

Report = Callable[[str], None]
"""Called with each line to print."""

_PAUSE = 3.0
"""Receive timeout in seconds, after which a consumer waits again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """The workload of each producer."""

    destination: Destination
    count: int
    persistent: bool = True
    sleep: float = 0
    """Seconds between two messages."""
    batch: int = 0
    """Messages per transaction; 0: no transactions."""
    parallel: int = 1
    time_to_live: float | None = None
    """Seconds."""
    size: int = 0
    """Bytes of each message; 0: a short text."""
    text: str | None = None
    group: str | None = None

    def message(self, number: int) -> Message:
        """Return message `number`, counted from 0."""
        message: Message
        if self.text is not None:
            message = TextMessage(self.text)
        elif self.size:
            message = BytesMessage(bytes(self.size))
        else:
            message = TextMessage(f"test message: {number}")
        message.group_id = self.group
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The workload of each consumer."""

    destination: Destination
    count: int
    sleep: float = 0
    """Seconds between two messages."""
    mode: AcknowledgeMode = AcknowledgeMode.AUTO
    batch: int = 10
    """Messages acknowledged or committed together, in the modes that allow it."""
    parallel: int = 1
    durable: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Base class of producers and consumers."""

    factory: ConnectionFactory
    report: Report
    on_messages: Callable[[int], None]
    """Called with the number of messages that were just sent or received."""


async def produce(run: Run, production: Production) -> None:
    """Run all producers until they have sent their messages. Cancellable.

    Raises:
        JMSException: the broker cannot be reached, or refused a message.
    """

    async def one(connection: ActiveMQConnection, _name: str) -> int:
        session = await connection.create_session(transacted=production.batch > 0)
        producer = await session.create_producer(production.destination)
        mode = DeliveryMode.PERSISTENT if production.persistent else DeliveryMode.NON_PERSISTENT
        for number in range(production.count):
            message = production.message(number)
            await producer.send(message, delivery_mode=mode, time_to_live=production.time_to_live)
            if production.batch and (number + 1) % production.batch == 0:
                await session.commit()
            run.on_messages(1)
            if production.sleep:
                await _clock.sleep(production.sleep)
        if production.batch:
            await session.commit()
        return production.count

    await _in_parallel(run, production.parallel, "producer", "Produced", one)


async def consume(run: Run, consumption: Consumption) -> None:
    """Run all consumers until they have received their messages, without a timeout. Cancellable.

    Raises:
        JMSException: the broker cannot be reached, or refused a request.
    """
    transacted = consumption.mode is AcknowledgeMode.TRANSACTED

    async def one(connection: ActiveMQConnection, name: str) -> int:
        session = await connection.create_session(transacted, consumption.mode)
        destination = consumption.destination
        if consumption.durable:
            assert isinstance(destination, Topic), "checked by the command"
            consumer = await session.create_durable_subscriber(destination, name)
        else:
            consumer = await session.create_consumer(destination)
        await connection.start()
        received = 0
        while received < consumption.count:
            message = await consumer.receive(_PAUSE)
            if message is None:
                continue
            received += 1
            if consumption.verbose:
                run.report(f"{name} Received {message.message_id}")
            if received % consumption.batch == 0 or received == consumption.count:
                if transacted:
                    await session.commit()
                elif consumption.mode is AcknowledgeMode.CLIENT:
                    await message.acknowledge()
            run.on_messages(1)
            if consumption.sleep:
                await _clock.sleep(consumption.sleep)
        await consumer.close()  # its prefetched messages return to the other consumers
        return received

    await _in_parallel(run, consumption.parallel, "consumer", "Consumed", one)


async def _in_parallel(
    run: Run,
    parallel: int,
    kind: str,
    done: str,
    one: Callable[[ActiveMQConnection, str], Awaitable[int]],
) -> None:
    async def time_one(connection: ActiveMQConnection, name: str) -> None:
        started = _clock.now()
        count = await one(connection, name)
        seconds = max(_clock.now() - started, 1e-6)
        run.report(f"{name} {done}: {count} messages")
        run.report(
            f"{name} Elapsed time in second : {seconds:.3f} s, {count / seconds:.0f} messages/s"
        )

    async with await run.factory.create_connection() as connection:
        failures: list[Exception] = []

        async def run_one(name: str) -> None:
            try:
                await time_one(connection, name)
            except Exception as error:  # the first is raised alone, not in an ExceptionGroup
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for number in range(1, parallel + 1):
                group.start_soon(run_one, f"{kind}-{number}")
    if failures:
        raise failures[0]
