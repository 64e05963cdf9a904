"""Outbox and inbox: messages and a database without XA. Needs the extra `sql`.

`send` writes messages in the transaction of the application's own SQLAlchemy session; a relay sends
them. `record` and `unit_of_work` record the handled messages in that transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.distribution import optional

if TYPE_CHECKING:
    from pyjms.outbox.inbox import AsyncSqlIdempotencyStore as AsyncSqlIdempotencyStore
    from pyjms.outbox.inbox import SqlIdempotencyStore as SqlIdempotencyStore
    from pyjms.outbox.inbox import prune as prune
    from pyjms.outbox.inbox import record as record
    from pyjms.outbox.inbox import record_async as record_async
    from pyjms.outbox.inbox import unit_of_work as unit_of_work
    from pyjms.outbox.inbox import unit_of_work_async as unit_of_work_async
    from pyjms.outbox.relay import OutboxRelay as OutboxRelay
    from pyjms.outbox.sending import send as send
    from pyjms.outbox.sending import send_async as send_async
    from pyjms.outbox.tables import metadata as metadata

_HOMES = {
    "AsyncSqlIdempotencyStore": "inbox",
    "OutboxRelay": "relay",
    "SqlIdempotencyStore": "inbox",
    "metadata": "tables",
    "prune": "inbox",
    "record": "inbox",
    "record_async": "inbox",
    "send": "sending",
    "send_async": "sending",
    "unit_of_work": "inbox",
    "unit_of_work_async": "inbox",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the names of the table


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(optional(f"{__name__}.{home}", "pyjms.outbox", "sql"), name)
    return value


def __dir__() -> list[str]:
    return __all__
