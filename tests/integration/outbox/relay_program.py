"""A relay that kills itself at the first SQL statement, or commit, of a kind.

Arguments: the database's URL, the broker's, and what to die at (`-`: nothing).
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import anyio
from sqlalchemy import create_engine, event

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.outbox import OutboxRelay


def main(database: str, broker: str, point: str) -> None:
    engine = create_engine(database)
    when, _, kind = point.partition(" ")
    seen = ""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(engine, "before_cursor_execute")
    def before(*arguments: Any) -> None:
        nonlocal seen
        seen = str(arguments[2]).split(maxsplit=1)[0]
        if when == "before" and seen == kind:
            die()

    @event.listens_for(engine, "after_cursor_execute")
    def after(*arguments: Any) -> None:
        if when == "after" and seen == kind:
            die()

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        if when == "commit" and seen == kind:
            die()

    relay = OutboxRelay(engine, batch_size=10, lease=0.2)
    template = JmsTemplate(ConnectionFactory(broker))

    async def run() -> None:
        while engine_has_rows():
            await relay.send_waiting(template)
            await anyio.sleep(0.02)

    def engine_has_rows() -> bool:
        with create_engine(database).connect() as connection:
            count = connection.exec_driver_sql("SELECT count(*) FROM pyjms_outbox").scalar()
        return bool(count)

    anyio.run(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
