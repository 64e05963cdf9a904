"""Sends while its broker is restarted; prints each hundredth number."""

import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for number in range(400):
    template.convert_and_send("jobs", {"id": number})
    if number % 100 == 0:
        print(f"sent {number}", flush=True)
print("sent all", flush=True)
factory.destroy()
