"""A broker process: `python -m tests.kit.spark.broker_child FOLDER PORT [POINT NUMBER]`.

It prints where it accepts connections, and kills itself the NUMBERth time it gets to the point.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from pyjms_broker.service import BrokerService
from tests.kit.spark.killing import Killer, oneself
from tests.kit.stores.small import SMALL_SEGMENTS


def killer(inner: Any) -> Killer:
    made = Killer(inner)
    if len(sys.argv) > 3:
        made.arm(sys.argv[3], int(sys.argv[4]), oneself)
    return made


async def main() -> None:
    service = BrokerService(
        "spark",
        data_directory=Path(sys.argv[1]),
        persistence=SMALL_SEGMENTS,
        plugins=[killer],
    )
    service.add_connector(f"tcp://127.0.0.1:{sys.argv[2]}")
    await service.start()
    print("openwire accepts connections at", service.connect_uri, flush=True)
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            break
    await service.stop()


if __name__ == "__main__":
    anyio.run(main)
