"""pyjms: declarative messaging in the style of Spring JMS, on OpenWire.

The API of this package blocks, for scripts and threads; `pyjms.aio` has the same names as
coroutines. These are the names that most programs need; the rest is in `pyjms.errors`,
`pyjms.jms`, `pyjms.listener`, `pyjms.support`, `pyjms.template`, `pyjms.connection`,
`pyjms.transactions`, `pyjms.management` and, for blocking classes, `pyjms.sync`.

The imports below are the list of names, for type checkers and at run time: the module of a name is
imported on first use, so that `import pyjms` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.build import prefer_sources
from pyjms.runtime.forwarding import lazily

prefer_sources()

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms._shared_names import *  # noqa: F403
    from pyjms.sync.connection import (
        Connection as Connection, ConnectionFactory as ConnectionFactory,
        JMSConsumer as JMSConsumer, JMSContext as JMSContext, JMSProducer as JMSProducer,
    )
    from pyjms.sync.containers import (
        DefaultMessageListenerContainer as DefaultMessageListenerContainer,
        SimpleMessageListenerContainer as SimpleMessageListenerContainer,
    )
    from pyjms.sync.factories import (
        CachingConnectionFactory as CachingConnectionFactory,
        JmsPoolConnectionFactory as JmsPoolConnectionFactory,
        PooledConnectionFactory as PooledConnectionFactory,
        SingleConnectionFactory as SingleConnectionFactory,
        UserCredentialsConnectionFactoryAdapter as UserCredentialsConnectionFactoryAdapter,
    )
    from pyjms.sync.messaging import (
        JmsClient as JmsClient, JmsMessagingTemplate as JmsMessagingTemplate,
        JmsScheduler as JmsScheduler, redrive as redrive,
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
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals(), "pyjms._shared_names")
