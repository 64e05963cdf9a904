"""Sends so many jobs."""

import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for number in range(int(sys.argv[2])):
    template.convert_and_send("load.jobs", {"id": number})
factory.destroy()
