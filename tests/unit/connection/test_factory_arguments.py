"""What takes a connection factory refuses what is none, when it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pyjms
from pyjms import aio, connection, sync

URL = "vm://none?broker.persistent=false"
TAKERS: list[Callable[[Any], object]] = (
    [
        taker
        for api in (pyjms, aio)
        for taker in (
            api.JmsTemplate,
            api.JmsClient,
            api.JmsTransactionManager,
            api.SingleConnectionFactory,
            api.CachingConnectionFactory,
            api.UserCredentialsConnectionFactoryAdapter,
            api.JmsPoolConnectionFactory,
            api.DefaultMessageListenerContainer,
            api.SimpleMessageListenerContainer,
        )
    ]
    + [
        taker
        for package in (sync, connection)
        for taker in (
            package.DelegatingConnectionFactory,
            package.TransactionAwareConnectionFactoryProxy,
        )
    ]
    + [pyjms.DefaultJmsListenerContainerFactory, pyjms.SimpleJmsListenerContainerFactory]
)


@pytest.mark.parametrize("take", TAKERS)
def test_a_url_a_class_and_other_objects_are_refused(take: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"write ConnectionFactory\(url\)") as refused:
        take("tcp://user:secret@localhost:61616")
    assert "secret" not in str(refused.value)
    with pytest.raises(TypeError, match="not the class ConnectionFactory"):
        take(aio.ConnectionFactory)
    with pytest.raises(TypeError, match="not an object of class int"):
        take(5)


@pytest.mark.parametrize(
    "take", [t for t in TAKERS if t.__module__.split(".")[1] not in ("sync", "blocking")]
)
def test_coroutines_need_a_factory_of_coroutines(take: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"of pyjms\.aio, not the blocking ConnectionFactory"):
        take(pyjms.ConnectionFactory(URL))


def test_a_blocking_object_takes_either_kind() -> None:
    assert pyjms.JmsTemplate(aio.ConnectionFactory(URL)).core is not None
    assert pyjms.JmsTemplate(pyjms.ConnectionFactory(URL)).core is not None
