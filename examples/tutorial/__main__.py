"""`python -m examples.tutorial`: the application starts several times on one broker.

1. It is started three times and sends: the queue keeps its texts, the topic has nobody.
2. It has listeners: they get the queue's texts, and none of the topic's, which were sent before.
3. A text to each, as from the console's form: both listeners print.
4. It has a durable subscription, and is away while a text is sent: it gets that text.

Exit code 0: it was so.
"""

from __future__ import annotations

from types import ModuleType

import anyio

from examples.tutorial import listening, sending, subscribing
from examples.tutorial.configuration import SETTINGS, Configuration
from pyjms import JmsApplication, PyjmsSettings, Topic
from pyjms_broker import BrokerService

SECONDS = 20.0
QUEUE, TOPIC = SETTINGS.app["queue_name"], SETTINGS.app["topic_name"]


async def main() -> bool:
    async with BrokerService("tutorial", persistent=False) as broker:
        settings = SETTINGS.with_broker_url(f"{broker.vm_uri}?create=false")
        print("1. The application sends, three times; nobody listens")
        for _ in range(3):
            async with _application(sending, settings):
                pass
        waiting = _counters(broker, "Queue", QUEUE)
        _counters(broker, "Topic", TOPIC)
        print("2. Listeners of the queue and of the topic")
        async with _application(listening, settings) as application:
            await _until(listening.received, 3)
            print("3. A text to each of them")
            await application.template.convert_and_send(QUEUE, "one more")
            await _until(listening.received, 4)
            await application.template.convert_and_send(Topic(TOPIC), "at last")
            await _until(listening.received, 5)
        _counters(broker, "Queue", QUEUE)
        print("4. A durable subscription; the application is away while a text is sent")
        async with _application(subscribing, settings):
            pass
        async with _application(sending, settings):
            pass
        async with _application(subscribing, settings):
            await _until(subscribing.received, 1)
    return (waiting, listening.received, subscribing.received) == (
        {"pending": 3, "consumers": 0, "enqueued": 3, "dequeued": 0},
        [*["queue-test"] * 3, "one more", "at last"],
        ["topic-test"],
    )


def _application(module: ModuleType, settings: PyjmsSettings) -> JmsApplication:
    return JmsApplication(module, settings=settings, container=Configuration)


async def _until(texts: list[str], number: int) -> None:
    with anyio.fail_after(SECONDS):
        while len(texts) < number:
            await anyio.sleep(0.01)


def _counters(broker: BrokerService, kind: str, name: str) -> dict[str, object]:
    """Print what the management API says of a destination; its console shows the same."""
    of_broker = f"org.apache.activemq:type=Broker,brokerName={broker.broker_name}"
    view = broker.management.view(f"{of_broker},destinationType={kind},destinationName={name}")
    counters = {
        "pending": view.get("QueueSize"),
        "consumers": view.get("ConsumerCount"),
        "enqueued": view.get("EnqueueCount"),
        "dequeued": view.get("DequeueCount"),
    }
    print(f"   {name}:", ", ".join(f"{key} {value}" for key, value in counters.items()))
    return counters


if __name__ == "__main__":
    raise SystemExit(0 if anyio.run(main) else 1)
