"""A handler that forks: its thread belongs to the loop of the container."""

import os
import queue
import sys

import pyjms

factory = pyjms.ConnectionFactory(sys.argv[1])
template = pyjms.JmsTemplate(factory, receive_timeout=10)
statuses: queue.Queue = queue.Queue()


def handle(message) -> None:
    process = os.fork()
    if process == 0:
        try:
            template.convert_and_send("scripts.forked", message.text)
            os._exit(0)
        finally:
            os._exit(1)
    statuses.put(os.waitpid(process, 0)[1])


container = pyjms.DefaultMessageListenerContainer(
    factory, destination_name="scripts.handler", message_listener=handle
)
with container:
    for text in ("x", "again"):
        template.convert_and_send("scripts.handler", text)
        assert statuses.get(timeout=30) == 0
        if sys.argv[1].startswith("tcp:"):
            assert template.receive_and_convert("scripts.forked") == text
print("done")
