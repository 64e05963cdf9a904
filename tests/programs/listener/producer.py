import sys

from pydantic import BaseModel

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate


class Order(BaseModel):
    id: int
    amount: float


factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for number in range(3):
    template.convert_and_send("orders.new", Order(id=number, amount=number * 1.5))
factory.destroy()
