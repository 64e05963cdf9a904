import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for n in range(100):
    template.convert_and_send("jobs.slow", {"n": n})
factory.destroy()
