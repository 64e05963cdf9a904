"""The filter that takes the requests out of the stream of messages and answers them.

Each is done in a task of its own, which ends with the connection that sent it.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.api.broker import Broker
from broker.api.completion import Completion
from broker.api.context import ConnectionContext
from broker.api.exchange import ProducerExchange
from broker.api.filter import BrokerFilter
from broker.ranges.leases import RANGES, Leases
from broker.ranges.marks import Marks
from broker.ranges.operations import OPERATIONS, Answer
from broker.ranges.protocol import Answers, RangesError, read_request
from broker.region.region_broker import RegionBroker
from pyjms import _wakeup
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo

__all__ = ["RangesBroker"]

logger = logging.getLogger(__name__)

_AT_A_TIME: Final = 32
"""Requests of one connection: each answer may be a megabyte."""


class RangesBroker(BrokerFilter):
    """Serves the queue `PyJMS.Ranges`."""

    def __init__(self, next_broker: Broker, region: RegionBroker) -> None:
        super().__init__(next_broker)
        self._answers = Answers()
        self._region = region
        self._marks = Marks(region, next_broker, self._answers)
        self._leases = Leases(region, self._marks)
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
        self._leases.end_of(context)
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
        self._marks.forget(destination)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        if message.destination != RANGES:
            return self.next.send(exchange, message)
        context = exchange.context
        if exchange.transaction is not None:
            raise IllegalStateException(f"A request to {RANGES} cannot be part of a transaction")
        if message.reply_to is None:
            raise IllegalStateException(f"A request to {RANGES} needs a reply destination")
        self._begin(context, message)
        return None

    def _begin(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        tasks = self._tasks.setdefault(context, set())
        tasks.difference_update([task for task in tasks if task.done])
        if len(tasks) >= _AT_A_TIME:
            self._reply(message, _refusal("bad_request", f"More than {_AT_A_TIME} at a time"))
            return
        task = _wakeup.spawn(self._serve, context, message, name=f"request to {RANGES}")
        tasks.add(task)

    async def _serve(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        try:
            request = read_request(message)
            answer = await OPERATIONS[request.operation](
                self._leases, context, dict(request.fields)
            )
        except RangesError as error:
            answer = _refusal(error.code, str(error))
        except JMSException as error:
            logger.warning("A request to %s failed", RANGES, exc_info=True)
            answer = _refusal("failed", str(error))
        self._reply(message, answer)

    def _reply(self, request: ActiveMQMessage, answer: Answer) -> None:
        to, correlation_id = request.reply_to, request.correlation_id
        assert to is not None
        if answer.body is None:
            reply: ActiveMQMessage = self._answers.text(answer.values, to, correlation_id)
        else:
            reply = self._answers.chunk(answer.body, answer.values, to, correlation_id)
        try:
            self.next.send(ProducerExchange(self._region.context), reply)
        except JMSException as error:
            logger.debug("The answer to %s was not sent: %s", request.message_id, error)


def _refusal(code: str, text: str) -> Answer:
    return Answer({"error": text, "code": code})
