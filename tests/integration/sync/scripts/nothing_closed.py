"""A script that ends with everything still open."""

import sys

import pyjms

connection = pyjms.ConnectionFactory(sys.argv[1]).create_connection()
connection.start()
session = connection.create_session()
consumer = session.create_consumer(pyjms.Queue("scripts.nothing_closed"))
consumer.set_message_listener(print)

caching = pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(sys.argv[1]))
template = pyjms.JmsTemplate(caching)
template.convert_and_send("scripts.open", "x")

container = pyjms.DefaultMessageListenerContainer(
    caching, destination_name="scripts.container", message_listener=print
)
container.start()
print("done")
