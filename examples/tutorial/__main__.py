"""`python -m examples.tutorial`: the application starts several times on one broker.

1. It sends three texts to a queue and to a topic: the queue keeps them, the topic has nobody.
2. It has listeners: they get the queue's texts, and none of the topic's, which were sent before.
3. It has a durable subscription, and is away while the texts are sent again: it gets all of them.

Exit code 0: it was so.
"""

from __future__ import annotations

from types import ModuleType

import anyio

from examples.tutorial import listening, sending, subscribing
from examples.tutorial.configuration import QUEUE, TOPIC, Configuration
from pyjms import JmsApplication, PyjmsSettings
from pyjms_broker import BrokerService

SECONDS = 20.0


async def main() -> bool:
    async with BrokerService("tutorial", persistent=False) as broker:
        settings = PyjmsSettings().with_broker_url(f"{broker.vm_uri}?create=false")
        print("1. Three texts are sent at the start; nobody listens")
        async with _application(sending, settings):
            pass
        waiting = _counters(broker, "Queue", QUEUE)
        _counters(broker, "Topic", TOPIC)
        print("2. Listeners of the queue and of the topic")
        async with _application(listening, settings):
            await _received(listening.received)
        _counters(broker, "Queue", QUEUE)
        print("3. A durable subscription; the application is away while the texts are sent again")
        async with _application(subscribing, settings):
            pass
        async with _application(sending, settings):
            pass
        async with _application(subscribing, settings):
            await _received(subscribing.received)
    return (waiting, listening.received, subscribing.received) == (
        {"pending": 3, "enqueued": 3, "dequeued": 0},
        [f"{text} to the queue" for text in sending.TEXTS],
        [f"{text} to the topic" for text in sending.TEXTS],
    )


def _application(module: ModuleType, settings: PyjmsSettings) -> JmsApplication:
    return JmsApplication(module, settings=settings, container=Configuration)


async def _received(texts: list[str]) -> None:
    with anyio.fail_after(SECONDS):
        while len(texts) < len(sending.TEXTS):
            await anyio.sleep(0.01)


def _counters(broker: BrokerService, kind: str, name: str) -> dict[str, object]:
    """Print what the management API says of a destination; its console shows the same."""
    of_broker = f"org.apache.activemq:type=Broker,brokerName={broker.broker_name}"
    view = broker.management.view(f"{of_broker},destinationType={kind},destinationName={name}")
    counters = {
        "pending": view.get("QueueSize"),
        "enqueued": view.get("EnqueueCount"),
        "dequeued": view.get("DequeueCount"),
    }
    print(f"   {name}:", ", ".join(f"{key} {value}" for key, value in counters.items()))
    return counters


if __name__ == "__main__":
    raise SystemExit(0 if anyio.run(main) else 1)
