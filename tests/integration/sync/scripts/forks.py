"""A script that forks with everything open: the child reconnects, and the parent continues."""

import os
import sys

import pyjms

factory = pyjms.ConnectionFactory(sys.argv[1])
caching = pyjms.CachingConnectionFactory(factory)
template = pyjms.JmsTemplate(caching, receive_timeout=10)
template.convert_and_send("scripts.forks", "before")
connection = factory.create_connection()
connection.start()
session = connection.create_session()
consumer = session.create_consumer(pyjms.Queue("scripts.forks.parent"))
manager = pyjms.JmsTransactionManager(caching)
shared = sys.argv[1].startswith("tcp:")


def refused(call) -> None:
    try:
        call()
    except pyjms.IllegalStateException as error:
        assert "before this process was forked" in str(error), error
        return
    raise AssertionError(f"{call} is possible in the child")


def child() -> None:
    refused(connection.create_session)
    refused(connection.start)
    refused(lambda: consumer.receive(10))
    refused(lambda: session.create_producer(pyjms.Queue("scripts.forks")))
    consumer.close()
    connection.close()
    template.convert_and_send("scripts.forks", "of the child")
    with manager.transaction():
        template.convert_and_send("scripts.forks", "of the child's transaction")
    if not shared:  # an embedded broker of its own
        assert template.receive_and_convert("scripts.forks") == "of the child"
    with pyjms.ConnectionFactory(sys.argv[1]).create_connection() as own:
        own.start()
        assert own.client_id != client_id


client_id = connection.client_id
process = os.fork()
if process == 0:
    child()
    sys.exit()  # as a script ends, not by os._exit

assert os.waitpid(process, 0)[1] == 0
template.convert_and_send("scripts.forks", "after")
received = [template.receive_and_convert("scripts.forks") for _ in range(4 if shared else 2)]
expected = ["before", "of the child", "of the child's transaction", "after"]
assert received == (expected if shared else ["before", "after"]), received
template.convert_and_send("scripts.forks.parent", "still here")
assert consumer.receive(10).text == "still here"
connection.close()
caching.destroy()
print("done")
