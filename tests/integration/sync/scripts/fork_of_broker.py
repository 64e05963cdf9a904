"""A broker in this process, and a child that must neither run it, nor hold its port or its lock."""

import asyncio
import multiprocessing
import socket
import sys
import tempfile

from pyjms import IllegalStateException, ResourceAllocationException, aio
from pyjms_broker import BrokerService
from pyjms_broker.store.files import SharedFileLock

fork = multiprocessing.get_context("fork")
running: dict = {}


async def in_child() -> None:
    broker = running["broker"]
    try:
        await broker.start()
    except IllegalStateException as error:
        assert "before this process was forked" in str(error), error
    else:
        raise AssertionError("the child starts its parent's broker")
    await broker.stop()
    (lock,) = running["folder"].rglob("lock")
    try:
        await SharedFileLock(lock, fail_if_locked=True).acquire()
    except ResourceAllocationException:
        pass
    else:
        raise AssertionError("the child gets the lock of its parent's store")
    async with BrokerService(broker_name="forked", persistent=False) as own:
        connection = await aio.ConnectionFactory(own.vm_uri).create_connection()
        await connection.start()
        await connection.close()


def child(checked, stop) -> None:
    asyncio.run(in_child())
    checked.set()
    stop.wait(60)


async def main() -> None:
    checked, stop = fork.Event(), fork.Event()
    with tempfile.TemporaryDirectory() as folder:
        broker = running["broker"] = BrokerService(broker_name="forked", data_directory=folder)
        running["folder"] = broker.data_directory
        broker.add_connector("tcp://127.0.0.1:0")
        await broker.start()
        template = aio.JmsTemplate(aio.ConnectionFactory(broker.connect_uri), receive_timeout=10)
        connection = await aio.ConnectionFactory(broker.connect_uri).create_connection()
        await connection.start()
        process = fork.Process(target=child, args=(checked, stop))
        process.start()
        assert await asyncio.to_thread(checked.wait, 60)
        await template.convert_and_send("q", "x")
        assert await template.receive_and_convert("q") == "x"
        port = int(broker.connect_uri.split(":")[2].split("?")[0])
        await connection.close()
        await broker.stop()
        with socket.socket() as refused:
            assert refused.connect_ex(("127.0.0.1", port)) != 0, "the child holds the port"
        (path,) = broker.data_directory.rglob("lock")
        lock = SharedFileLock(path, fail_if_locked=True)
        await lock.acquire()  # the child, which still runs, does not hold it
        lock.release()
        stop.set()
        await asyncio.to_thread(process.join, 60)
        assert process.exitcode == 0, process.exitcode


if sys.argv[1].startswith("vm:"):  # once is enough: it has a broker of its own
    asyncio.run(main())
print("done")
