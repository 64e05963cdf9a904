"""pyjms: declarative messaging in the style of Spring JMS, on OpenWire.

The API of this package blocks, for scripts and threads; `pyjms.aio` has the same names as
coroutines. The module of a name is imported on first use, so that `import pyjms` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._shared_names import SHARED
from pyjms.runtime.forwarding import homes_of, names_of

# fmt: off
# isort: off
if TYPE_CHECKING:  # for type checkers; at run time the table below is used; a test compares them
    from pyjms._shared_names import *  # noqa: F403
    from pyjms.sync.server_sessions import (
        ConnectionConsumer as ConnectionConsumer, ServerSession as ServerSession,
        ServerSessionPool as ServerSessionPool,
        SimpleServerSessionPool as SimpleServerSessionPool,
    )
    from pyjms.sync.connection import (
        Connection as Connection, ConnectionFactory as ConnectionFactory,
        QueueConnection as QueueConnection, QueueConnectionFactory as QueueConnectionFactory,
        TopicConnection as TopicConnection, TopicConnectionFactory as TopicConnectionFactory,
    )
    from pyjms.sync.connection import (
        JMSConsumer as JMSConsumer, JMSContext as JMSContext, JMSProducer as JMSProducer,
    )
    from pyjms.sync.containers import (
        DefaultMessageListenerContainer as DefaultMessageListenerContainer,
        SimpleMessageListenerContainer as SimpleMessageListenerContainer,
    )
    from pyjms.sync.domain import (
        QueueReceiver as QueueReceiver, QueueRequestor as QueueRequestor,
        QueueSender as QueueSender, QueueSession as QueueSession,
        TopicPublisher as TopicPublisher, TopicRequestor as TopicRequestor,
        TopicSession as TopicSession, TopicSubscriber as TopicSubscriber,
    )
    from pyjms.sync.factories import (
        CachingConnectionFactory as CachingConnectionFactory,
        DelegatingConnectionFactory as DelegatingConnectionFactory,
        SingleConnectionFactory as SingleConnectionFactory,
        TransactionAwareConnectionFactoryProxy as TransactionAwareConnectionFactoryProxy,
        UserCredentialsConnectionFactoryAdapter as UserCredentialsConnectionFactoryAdapter,
    )
    from pyjms.sync.messaging import (
        JmsClient as JmsClient, JmsClientOperations as JmsClientOperations,
        JmsMessagingTemplate as JmsMessagingTemplate, JmsScheduler as JmsScheduler,
        redrive as redrive,
    )
    from pyjms.sync.factories import (
        JmsPoolConnectionFactory as JmsPoolConnectionFactory,
        PooledConnectionFactory as PooledConnectionFactory,
    )
    from pyjms.sync.session import (
        MessageConsumer as MessageConsumer, MessageProducer as MessageProducer,
        QueueBrowser as QueueBrowser, Session as Session,
    )
    from pyjms.sync.template import JmsTemplate as JmsTemplate
    from pyjms.sync.transactions import (
        ChainedTransactionManager as ChainedTransactionManager,
        JmsTransactionManager as JmsTransactionManager,
        ResourceTransactionManager as ResourceTransactionManager,
    )
    from pyjms.sync.xa import (
        XAConnection as XAConnection, XAConnectionFactory as XAConnectionFactory,
        XAResource as XAResource, XASession as XASession,
    )
# isort: on
# fmt: on

_BLOCKING = {
    "pyjms.sync.server_sessions": """
        ConnectionConsumer ServerSession ServerSessionPool SimpleServerSessionPool
    """,
    "pyjms.sync.connection": """
        Connection ConnectionFactory QueueConnection QueueConnectionFactory TopicConnection
        TopicConnectionFactory JMSConsumer JMSContext JMSProducer
    """,
    "pyjms.sync.containers": "DefaultMessageListenerContainer SimpleMessageListenerContainer",
    "pyjms.sync.domain": """
        QueueReceiver QueueRequestor QueueSender QueueSession TopicPublisher TopicRequestor
        TopicSession TopicSubscriber
    """,
    "pyjms.sync.factories": """
        CachingConnectionFactory DelegatingConnectionFactory SingleConnectionFactory
        TransactionAwareConnectionFactoryProxy UserCredentialsConnectionFactoryAdapter
        JmsPoolConnectionFactory PooledConnectionFactory
    """,
    "pyjms.sync.messaging": """
        JmsClient JmsClientOperations JmsMessagingTemplate JmsScheduler redrive
    """,
    "pyjms.sync.session": "MessageConsumer MessageProducer QueueBrowser Session",
    "pyjms.sync.template": "JmsTemplate",
    "pyjms.sync.transactions": """
        ChainedTransactionManager JmsTransactionManager ResourceTransactionManager
    """,
    "pyjms.sync.xa": "XAConnection XAConnectionFactory XAResource XASession",
}

_HOMES = homes_of(SHARED | _BLOCKING)

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table has them


__getattr__, __dir__ = names_of(globals(), _HOMES)
