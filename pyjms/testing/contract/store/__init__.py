"""The contract of stores, as tests. `pyjms_broker.store.api` describes it.

A store that is registered under the entry point `broker.stores` should pass them. Subclass
`StoreContract` and define its only fixture, `make_adapter`:

    class TestRedisStore(StoreContract):
        @pytest.fixture
        def make_adapter(self, tmp_path: Path) -> AdapterFactory:
            return lambda: RedisPersistenceAdapter(tmp_path / "store")

All adapters that one test makes use the same data, and each test needs its own data. Tests of
restarts are skipped for stores that have the attribute `is_volatile`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms.testing.contract.store.harness import AdapterContract, AdapterFactory, StoreHarness
from pyjms.testing.contract.store.messages import QueueContract, TopicContract
from pyjms.testing.contract.store.transactions import TransactionContract

__all__ = [
    "AdapterContract",
    "AdapterFactory",
    "QueueContract",
    "StoreContract",
    "StoreHarness",
    "TopicContract",
    "TransactionContract",
]


class StoreContract(AdapterContract, QueueContract, TopicContract, TransactionContract):
    """All tests of stores. Subclass it, with a fixture `make_adapter`."""

    @pytest.fixture
    def make_adapter(self) -> AdapterFactory:
        """Return a function that makes an adapter, not started. Override it."""
        raise NotImplementedError("define the fixture make_adapter in your subclass")

    @pytest.fixture
    async def harness(self, make_adapter: AdapterFactory) -> AsyncIterator[StoreHarness]:
        """A started store."""
        harness = StoreHarness(make_adapter)
        await harness.start()
        yield harness
        await harness.adapter.stop()

    @pytest.fixture
    def volatile_harness(self, harness: StoreHarness) -> StoreHarness:
        """A started store that does not survive a restart."""
        if harness.persistent:
            pytest.skip("the store survives a restart")
        return harness

    @pytest.fixture
    def durable_harness(self, harness: StoreHarness) -> StoreHarness:
        """A started store that survives a restart."""
        if not harness.persistent:
            pytest.skip("the store does not survive a restart")
        return harness
