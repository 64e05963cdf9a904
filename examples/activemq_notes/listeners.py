"""The listeners of the containers: one prints what it gets, one fails on everything."""

from __future__ import annotations

import threading

from pyjms import jms_listener

__all__ = ["SimpleListener", "VirtualTopicListener"]


class SimpleListener:
    @jms_listener("${app.queue}", id="queue")
    @jms_listener("${app.topic}", id="topic")
    def on_message(self, text: str) -> None:
        report("simple listener", text)
        # To see a rollback: the message is delivered again, and the others are not held up.
        # if text == "消息: 2":
        #     raise RuntimeError(text)


class VirtualTopicListener:
    """Each of its messages is rolled back, delivered seven times in all, and a dead letter."""

    @jms_listener("${app.consumer_queue}", id="virtual-topic")
    def on_message(self, text: str) -> None:
        report("virtual topic listener", text)
        raise RuntimeError(text)


def report(listener: str, text: str) -> None:
    """Print in one write: several threads do."""
    print(f"{listener}, thread {threading.get_ident()}: {text}\n", end="", flush=True)
