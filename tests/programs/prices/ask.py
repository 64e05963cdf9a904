import sys
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate


class Price(BaseModel):
    id: int
    price: float


factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)


def ask(number: int) -> Price | None:
    return template.request("prices", {"id": number}, type=Price, timeout=20.0)


assert ask(2) == Price(id=2, price=2.5)
with ThreadPoolExecutor(8) as pool:
    replies = list(pool.map(ask, range(20)))
assert [reply.id for reply in replies] == list(range(20)), replies
assert template.request("nobody.replies", {"id": 1}, timeout=0.1) is None
factory.destroy()
