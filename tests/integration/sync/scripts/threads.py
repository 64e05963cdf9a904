"""One template, shared by many threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pyjms

factory = pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(sys.argv[1]))
template = pyjms.JmsTemplate(factory, receive_timeout=10)


def send(number: int) -> None:
    template.convert_and_send("scripts.threads", {"n": number})


with ThreadPoolExecutor(8) as threads:
    list(threads.map(send, range(50)))
numbers = {template.receive_and_convert("scripts.threads")["n"] for _ in range(50)}
assert numbers == set(range(50)), numbers
factory.destroy()
print("done")
