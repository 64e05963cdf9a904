"""One process of well-behaved clients.

python -m tests.kit.soak.clients.process OPTIONS, a JSON object: see `Options`. It goes on until its standard
input has a line or ends; then its senders stop, and it ends when nothing has come for a while.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from pyjms.errors import JMSException
from tests.kit.soak.clients.links import Link, Links
from tests.kit.soak.clients.readers import read
from tests.kit.soak.clients.senders import Numbers, send
from tests.kit.soak.clients.xa_senders import XaSender
from tests.kit.soak.events import EventLog
from tests.kit.soak.flows import FLOWS, Flow, Reader

__all__ = ["Options", "command"]

logger = logging.getLogger("soak")

Work = Callable[[Link], Awaitable[None]]


@dataclass(frozen=True)
class Options:
    """What a process of clients is to do."""

    url: str
    """Of the broker, without options."""
    log: str
    """The file of its events."""
    name: str
    """A part of its senders' names; no two processes have the same."""
    seed: int
    quiet: float
    """Seconds without a message after which everything counts as received."""
    sends: bool = True
    mortal: bool = False
    """Whether it has the clients of processes that are killed."""


def command(options: Options) -> list[str]:
    """Return the command line of such a process."""
    return [sys.executable, "-m", "tests.kit.soak.clients.process", json.dumps(vars(options))]


class Job(NamedTuple):
    """What one client does, over one connection after another."""

    name: str
    work: Work
    query: str = ""
    """Options of its connections."""
    ends: bool = False
    """Whether it ends when nothing more is to be sent."""


class ClientProcess:
    """All clients of this process."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.links = Links(options.url, EventLog(Path(options.log)))
        self.chance = random.Random(options.seed)

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for number, job in enumerate(self._readers()):
                self.links.reader_opens(job.name)
                group.start_soon(self._keep_working, job, number % 3 == 2)
            await self.links.wait_for_readers()
            print("ready", flush=True)
            async with anyio.create_task_group() as senders:
                if self.options.sends:
                    self._start_senders(senders)
                # the file is read in a thread, which ends with the process
                await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
                self.links.finishing.set()
            print("sent", flush=True)
            await self.links.wait_until_quiet(self.options.quiet)
            group.cancel_scope.cancel()
        print("finished", flush=True)

    def _start_senders(self, group: TaskGroup) -> None:
        for number, job in enumerate(self._senders()):
            group.start_soon(self._keep_working, job, number % 3 == 2)
        if not self.options.mortal:
            for flow in (flow for flow in FLOWS if flow.xa):
                numbers = Numbers(f"{flow.name}/{self.options.name}", flow.lanes)
                group.start_soon(XaSender(self.links, flow, numbers, self.chance).run)

    def _readers(self) -> Iterator[Job]:
        mortal = self.options.mortal
        for flow in FLOWS:
            for reader in flow.readers:
                if mortal and not reader.mortal:
                    continue
                # a subscription's client id must be the same in every process
                process = "always" if reader.durable else self.options.name
                for number in range(1 if mortal else reader.count):
                    name = f"reader/{reader.endpoint.name}-{process}-{number}"
                    yield Job(name, self._reading(reader), _query(flow, reader))

    def _senders(self) -> Iterator[Job]:
        mortal = self.options.mortal
        for flow in FLOWS:
            if (flow.mortal or not mortal) and not flow.xa:
                for number in range(1 if mortal else flow.senders):
                    name = f"{flow.name}/{self.options.name}-{number}"
                    yield Job(name, self._sending(flow, name), ends=True)

    def _reading(self, reader: Reader) -> Work:
        chance = random.Random(self.chance.random())
        return lambda link: read(link, reader, chance)

    def _sending(self, flow: Flow, name: str) -> Work:
        chance = random.Random(self.chance.random())
        numbers = Numbers(name, flow.lanes)
        return lambda link: send(link, flow, numbers, chance)

    async def _keep_working(self, job: Job, direct: bool) -> None:
        """Do it over one connection after another; with `failover:` the first one should last."""
        while not (job.ends and self.links.finishing.is_set()):
            try:
                async with self.links.connect(job.name, direct=direct, query=job.query) as link:
                    await job.work(link)
            except JMSException as error:
                logger.info("%s: %s: %s", job.name, type(error).__name__, error)
                self.links.log.write("failed", job.name, type(error).__name__)
                await anyio.sleep(0.2)


def _query(flow: Flow, reader: Reader) -> str:
    """Return the options of a consumer's connection."""
    limit = f"&jms.redeliveryPolicy.maximumRedeliveries={flow.redeliveries}"
    return f"{limit}&jms.sendAcksAsync={str(not reader.waits).lower()}"


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    anyio.run(ClientProcess(Options(**json.loads(sys.argv[1]))).run)


if __name__ == "__main__":
    main()
