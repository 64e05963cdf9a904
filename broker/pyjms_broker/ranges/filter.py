"""The broker filter that intercepts range requests and replies to them.

Each request runs in a task of its own, which is cancelled when its connection closes.
"""

from __future__ import annotations

import logging
from typing import Final

from pyjms import _wakeup
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.ranges.leases import RANGES, Leases
from pyjms_broker.ranges.operations import OPERATIONS, Reply
from pyjms_broker.ranges.progress import ProgressRecords
from pyjms_broker.ranges.protocol import RangesError, ReplyFactory, read_request
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["RangesBroker"]

logger = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 32
"""Concurrent requests per connection: each reply may be a megabyte."""


class RangesBroker(BrokerFilter):
    """Serves the queue `PyJMS.Ranges`."""

    def __init__(self, next_broker: Broker, region: RegionBroker) -> None:
        super().__init__(next_broker)
        self._replies = ReplyFactory()
        self._region = region
        self._progress = ProgressRecords(region, next_broker, self._replies)
        self._leases = Leases(region, self._progress)
        self._tasks: dict[ConnectionContext, set[_wakeup.BackgroundTask]] = {}

    async def start(self) -> None:
        await self.next.start()
        self._leases.attach()

    async def stop(self) -> None:
        tasks = [task for some in self._tasks.values() for task in some]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.wait()
        await self.next.stop()

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        for task in self._tasks.pop(context, ()):
            task.cancel()
        self._leases.end_all(context)
        self.next.remove_connection(context, info, error)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if self._leases.is_leased(destination):
            raise IllegalStateException(
                f"{destination} is being read by its numbers",
                hint="stop the pipeline that reads it first",
            )
        self.next.remove_destination(context, destination, timeout)
        self._progress.forget(destination)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if message.destination != RANGES:
            return self.next.send(exchange, message)
        context = exchange.context
        if exchange.transaction is not None:
            raise IllegalStateException(f"A request to {RANGES} cannot be part of a transaction")
        if message.reply_to is None:
            raise IllegalStateException(f"A request to {RANGES} needs a reply destination")
        self._begin(context, message)
        return COMPLETED

    def _begin(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        tasks = self._tasks.setdefault(context, set())
        tasks.difference_update([task for task in tasks if task.done])
        if len(tasks) >= _MAX_CONCURRENT:
            self._reply(
                message, _refusal("bad_request", f"More than {_MAX_CONCURRENT} requests at a time")
            )
            return
        task = _wakeup.spawn(self._serve, context, message, name=f"request to {RANGES}")
        tasks.add(task)

    async def _serve(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        try:
            request = read_request(message)
            reply = await OPERATIONS[request.operation](self._leases, context, dict(request.fields))
        except RangesError as error:
            reply = _refusal(error.code, str(error))
        except JMSException as error:
            logger.warning("A request to %s failed", RANGES, exc_info=True)
            reply = _refusal("failed", str(error))
        except Exception:  # a client that gets no answer waits for ever
            logger.exception("A request to %s failed", RANGES)
            reply = _refusal("failed", "The broker failed; its log has the reason")
        self._reply(message, reply)

    def _reply(self, request: ActiveMQMessage, reply: Reply) -> None:
        to, correlation_id = request.reply_to, request.correlation_id
        assert to is not None
        if reply.body is None:
            message: ActiveMQMessage = self._replies.text(reply.values, to, correlation_id)
        else:
            message = self._replies.chunk(reply.body, reply.values, to, correlation_id)
        try:
            self.next.send(ProducerExchange(self._region.context), message)
        except JMSException as error:
            logger.debug("The reply to %s was not sent: %s", request.message_id, error)


def _refusal(code: str, text: str) -> Reply:
    return Reply({"error": text, "code": code})
