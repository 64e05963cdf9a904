"""XA with the blocking API."""

from __future__ import annotations

import pytest

import pyjms
from pyjms.errors import TransactionInProgressException, XAException
from pyjms.sync import XAConnection, XAConnectionFactory, XAResource, XASession
from pyjms.transactions import Synchronization, Xid
from tests.kit.clients.messages import text_of


def test_two_phases_with_blocking_calls() -> None:
    url = "vm://blocking-xa?broker.persistent=false"
    factory = XAConnectionFactory(url, xa_ack_mode=pyjms.AcknowledgeMode.AUTO)
    assert factory.xa_ack_mode == pyjms.AcknowledgeMode.AUTO
    calls: list[str] = []

    class Recorder(Synchronization):
        def before_end(self) -> None:
            calls.append("before")

        def after_commit(self) -> None:
            calls.append("committed")

    with factory.create_xa_connection() as connection, factory.create_connection() as second:
        connection.start()
        session = connection.create_session()
        assert isinstance(session, XASession)
        assert isinstance(connection, XAConnection)
        queue = session.create_queue("q")
        consumer = session.create_consumer(queue)
        resource, xid = session.xa_resource, Xid(1, b"global", b"branch")
        with pytest.raises(TransactionInProgressException):
            session.commit()
        resource.start(xid)
        session.add_synchronization(Recorder())
        session.create_producer(queue).send(session.create_text_message("a"))
        resource.end(xid, XAResource.TMSUCCESS)
        assert resource.prepare(xid) == XAResource.XA_OK
        other = second.create_xa_session().xa_resource
        assert resource.is_same_rm(other)
        assert resource.transaction_timeout == 0
        assert not resource.set_transaction_timeout(5)
        assert other.recover() == [xid]
        other.commit(xid)
        assert calls == ["before", "committed"]
        assert text_of(consumer.receive(5)) == "a"
        with pytest.raises(XAException) as caught:
            resource.rollback(xid)
        assert caught.value.xa_error_code == XAException.XAER_NOTA
