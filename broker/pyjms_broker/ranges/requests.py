"""Executes range requests and replies to them.

Each request runs in its own task, which is cancelled when its connection closes. It first waits for
space for its reply. For each connection, one range is read at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio

from pyjms import _wakeup
from pyjms._logger import get_logger
from pyjms.errors import JMSException, JMSSecurityException, ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.ranges.answers import AnswerSpace, check_reply_destination
from pyjms_broker.ranges.leases import Leases
from pyjms_broker.ranges.operations import OPERATIONS, Reply
from pyjms_broker.ranges.progress import ProgressRecords
from pyjms_broker.ranges.protocol import RangesError, ReplyFactory, Request, read_request
from pyjms_broker.ranges.queues import RANGES
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["RangeRequests"]

logger = get_logger(__name__)

_MAX_CONCURRENT: Final = 32
"""Concurrent requests per connection: each reply may be a megabyte."""


@dataclass(eq=False)
class _Client:
    """The requests of a connection."""

    tasks: set[_wakeup.BackgroundTask] = field(default_factory=set)
    reading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a range is read for the connection."""


class RangeRequests:
    """The range requests of a broker's connections, and the leases that they have."""

    def __init__(self, chain: Broker, region: RegionBroker) -> None:
        self._chain = chain
        self._replies = ReplyFactory()
        self._region = region
        self._progress = ProgressRecords(region, chain, self._replies)
        self._leases = Leases(region, self._progress)
        self._space = AnswerSpace(chain)
        self._clients: dict[ConnectionContext, _Client] = {}

    def attach(self) -> None:
        """Attach readers to queues with stored progress, so that held messages do not expire."""
        self._leases.attach()

    async def stop(self) -> None:
        """Cancel all requests."""
        tasks = [task for client in self._clients.values() for task in client.tasks]
        await _wakeup.end_tasks(*tasks)

    def remove_connection(self, context: ConnectionContext) -> None:
        """Cancel the requests of a connection and end its leases."""
        client = self._clients.pop(context, None)
        for task in () if client is None else client.tasks:
            task.cancel()
        self._leases.end_all(context)

    def is_leased(self, destination: Destination) -> bool:
        """Return whether the queue is leased."""
        return self._leases.is_leased(destination)

    def forget(self, destination: Destination) -> None:
        """Remove the progress record of a deleted queue."""
        self._progress.forget(destination)

    def requests_of(self, context: ConnectionContext) -> set[_wakeup.BackgroundTask]:
        """Return the tasks of a connection's current requests."""
        client = self._clients.get(context)
        return set() if client is None else set(client.tasks)

    def begin(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        """Execute a request in the background.

        Raises:
            IllegalStateException: it has no reply destination that its client may use.
            ResourceAllocationException: there are too many, and the refusal has no space either.
        """
        check_reply_destination(context, message)
        client = self._clients.get(context)
        if client is None:
            client = self._clients[context] = _Client()
        client.tasks.difference_update([task for task in client.tasks if task.done])
        if len(client.tasks) < _MAX_CONCURRENT:
            task = _wakeup.spawn(self._serve, context, client, message, name=f"request to {RANGES}")
            client.tasks.add(task)
            return
        refusal = f"More than {_MAX_CONCURRENT} requests at a time"
        if not self._space.is_available(context, self._probe(message)):
            raise ResourceAllocationException(
                f"{refusal}, and {message.reply_to} has no space",
                hint="receive the answers before sending further requests",
            )
        self._reply(message, _refusal("bad_request", refusal))

    async def _serve(
        self, context: ConnectionContext, client: _Client, message: ActiveMQMessage
    ) -> None:
        try:
            await self._space.wait_for(context, self._probe(message))
            reply = await self._answer(context, client, message, read_request(message))
        except RangesError as error:
            reply = _refusal(error.code, str(error))
        except (JMSSecurityException, ResourceAllocationException) as error:
            reply = _refusal("failed", error.reason)
        except JMSException as error:
            logger.warning("A request to %s failed", RANGES, exc_info=True)
            reply = _refusal("failed", str(error))
        except Exception:  # a client without a reply would wait forever
            logger.exception("A request to %s failed", RANGES)
            reply = _refusal("failed", "The broker failed; its log has the reason")
        self._reply(message, reply)

    async def _answer(
        self,
        context: ConnectionContext,
        client: _Client,
        message: ActiveMQMessage,
        request: Request,
    ) -> Reply:
        execute, fields = OPERATIONS[request.operation], dict(request.fields)
        if context.access is not None:
            self._leases.check_access(context.access, request.operation, fields)
        if request.operation != "range":
            return await execute(self._leases, context, fields)
        async with client.reading:
            probe = self._probe(message)
            while True:
                await self._space.wait_for(context, probe)
                reply = await execute(self._leases, context, fields)
                if self._space.is_available(context, probe):
                    return reply
                del reply  # a waiting reply uses no memory: it is read again

    def _probe(self, request: ActiveMQMessage) -> ActiveMQMessage:
        """Return an empty reply, to check for space."""
        assert request.reply_to is not None
        return self._replies.text({}, request.reply_to, None)

    def _reply(self, request: ActiveMQMessage, reply: Reply) -> None:
        to, correlation_id = request.reply_to, request.correlation_id
        assert to is not None
        if reply.body is None:
            message: ActiveMQMessage = self._replies.text(reply.values, to, correlation_id)
        else:
            message = self._replies.chunk(reply.body, reply.values, to, correlation_id)
        try:
            self._chain.send(ProducerExchange(self._region.context), message)
        except JMSException as error:
            logger.debug("The reply to %s was not sent: %s", request.message_id, error)


def _refusal(code: str, text: str) -> Reply:
    return Reply({"error": text, "code": code})
