"""Registration of a consumer with the broker and its session.

A pull consumer's first MessagePull is sent right after its ConsumerInfo: one round trip instead of
two for every message that a JmsTemplate receives.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from pyjms._wakeup import Waiter
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.session.resources import SessionResources
from pyjms.errors import JMSException, RequestTimeoutException
from pyjms.wire.openwire.commands import Response

__all__ = ["FirstPull", "register"]

_C = TypeVar("_C", bound=ActiveMQMessageConsumer)


class FirstPull(NamedTuple):
    """The timeout of the first `receive` of a new consumer, in seconds; None: for ever."""

    timeout: float | None


async def register(consumer: _C, resources: SessionResources, pull: FirstPull | None) -> _C:
    """Register `consumer` and return it. After cancellation or a refusal it is removed again.

    Raises:
        JMSException: the broker refused it, or the connection has failed.
    """
    connection = consumer.session.connection
    resources.add_consumer(consumer)
    try:
        if pull is None:
            await connection.request(consumer.info)
        else:
            await _register_and_pull(consumer, pull)
    except BaseException as error:
        if isinstance(error, JMSException) and not isinstance(error, RequestTimeoutException):
            consumer.is_removed_by_broker = True  # it has never been registered there
        consumer.dispose()
        resources.drop_consumer(consumer)
        raise
    consumer.ledger.start_timer(consumer.session.tasks)
    return consumer


async def _register_and_pull(consumer: ActiveMQMessageConsumer, pull: FirstPull) -> None:
    connection = consumer.session.connection
    waiter = Waiter()
    outcomes: list[Response | Exception] = []

    def complete(outcome: Response | Exception) -> None:
        outcomes.append(outcome)
        waiter.wake()

    connection.transport.request_soon(consumer.info, complete)
    consumer.pulls.request_ahead(pull.timeout)
    connection.send_now()
    await waiter.wait()
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
