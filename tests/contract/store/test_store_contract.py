"""The shipped contract of stores on every store of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.testing.contract.store import AdapterFactory, StoreContract, StoreHarness
from pyjms_broker.api.message import OperationContext
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.jobs.scheduler import JobSchedulerStore, MemoryJobSchedulerStore
from tests.kit.stores.factories import FACTORIES, StoreFactory


@pytest.mark.fact(
    "activemq-persistence S1",
    "activemq-persistence S2",
    "activemq-persistence S3",
    "activemq-persistence S4",
    "activemq-persistence S6",
    "activemq-persistence K11",
)
class TestStores(StoreContract):
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test with all stores, or with those that the fixtures it asks for are about."""
        names = metafunc.fixturenames
        factories = [
            pytest.param(each, marks=each.marks, id=each.name)
            for each in FACTORIES
            if ("durable_harness" not in names or each.persistent)
            and ("volatile_harness" not in names or not each.persistent)
        ]
        metafunc.parametrize("store_factory", factories, indirect=True)

    @pytest.fixture
    def store_factory(self, request: pytest.FixtureRequest) -> StoreFactory:
        found: StoreFactory = request.param
        reason = found.skip_reason()
        if reason:
            pytest.skip(reason)
        return found

    @pytest.fixture
    def make_adapter(self, store_factory: StoreFactory, tmp_path: Path) -> AdapterFactory:
        return lambda: store_factory.make(tmp_path / "store")

    async def test_stores_say_whether_a_restart_keeps_messages(
        self, harness: StoreHarness, store_factory: StoreFactory
    ) -> None:
        assert harness.persistent == store_factory.persistent

    async def test_the_job_store_works_beside_it(
        self, harness: StoreHarness, tmp_path: Path
    ) -> None:
        def make() -> JobSchedulerStore:
            if harness.persistent:
                return KahaDBJobSchedulerStore(tmp_path / "scheduler")
            return MemoryJobSchedulerStore()

        jobs = make()
        await jobs.start()
        answer = jobs.scheduler().add(ScheduledJob("a", 1, 2), harness.reference(1).message)
        harness.queue().add_message(OperationContext(), harness.reference(2))
        await harness.done(answer)
        await harness.restart()
        message = jobs.scheduler().message("a")
        assert message is not None
        assert message.type == "1"
        await jobs.stop()
        again = make()
        await again.start()
        assert len(again.scheduler()) == (1 if harness.persistent else 0)
        await again.stop()
