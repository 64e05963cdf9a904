"""A broker outside the test's process, as used by `JmsTestApp`: only through JMS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import (
    ConfigurationException,
    JMSException,
    RequestTimeoutException,
    ResourceAllocationException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, parse_destination
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ConnectionId

_LOOK_AGAIN: Final = 0.02
"""Seconds between two checks of a queue."""
_DEAD_LETTER_DELAY: Final = 0.5
"""Seconds until a dead letter is in its queue: ActiveMQ removes the message first."""


class RemoteBroker:
    """Waits for the queues of a broker to be empty, and reads its dead letters, by browsing.

    The broker may have been used before: dead letters from before `begin` are not returned.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._old: set[str | None] = set()

    async def begin(self) -> None:
        """Note the dead letters of earlier tests."""
        found = await self._browse(Queue(DEFAULT_DEAD_LETTER_QUEUE))
        self._old = {message.message_id for message in found}

    async def drained(self, name: str, timeout: float | None = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Raises:
            RequestTimeoutException: it still has messages after `timeout` seconds of real time.
        """
        queue = parse_destination(name)
        clock = _clock.SystemClock()
        left = await self._browse(queue)
        with clock.timeout(timeout):
            while left:
                await clock.sleep(_LOOK_AGAIN)
                left = await self._browse(queue)
        if not left:
            return
        raise RequestTimeoutException(
            f"{queue} was not drained within {timeout} s: {len(left)} messages",
            hint="check that a listener consumes it, is started and acknowledges",
        )

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[Message]:
        """Return dead letters since `begin`, oldest first, without removing them.

        `name` is a dead-letter queue, or the destination to which they were sent originally.
        """
        clock = _clock.SystemClock()
        wanted = parse_destination(name)
        found = await self._dead_letters(wanted)
        with clock.timeout(_DEAD_LETTER_DELAY):
            while not found:
                await clock.sleep(_LOOK_AGAIN)
                found = await self._dead_letters(wanted)
        return found

    async def _dead_letters(self, wanted: Destination) -> list[Message]:
        common = Queue(DEFAULT_DEAD_LETTER_QUEUE)
        found = [m for m in await self._browse(common) if m.message_id not in self._old]
        if wanted == common:
            return found
        of_destination = [message for message in found if message.original_destination == wanted]
        return of_destination or await self._browse(wanted)

    async def drop_connections(self, of: ConnectionId | None = None) -> int:
        """Raise: only the embedded broker's connections can be broken.

        Raises:
            UnsupportedOperationException: always.
        """
        raise _embedded_only("break connections")

    async def restart(self) -> None:
        """Raise: only the embedded broker can be restarted.

        Raises:
            UnsupportedOperationException: always.
        """
        raise _embedded_only("restart the broker")

    async def _browse(self, queue: Destination) -> list[Message]:
        if not isinstance(queue, Queue):
            raise UnsupportedOperationException(
                f"{queue} cannot be browsed outside of the test's process",
                hint="name a queue; a topic keeps no messages",
            )
        async with await ConnectionFactory(self.url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            async with await session.create_browser(queue) as browser:
                return [message async for message in browser]


def _embedded_only(what: str) -> UnsupportedOperationException:
    return UnsupportedOperationException(
        f"jms_chaos cannot {what} outside of the test's process",
        hint="run this test on the embedded broker: without --pyjms-broker",
    )


# --- Brokers in containers, started with docker or podman, for the tests of one pytest run.

_PREFIX: Final = "container:"
"""Marks an image instead of a URL."""
_PORT: Final = "61616"
_RUNTIMES: Final = ("docker", "podman")
_COMMAND_TIMEOUT: Final = 300.0
"""Time limit of a command in seconds; `run` may have to pull the image."""
_START_TIMEOUT: Final = 120.0
_TRY_AGAIN: Final = 0.25


@contextmanager
def broker_in_container(described: str) -> Iterator[str]:
    """Run `container:IMAGE[?OPTIONS]` in this block; yield the URL of its broker. Blocks.

    The image's port 61616 is published on a free port of this machine. The options, such as
    `jms.userName=artemis&jms.password=artemis`, become those of the URL. The container is removed
    at the end.

    Raises:
        ConfigurationException: no image is named, or neither docker nor podman is installed.
        ResourceAllocationException: the container does not start, or its broker does not accept
            connections.
    """
    image, _, options = described.removeprefix(_PREFIX).partition("?")
    if not image:
        raise ConfigurationException(
            f"The broker {described!r} names no image",
            hint="such as container:apache/activemq-classic:6.1.7",
        )
    runtime = next(filter(None, map(shutil.which, _RUNTIMES)), None)
    if runtime is None:
        raise ConfigurationException(
            f"The broker {described!r} needs docker or podman",
            hint="install one of them, or give the URL of a broker that runs",
        )
    identifier = _run(runtime, "run", "--detach", "--publish", f"127.0.0.1::{_PORT}", image)
    try:
        address = _run(runtime, "port", identifier, f"{_PORT}/tcp").splitlines()[0]
        url = f"tcp://{address}" + (f"?{options}" if options else "")
        _wait_for_broker(runtime, identifier, url)
        yield url
    finally:
        _run(runtime, "rm", "--force", "--volumes", identifier)


def _wait_for_broker(runtime: str, identifier: str, url: str) -> None:
    # few tests have such a broker
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed  # noqa: PLC0415

    from pyjms.sync.connection import ConnectionFactory  # noqa: PLC0415

    def may_come(error: BaseException) -> bool:
        state = _run(runtime, "inspect", "--format", "{{.State.Running}}", identifier)
        return isinstance(error, JMSException) and state == "true"

    attempts = Retrying(
        retry=retry_if_exception(may_come),
        stop=stop_after_delay(_START_TIMEOUT),
        wait=wait_fixed(_TRY_AGAIN),
        reraise=True,
    )
    try:
        attempts(lambda: ConnectionFactory(url).create_connection().close())
    except JMSException as error:
        raise ResourceAllocationException(
            f"The broker of container {identifier[:12]} accepts no connection: {error}",
            hint=f"`{runtime} run --publish {_PORT} IMAGE` shows what it does",
        ) from error


def _run(*command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the runtime, with the image that the project names
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceAllocationException(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise ResourceAllocationException(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
