"""The blocking API: blocking objects that call the coroutine core from threads.

`pyjms` has the names that most programs need, this package those of JMS's interfaces for one
domain, of XA, of server sessions and of the wrapping factories; they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.sync.connection import (
        QueueConnection as QueueConnection, QueueConnectionFactory as QueueConnectionFactory,
        TopicConnection as TopicConnection, TopicConnectionFactory as TopicConnectionFactory,
    )
    from pyjms.sync.domain import (
        QueueReceiver as QueueReceiver, QueueRequestor as QueueRequestor,
        QueueSender as QueueSender, QueueSession as QueueSession,
        TopicPublisher as TopicPublisher, TopicRequestor as TopicRequestor,
        TopicSession as TopicSession, TopicSubscriber as TopicSubscriber,
    )
    from pyjms.sync.factories import (
        DelegatingConnectionFactory as DelegatingConnectionFactory,
        TransactionAwareConnectionFactoryProxy as TransactionAwareConnectionFactoryProxy,
    )
    from pyjms.sync.messaging import JmsClientOperations as JmsClientOperations
    from pyjms.sync.server_sessions import (
        ConnectionConsumer as ConnectionConsumer, ServerSession as ServerSession,
        ServerSessionPool as ServerSessionPool,
        SimpleServerSessionPool as SimpleServerSessionPool,
    )
    from pyjms.sync.xa import (
        XAConnection as XAConnection, XAConnectionFactory as XAConnectionFactory,
        XAResource as XAResource, XASession as XASession,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
