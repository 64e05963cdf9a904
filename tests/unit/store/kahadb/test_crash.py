"""The end comes at any instant: what was answered is there, and nothing is half there."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import OperationContext
from tests.kit.stores.kahadb_store import Driver, Home
from tests.kit.stores.simulated_disk import SimulatedDisk

Q = Queue("Q")


@pytest.mark.parametrize("seed", range(3))
async def test_a_killed_broker_has_all_that_was_written(
    home: Home, driver: type[Driver], tmp_path: Path, seed: int
) -> None:
    """A copy of the folder is what is there after `kill -9`; also without its index."""
    options = {"compact_acks_after_no_gc": 1, "compact_acks_ignores_store_growth": True}
    await home.open(**options)
    drive = driver(home, seed)
    for number in range(12):
        for _ in range(drive.random.randrange(80)):
            await drive.step()
        if drive.random.random() < 0.6:
            await home.adapter.checkpoint()
        await home.done(home.adapter.journal.barrier(sync=False))
        expected = home.state()
        del expected["recovered"]  # it has those of the last start
        for keep_index in (True, False):
            copy = type(home)(tmp_path / f"copy{number}{keep_index}")
            shutil.copytree(home.directory, copy.directory)
            if not keep_index:
                copy.delete_index()
            await copy.open(**options)
            state = copy.state()
            await copy.close()
            del state["recovered"]
            assert state == expected
        if drive.random.random() < 0.2:
            await home.reopen(**options)
            drive.forget_open()


class Work:
    """Sends, acknowledgements and transactions on one queue, and what each of them makes of it."""

    def __init__(self, home: Any, seed: int) -> None:
        self.home = home
        self.dice = random.Random(seed)
        self.store = home.adapter.queue_message_store(Q)
        self.transactions = home.adapter.transaction_store()
        self.live: list[Any] = []
        self.number = 0
        self.states: list[list[tuple[int, str]]] = [[]]
        """The queue after each step, in the order of the journal."""
        self.safe = 0
        """How many of the steps were answered as safe."""
        self.polite = True
        """Whether it asks for answers, so that there are syncs."""

    def step(self) -> None:
        weights = [5, 3, 2 if self.polite else 0]
        self.dice.choices([self.send, self.take, self.transact], weights)[0]()
        state = [(r.position.arrival, r.message.type) for r in self.live]
        self.states.append(state)

    def _asked(self, answer: Completion) -> None:
        """An answer that says that the step, and so all before it, is safe."""
        step = len(self.states)
        if answer is not COMPLETED:
            answer.then(lambda done: self._answered(step, done.error))

    def _answered(self, step: int, error: Exception | None) -> None:
        if error is None:
            self.safe = max(self.safe, step)

    def _message(self) -> Any:
        self.number += 1
        return self.home.message(self.number, Q, content=bytes(self.dice.randrange(300)))

    def send(self) -> None:
        reference = self._message()
        reference.message.response_required = self.polite and self.dice.random() < 0.5
        answer = self.store.add_message(OperationContext(), reference)
        self.store.mark_visible(reference)
        self.live.append(reference)
        if reference.message.response_required:
            self._asked(answer)

    def take(self) -> None:
        if self.live:
            context = OperationContext(response_required=self.polite and self.dice.random() < 0.3)
            reference = self.live.pop(self.dice.randrange(len(self.live)))
            self._asked(self.store.remove_message(context, reference))

    def transact(self) -> None:
        self.number += 1
        xid: Any = LocalTransactionId(self.number, ConnectionId("ID:c"))
        if self.dice.random() < 0.5:
            xid = XATransactionId(7, str(self.number).encode(), b"b")
        inside = self.home.within(xid)
        added = [self._message() for _ in range(self.dice.randrange(1, 5))]
        removed = self.live[: self.dice.randrange(3)]
        for reference in added:
            self.store.add_message(inside, reference)
        for reference in removed:
            self.store.remove_message(inside, reference)
        if isinstance(xid, XATransactionId):
            self.transactions.prepare(xid)
        if self.dice.random() < 0.3:
            self.transactions.rollback(xid)
            return
        self._asked(self.transactions.commit(xid, True))
        for reference in added:
            self.store.mark_visible(reference)
        self.live = [*self.live[len(removed) :], *added]


@pytest.mark.parametrize("seed", range(2))
async def test_power_fails_and_a_consistent_prefix_is_left(
    home: Home, tmp_path: Path, seed: int
) -> None:
    disk = SimulatedDisk()
    await home.open(disk=disk)
    work = Work(home, seed)
    crashes = 0
    for _ in range(8):
        if work.dice.random() < 0.2:
            await home.adapter.checkpoint()
        # What asks for no answer is written without a sync.
        work.polite = work.dice.random() < 0.3
        for _ in range(work.dice.randrange(1, 5)):
            for _ in range(work.dice.randrange(1, 5)):
                work.step()
            await home.done(home.adapter.journal.barrier(sync=False))
        unsynced = len(disk.unsynced)
        for keep in range(unsynced + 1):
            size = len(disk.unsynced[keep].data or b"") if keep < unsynced else 1
            for torn in sorted({0, size // 2, size - 1}):
                crashes += 1
                copy = type(home)(tmp_path / f"copy{crashes}")
                if crashes % 2:
                    shutil.copytree(home.directory, copy.directory)
                else:
                    copy.directory.mkdir()
                after = disk.after_crash(keep, torn)
                moved = {
                    copy.directory / path.name: after.content(path)
                    for path in list(after._seen_names)
                }
                survivor = SimulatedDisk()
                for path, content in moved.items():
                    survivor.put(path, content)
                await copy.open(disk=survivor)
                await settle(copy)
                store = copy.adapter.queue_message_store(Q)
                state = [
                    (m.position.arrival, m.message.type) for m in store.next_messages(None, 999)
                ]
                assert state in work.states[work.safe :]
                await copy.close()
                shutil.rmtree(copy.directory)
    assert crashes > 20


async def settle(copy: Home) -> None:
    """Roll back what was prepared and whose end was not written."""
    transactions = copy.adapter.transaction_store()
    for found in transactions.recovered_transactions():
        await copy.done(transactions.rollback(found.xid))
