import sys

from pydantic import BaseModel

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate


class Order(BaseModel):
    id: int
    amount: float


factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
template.convert_and_send("orders.two", Order(id=1, amount=2.5))
assert template.receive_and_convert("ActiveMQ.DLQ", timeout=0.2) is None
factory.destroy()
