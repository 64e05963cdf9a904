"""`python -m examples.activemq_notes`: starts the application, has it send, prints the producer.

It listens until Ctrl-C, on the broker at tcp://localhost:61616.
"""

from __future__ import annotations

from pathlib import Path

import anyio

from examples.activemq_notes import listeners, session_listener
from examples.activemq_notes.wiring import Wiring
from pyjms import JmsApplication
from pyjms.cli.logs import LogOutput

CONFIGURATION = Path(__file__).with_name("application.yaml")


async def bootstrap() -> None:
    app = JmsApplication(listeners, session_listener, config=CONFIGURATION, container=Wiring)
    LogOutput().apply(app.settings.logging)
    async with app:
        producer = app.container.producer()
        await producer.produce()
        print(producer, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    try:
        anyio.run(bootstrap)
    except KeyboardInterrupt:
        print("stopped")
