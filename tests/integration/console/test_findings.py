"""Warnings about limits, senders that wait, and journal files."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path

import anyio
import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms_broker.console.model.messages import MOST_EXAMINED
from pyjms_broker.console.model.overview import kept_segments
from pyjms_broker.region.queue import Queue as BrokerQueue
from pyjms_broker.service import BrokerService
from pyjms_broker.store.multi import FilteredKahaDB, MultiKahaDBPersistenceAdapter
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until
from tests.kit.web.console import Console, console_of


async def test_a_blocked_producer_and_a_full_memory_are_warnings() -> None:
    async with (
        BrokerService("full", persistent=False, memory_limit=4096) as service,
        console_of(service) as console,
        anyio.create_task_group() as tasks,
    ):
        client = RawClient(create_transport(service.vm_uri))
        await client.open("loader")
        sent = anyio.Event()

        async def send() -> None:
            await client.send(Queue("big"), "x" * 5000, "waits")
            sent.set()

        tasks.start_soon(send)
        destinations = service.region_broker.destinations
        await until(lambda: any(d.statistics.blocked_sends for d in destinations().values()))
        text = await console.text("warnings")
        assert "Memory full" in text
        assert 'Blocked producer: <a href="/admin/connections">loader</a>' in text
        assert "1 send waits for space" in text
        await console.act("purge", kind="queue", name="big")
        await sent.wait()
        assert "Blocked producer" not in await console.text("warnings")
        await client.close()


@pytest.mark.fact("activemq-edges 11.6")
async def test_journal_files_say_what_keeps_them(tmp_path: Path) -> None:
    async with (
        BrokerService("kept", data_directory=tmp_path) as service,
        console_of(service) as console,
    ):
        client = RawClient(create_transport(service.vm_uri))
        await client.open("archive")
        await client.send(Queue("orders"), "one", "two")
        await client.consumer(Topic("news"), subscription_name="nightly")
        text = await console.text("warnings")
        assert "db-1.log" in text
        assert "it is being written; 2 messages in it have not been consumed" in text
        assert "durable subscription news/archive:nightly" in text
        await client.close()


async def test_a_journal_file_names_the_messages_that_keep_it(tmp_path: Path) -> None:
    async with (
        BrokerService("kept", data_directory=tmp_path) as service,
        console_of(service) as console,
    ):
        client = RawClient(create_transport(service.vm_uri))
        await client.open("archive")
        await client.consumer(Topic("news"), subscription_name="nightly")
        await client.send(Queue("few"), "one")
        await client.send(Queue("orders"), "one", "two", "three")
        await client.send(Topic("news"), "told")
        rows = kept_segments(service.management.context)
        assert rows is not None
        assert [(each.destination.physical_name, each.messages) for each in rows[0].keepers] == [
            *(("orders", 3), ("few", 1), ("news", 1)),
        ]
        queue = service.region_broker.destinations()[Queue("orders")]
        oldest = rows[0].keepers[0].oldest
        assert isinstance(queue, BrokerQueue)
        assert oldest == str(next(iter(queue.contents)).message.message_id)
        text = await console.text("warnings")
        assert "orders</a>:\n        3 messages, the oldest is" in text
        page = re.search(r'href="/admin/(message[?][^"]*)"', text)
        assert page is not None
        assert "three" not in await console.text(unescape(page[1]))
        await client.close()


async def test_each_store_of_mkahadb_has_its_journal_files(tmp_path: Path) -> None:
    filters = (FilteredKahaDB(queue="orders.>"), FilteredKahaDB())
    store = MultiKahaDBPersistenceAdapter(tmp_path / "stores", filters)
    async with (
        BrokerService("kept", data_directory=tmp_path, persistence_adapter=store) as service,
        console_of(service) as console,
    ):
        client = RawClient(create_transport(service.vm_uri))
        await client.open("archive")
        await client.send(Queue("orders.eu"), "one", "two")
        await client.send(Queue("other"), "three")
        rows = kept_segments(service.management.context)
        assert rows is not None
        assert {
            each.name: [(k.destination.physical_name, k.messages) for k in each.keepers]
            for each in rows
        } == {
            f"{filters[0].directory_name}/db-1.log": [("orders.eu", 2)],
            f"{filters[1].directory_name}/db-1.log": [("other", 1)],
        }
        text = await console.text("warnings")
        assert all(f"<code>{escape(each.name)}</code>" in text for each in rows)
        await client.close()


async def test_a_store_without_files_has_no_table_of_them(console: Console) -> None:
    assert "Journal files" not in await console.text("warnings")


async def test_browsing_and_searching_read_a_limited_number_of_messages(
    service: BrokerService, console: Console
) -> None:
    client = RawClient(create_transport(service.vm_uri))
    await client.open()
    producer = await client.producer(Queue("long"))
    for _ in range(MOST_EXAMINED + 1):
        client.send_command(client.text(producer, Queue("long"), "x"))
    await client.nothing_dispatched()
    browsed = await console.text("browse", queue="long", selector="colour = 'red'")
    assert "No message matches" in browsed
    assert "Only the first 20,000 messages were read" in browsed
    found = await console.text("search", selector="colour = 'red'")
    assert "Not all messages were read" in found
    await client.close()
