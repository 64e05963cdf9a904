"""The operations of the range protocol, one function each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.selector import Selector, SelectorLimitException
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import StoredMessage
from pyjms_broker.ranges.leases import Leases
from pyjms_broker.ranges.protocol import RangesError, frame_message
from pyjms_broker.ranges.queue_reading import QueueReading
from pyjms_broker.region.flow.selector_meter import BUSY_DELAY, SelectorsBusyException

__all__ = ["OPERATIONS", "Operation", "Reply"]

logger = get_logger(__name__)

_CHUNK: Final = 1024 * 1024
_BATCH: Final = 200
_MAX_WAIT: Final = 60.0

Fields = dict[str, Any]


class Reply(NamedTuple):
    """A JSON reply or, with a body, a chunk with its properties."""

    values: Fields
    body: bytes | None = None


Operation = Callable[[Leases, ConnectionContext, Fields], Awaitable[Reply]]


def _extent(reading: QueueReading) -> Fields:
    return {"epoch": reading.epoch, "first": reading.first, "next": reading.next}


async def _lease(leases: Leases, context: ConnectionContext, fields: Fields) -> Reply:
    wait = min(float(fields.get("wait") or 0), _MAX_WAIT)
    lease = await leases.acquire(context, {**fields, "wait": wait})
    reading = lease.reading
    logger.info("%s is read by %s", lease.destination, lease.owner)
    return Reply({"token": lease.token, **_extent(reading)})


async def _stat(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading = leases.find(fields["token"]).reading
    wait = min(float(fields.get("wait") or 0), _MAX_WAIT)
    if wait > 0:
        await reading.wait_for_more(fields.get("gt") or 0, wait)
        leases.find(fields["token"])
    return Reply(
        {**_extent(reading), "messages": reading.message_count, "bytes": reading.message_size}
    )


async def _hold(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading = leases.find(fields["token"]).reading
    await reading.hold(fields["to"])
    leases.find(fields["token"])
    return Reply({"held": reading.progress.held})


async def _look(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading, _ = leases.inspect(fields)
    reading.refresh()
    return Reply({"epoch": reading.epoch, "first": reading.first, "next": reading.next})


async def _range(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    start, end, token = fields["from"], fields["to"], fields.get("token")
    if token is not None:
        lease = leases.find(token)
        reading, selector = lease.reading, lease.selector
        found = reading.messages(start, end)
    elif fields.get("queue") is not None:
        reading, selector = leases.inspect(fields)
        found = reading.messages_left(start, end)
    else:
        raise RangesError("bad_request", "A range request needs a token or a queue")
    frames: list[bytes] = []
    size, following = 0, start
    for seen, stored in enumerate(found, 1):
        if seen % _BATCH == 0:
            await _clock.sleep(0)
            if token is not None:
                leases.find(token)
        if selector is None or await _matches(selector, reading, stored):
            frame = frame_message(stored)
            if frames and size + len(frame) > _CHUNK:
                return _chunk(reading, frames, following, last=False)
            frames.append(frame)
            size += len(frame)
        following = stored.position.arrival + 1
    return _chunk(reading, frames, end, last=True)


def _chunk(reading: QueueReading, frames: list[bytes], following: int, *, last: bool) -> Reply:
    values = {"next": following, "last": last, "epoch": reading.epoch}
    return Reply(values, b"".join(frames))


async def _matches(selector: Selector, reading: QueueReading, stored: StoredMessage) -> bool:
    reference = reading.reference_to(stored)
    try:
        while True:
            with suppress(SelectorsBusyException):
                return selector.matches(reference.lookup)
            await _clock.sleep(BUSY_DELAY)
    except SelectorLimitException as error:
        raise RangesError("failed", f"Message {stored.message.message_id}: {error}") from error
    except JMSException as error:
        logger.debug("A selector failed on %s: %s", stored.message.message_id, error)
        return False


async def _trim(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading = leases.find(fields["token"]).reading
    await reading.trim(fields["to"])
    return Reply({"first": reading.first})


async def _release(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    lease = leases.find(fields["token"])
    leases.end(lease)
    logger.info("%s is no longer read by %s", lease.destination, lease.owner)
    return Reply({"released": True})


OPERATIONS: Final[dict[str, Operation]] = {
    "lease": _lease,
    "stat": _stat,
    "hold": _hold,
    "look": _look,
    "range": _range,
    "trim": _trim,
    "release": _release,
}
