import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory, receive_timeout=20.0)
template.convert_and_send("invoices", {"id": 1, "total": 9.5})
assert template.receive_and_convert("receipts") == {"invoice": 1}
factory.destroy()
