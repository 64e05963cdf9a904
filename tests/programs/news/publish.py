import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
template.convert_and_send("topic://news", {"title": sys.argv[2]})
factory.destroy()
