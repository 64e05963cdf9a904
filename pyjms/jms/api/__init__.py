"""The interfaces of a JMS provider, as coroutines.

`pyjms.client` implements them; caching and pooling factories wrap them. Names are JMS's in
snake_case. Everything here belongs to one event loop and is not thread-safe. A connection may be
used by any number of tasks. A session and what it created belong to one task at a time; only
`close` may be called from another one. Times are seconds; a timeout of None waits for ever and 0
does not wait. (jms-api 1 and 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.jms.api.connection import (
    Connection,
    ConnectionConsumer,
    ConnectionFactory,
    ExceptionListener,
    ServerSession,
    ServerSessionPool,
    check_factory,
)
from pyjms.jms.api.endpoints import (
    AsyncCallback,
    Closeable,
    CompletionListener,
    MessageAvailableListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
    destination_first,
)
from pyjms.jms.api.session import MessageTransformer, Session, SessionOperations
from pyjms.runtime.forwarding import lazily

if TYPE_CHECKING:
    from pyjms.jms.api.context import BodyConverter, JMSConsumer, JMSContext, JMSProducer

__all__ = [
    "AsyncCallback",
    "BodyConverter",
    "Closeable",
    "CompletionListener",
    "Connection",
    "ConnectionConsumer",
    "ConnectionFactory",
    "ExceptionListener",
    "JMSConsumer",
    "JMSContext",
    "JMSProducer",
    "MessageAvailableListener",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageTransformer",
    "QueueBrowser",
    "ServerSession",
    "ServerSessionPool",
    "Session",
    "SessionOperations",
    "check_factory",
    "destination_first",
]

# the simplified API of JMS 2.0 is imported on first use
__getattr__, __dir__ = lazily(globals())
