"""The public names of pyjms as coroutines, on asyncio, uvloop or trio, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms._shared_names import *  # noqa: F403
    from pyjms.client.factory import ConnectionFactory as ConnectionFactory
    from pyjms.connection.caching import (
        CachingConnectionFactory as CachingConnectionFactory,
        SingleConnectionFactory as SingleConnectionFactory,
    )
    from pyjms.connection.delegating import (
        UserCredentialsConnectionFactoryAdapter as UserCredentialsConnectionFactoryAdapter,
    )
    from pyjms.connection.pool import (
        JmsPoolConnectionFactory as JmsPoolConnectionFactory,
        PooledConnectionFactory as PooledConnectionFactory,
    )
    from pyjms.connection.transaction import (
        ChainedTransactionManager as ChainedTransactionManager,
        JmsTransactionManager as JmsTransactionManager,
        ResourceTransactionManager as ResourceTransactionManager,
    )
    from pyjms.jms.api import (
        Connection as Connection, MessageConsumer as MessageConsumer,
        MessageProducer as MessageProducer, QueueBrowser as QueueBrowser, Session as Session,
    )
    from pyjms.jms.context import (
        JMSConsumer as JMSConsumer, JMSContext as JMSContext, JMSProducer as JMSProducer,
    )
    from pyjms.listener.default_container import (
        DefaultMessageListenerContainer as DefaultMessageListenerContainer,
    )
    from pyjms.listener.simple_container import (
        SimpleMessageListenerContainer as SimpleMessageListenerContainer,
    )
    from pyjms.template.messaging import (
        JmsClient as JmsClient, JmsMessagingTemplate as JmsMessagingTemplate,
    )
    from pyjms.template.redrive import redrive as redrive
    from pyjms.template.scheduler import JmsScheduler as JmsScheduler
    from pyjms.template.template import JmsTemplate as JmsTemplate
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals(), "pyjms._shared_names")
