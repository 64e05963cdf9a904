"""Sends three orders to the first broker."""

import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for number in range(3):
    template.convert_and_send("two.orders", {"id": number})
factory.destroy()
