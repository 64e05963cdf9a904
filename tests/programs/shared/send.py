"""Sends news and prices, or orders; each price is seen once, whichever process handles it."""

import sys

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory, receive_timeout=10.0)
if sys.argv[2] == "orders":
    for number in range(20):
        template.convert_and_send("shared.orders", {"id": number})
else:
    for number in range(20):
        template.convert_and_send("topic://shared.news", {"id": number})
        template.convert_and_send("topic://VirtualTopic.shared", {"id": number})
    seen = [template.receive_and_convert("shared.seen")["id"] for _ in range(20)]
    assert sorted(seen) == list(range(20)), seen
    assert template.receive_and_convert("shared.seen", timeout=0) is None
factory.destroy()
