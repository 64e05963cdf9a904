"""Binding sessions to tasks by factory object."""

from __future__ import annotations

import anyio
import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.errors import TransactionRolledBackException
from pyjms.runtime import clock as _clock
from pyjms.template.resources import BoundResource, bind, bound_resource
from pyjms.template.template import JmsTemplate
from tests.kit.clients.jms_provider import JmsProvider


@pytest.fixture
async def resource(provider: JmsProvider) -> BoundResource:
    connection = await provider.create_connection()
    return BoundResource(connection, await connection.create_session())


async def test_a_binding_holds_for_its_block_and_its_factory_object(
    provider: JmsProvider, resource: BoundResource
) -> None:
    other = type(provider)()
    assert bound_resource(provider) is None
    with bind(provider, resource) as same:
        assert same is bound_resource(provider) is resource
        assert bound_resource(other) is None
        inner = BoundResource(resource.connection, resource.session, True)
        with bind(provider, inner), bind(other, resource):
            assert bound_resource(provider) is inner
            assert bound_resource(other) is resource
        with bind(provider, None):
            assert bound_resource(provider) is None
        assert bound_resource(provider) is resource
    assert bound_resource(provider) is None


async def test_a_caching_factory_counts_as_the_one_it_wraps(
    provider: JmsProvider, resource: BoundResource
) -> None:
    caching = CachingConnectionFactory(provider)
    with bind(provider, resource):
        assert bound_resource(caching) is resource
        with bind(caching, None):
            assert bound_resource(caching) is None
            assert bound_resource(provider) is resource
    with bind(caching, resource):
        assert bound_resource(provider) is None


async def test_tasks_have_their_own_bindings(
    provider: JmsProvider, resource: BoundResource
) -> None:
    seen: list[BoundResource | None] = []
    ready, done = anyio.Event(), anyio.Event()

    async def other() -> None:
        ready.set()
        await done.wait()
        seen.append(bound_resource(provider))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await ready.wait()
        with bind(provider, resource):
            done.set()
            await anyio.wait_all_tasks_blocked()
    assert seen == [None]


async def test_a_template_uses_the_bound_session(
    provider: JmsProvider, resource: BoundResource
) -> None:
    with bind(provider, resource):
        await JmsTemplate(provider, session_transacted=True).convert_and_send("q", "x")
    assert provider.counts["Connection.createSession"] == 1
    assert provider.counts["Session.commit"] == provider.counts["Session.close"] == 0


async def test_time_that_remains(resource: BoundResource) -> None:
    assert resource.remaining() is None
    resource.deadline = _clock.now() + 1000
    left = resource.remaining()
    assert left is not None
    assert 0 < left <= 1000
    resource.deadline = _clock.now()
    with pytest.raises(TransactionRolledBackException, match="timed out"):
        resource.remaining()
    assert resource.rollback_only
