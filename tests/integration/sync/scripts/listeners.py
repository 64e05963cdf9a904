"""Listeners in threads: one set on a consumer, one of a container, which itself sends."""

import queue
import sys

import pyjms

factory = pyjms.ConnectionFactory(sys.argv[1])
template = pyjms.JmsTemplate(factory, receive_timeout=10)
heard: queue.Queue = queue.Queue()

with factory.create_connection() as connection:
    connection.start()
    session = connection.create_session()
    consumer = session.create_consumer(pyjms.Queue("scripts.listeners"))
    consumer.set_message_listener(lambda message: heard.put(message.text))
    template.convert_and_send("scripts.listeners", "by hand")
    assert heard.get(timeout=10) == "by hand"

container = pyjms.DefaultMessageListenerContainer(
    factory,
    destination_name="scripts.listeners",
    message_listener=lambda message: template.convert_and_send("scripts.heard", message.text),
)
with container:
    template.convert_and_send("scripts.listeners", "by a container")
    assert template.receive_and_convert("scripts.heard") == "by a container"
print("done")
