"""The public names of pyjms as coroutines, on asyncio, uvloop or trio, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._shared_names import SHARED
from pyjms.runtime.forwarding import homes_of, names_of

# fmt: off
# isort: off
if TYPE_CHECKING:  # for type checkers; at run time the tables are used; a test compares them
    from pyjms._shared_names import *  # noqa: F403
    from pyjms.client.factory import ConnectionFactory as ConnectionFactory
    from pyjms.client.xa import XAConnectionFactory as XAConnectionFactory
    from pyjms.connection.caching import CachingConnectionFactory as CachingConnectionFactory
    from pyjms.connection.delegating import (
        UserCredentialsConnectionFactoryAdapter as UserCredentialsConnectionFactoryAdapter,
    )
    from pyjms.connection.delegating import (
        DelegatingConnectionFactory as DelegatingConnectionFactory,
    )
    from pyjms.connection.managers import (
        ChainedTransactionManager as ChainedTransactionManager,
        ResourceTransactionManager as ResourceTransactionManager,
    )
    from pyjms.connection.pool import (
        JmsPoolConnectionFactory as JmsPoolConnectionFactory,
        PooledConnectionFactory as PooledConnectionFactory,
    )
    from pyjms.connection.server_sessions import SimpleServerSessionPool as SimpleServerSessionPool
    from pyjms.connection.single import SingleConnectionFactory as SingleConnectionFactory
    from pyjms.connection.transaction import JmsTransactionManager as JmsTransactionManager
    from pyjms.connection.delegating import (
        TransactionAwareConnectionFactoryProxy as TransactionAwareConnectionFactoryProxy,
    )
    from pyjms.template.messaging import (
        JmsClient as JmsClient, JmsClientOperations as JmsClientOperations,
    )
    from pyjms.template.messaging import JmsMessagingTemplate as JmsMessagingTemplate
    from pyjms.template.redrive import redrive as redrive
    from pyjms.template.scheduler import JmsScheduler as JmsScheduler
    from pyjms.template.template import JmsTemplate as JmsTemplate
    from pyjms.jms.api import (
        Connection as Connection, ConnectionConsumer as ConnectionConsumer,
        JMSConsumer as JMSConsumer, JMSContext as JMSContext, JMSProducer as JMSProducer,
        MessageConsumer as MessageConsumer, MessageProducer as MessageProducer,
        QueueBrowser as QueueBrowser, ServerSession as ServerSession,
        ServerSessionPool as ServerSessionPool, Session as Session,
    )
    from pyjms.jms.domain import (
        QueueConnection as QueueConnection, QueueConnectionFactory as QueueConnectionFactory,
        QueueReceiver as QueueReceiver, QueueRequestor as QueueRequestor,
        QueueSender as QueueSender, QueueSession as QueueSession,
        TopicConnection as TopicConnection, TopicConnectionFactory as TopicConnectionFactory,
        TopicPublisher as TopicPublisher, TopicRequestor as TopicRequestor,
        TopicSession as TopicSession, TopicSubscriber as TopicSubscriber,
    )
    from pyjms.jms.xa import (
        XAConnection as XAConnection, XAResource as XAResource, XASession as XASession,
    )
    from pyjms.listener.default_container import (
        DefaultMessageListenerContainer as DefaultMessageListenerContainer,
    )
    from pyjms.listener.simple_container import (
        SimpleMessageListenerContainer as SimpleMessageListenerContainer,
    )
# isort: on
# fmt: on

_COROUTINES = {
    "pyjms.client.factory": "ConnectionFactory",
    "pyjms.client.xa": "XAConnectionFactory",
    "pyjms.connection.caching": "CachingConnectionFactory",
    "pyjms.connection.delegating": """
        UserCredentialsConnectionFactoryAdapter DelegatingConnectionFactory
        TransactionAwareConnectionFactoryProxy
    """,
    "pyjms.connection.managers": "ChainedTransactionManager ResourceTransactionManager",
    "pyjms.connection.pool": "JmsPoolConnectionFactory PooledConnectionFactory",
    "pyjms.connection.server_sessions": "SimpleServerSessionPool",
    "pyjms.connection.single": "SingleConnectionFactory",
    "pyjms.connection.transaction": "JmsTransactionManager",
    "pyjms.template.messaging": "JmsClient JmsClientOperations JmsMessagingTemplate",
    "pyjms.template.redrive": "redrive",
    "pyjms.template.scheduler": "JmsScheduler",
    "pyjms.template.template": "JmsTemplate",
    "pyjms.jms.xa": "XAConnection XAResource XASession",
    "pyjms.jms.api": """
        Connection ConnectionConsumer JMSConsumer JMSContext JMSProducer MessageConsumer
        MessageProducer QueueBrowser ServerSession ServerSessionPool Session
    """,
    "pyjms.jms.domain": """
        QueueConnection QueueConnectionFactory QueueReceiver QueueRequestor QueueSender
        QueueSession TopicConnection TopicConnectionFactory TopicPublisher TopicRequestor
        TopicSession TopicSubscriber
    """,
    "pyjms.listener.default_container": "DefaultMessageListenerContainer",
    "pyjms.listener.simple_container": "SimpleMessageListenerContainer",
}

_HOMES = homes_of(SHARED) | homes_of(_COROUTINES)

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table has them


__getattr__, __dir__ = names_of(globals(), _HOMES)
