"""The public names of pyjms as coroutines, on asyncio, uvloop or trio, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms import SHARED
from pyjms._forwarding import homes_of, names_of

# fmt: off
# isort: off
if TYPE_CHECKING:  # what type checkers read; the tables are what runs, a test compares them
    from pyjms import (
        HandlerInterceptor as HandlerInterceptor,
        HandlerInvocation as HandlerInvocation,
        JmsListenerEndpoint as JmsListenerEndpoint,
        MethodJmsListenerEndpoint as MethodJmsListenerEndpoint,
        Proceed as Proceed, SendInterceptor as SendInterceptor, SendInvocation as SendInvocation,
        SimpleAsyncTaskExecutor as SimpleAsyncTaskExecutor,
        SimpleJmsListenerEndpoint as SimpleJmsListenerEndpoint,
        TaskExecutor as TaskExecutor,
        CountStatistic as CountStatistic, MetricsObserver as MetricsObserver,
        Statistics as Statistics, TimeStatistic as TimeStatistic,
        add_metrics_observer as add_metrics_observer,
        remove_metrics_observer as remove_metrics_observer,
        AsyncCallback as AsyncCallback, CompletionListener as CompletionListener,
        MessageTransformer as MessageTransformer,
        AcknowledgeMode as AcknowledgeMode, ApplicationContainer as ApplicationContainer,
        BytesMessage as BytesMessage, CacheLevel as CacheLevel,
        ConfigurationException as ConfigurationException,
        ConnectionClosedException as ConnectionClosedException,
        ConnectionFailedException as ConnectionFailedException,
        ContentTypeDelegatingMessageConverter as ContentTypeDelegatingMessageConverter,
        DefaultJmsListenerContainerFactory as DefaultJmsListenerContainerFactory,
        DefaultMessageConverter as DefaultMessageConverter, DeliveryMode as DeliveryMode,
        Destination as Destination,
        DestinationDoesNotExistException as DestinationDoesNotExistException,
        DestinationResolutionException as DestinationResolutionException,
        DestinationResolver as DestinationResolver,
        DynamicDestinationResolver as DynamicDestinationResolver,
        ExponentialBackOff as ExponentialBackOff, FixedBackOff as FixedBackOff, Header as Header,
        Headers as Headers, IllegalStateException as IllegalStateException,
        InvalidClientIDException as InvalidClientIDException,
        InvalidDestinationException as InvalidDestinationException,
        InvalidSelectorException as InvalidSelectorException, JMSException as JMSException,
        JMSSecurityException as JMSSecurityException, JmsApplication as JmsApplication,
        JmsListenerEndpointRegistry as JmsListenerEndpointRegistry,
        GenericMessage as GenericMessage,
        MessagingMessageConverter as MessagingMessageConverter,
        JmsHeaders as JmsHeaders, JsonMessageConverter as JsonMessageConverter,
        JmsResponse as JmsResponse,
        IdempotencyStore as IdempotencyStore,
        MemoryIdempotencyStore as MemoryIdempotencyStore,
        idempotent as idempotent,
        RetryPolicy as RetryPolicy,
        Redriven as Redriven,
        Reject as Reject,
        Retry as Retry,
        Skip as Skip,
        Batch as Batch,
        ListenerExecutionFailedException as ListenerExecutionFailedException,
        LocalProtocolError as LocalProtocolError,
        LocalTransactionEventListener as LocalTransactionEventListener,
        Synchronization as Synchronization,
        MapMessage as MapMessage, Message as Message,
        MessageConversionException as MessageConversionException,
        MessageConverter as MessageConverter, MessageEOFException as MessageEOFException,
        MessageFormatException as MessageFormatException,
        MessageNotReadableException as MessageNotReadableException,
        MessageNotWriteableException as MessageNotWriteableException,
        MessageType as MessageType, Propagation as Propagation, QosSettings as QosSettings,
        BlobMessage as BlobMessage, BlobTransferPolicy as BlobTransferPolicy,
        ObjectMessage as ObjectMessage, Payload as Payload, PrefetchPolicy as PrefetchPolicy,
        ProtocolViolation as ProtocolViolation, PyjmsSettings as PyjmsSettings, Queue as Queue,
        RedeliveryPolicy as RedeliveryPolicy, RemoteProtocolError as RemoteProtocolError,
        PoisonMessageException as PoisonMessageException,
        ReplyFailureException as ReplyFailureException,
        UnreadableMessageException as UnreadableMessageException,
        RequestTimeoutException as RequestTimeoutException,
        ResourceAllocationException as ResourceAllocationException,
        SimpleJmsListenerContainerFactory as SimpleJmsListenerContainerFactory,
        SimpleMessageConverter as SimpleMessageConverter,
        SimpleJmsHeaderMapper as SimpleJmsHeaderMapper, StreamMessage as StreamMessage,
        TemporaryQueue as TemporaryQueue, TemporaryTopic as TemporaryTopic,
        TextMessage as TextMessage, Topic as Topic,
        TransactionInProgressException as TransactionInProgressException,
        TransactionRolledBackException as TransactionRolledBackException,
        TransactionStatus as TransactionStatus,
        UnsupportedOperationException as UnsupportedOperationException, XAException as XAException,
        Xid as Xid,
        ArgumentResolver as ArgumentResolver, Marshaller as Marshaller,
        MarshallingMessageConverter as MarshallingMessageConverter,
        MsgspecMarshaller as MsgspecMarshaller,
        JmsListenerEndpointRegistrar as JmsListenerEndpointRegistrar,
        MessageListenerAdapter as MessageListenerAdapter,
        jms_listener_configurer as jms_listener_configurer,
        HeuristicCompletionException as HeuristicCompletionException,
        ResourceTransactionStatus as ResourceTransactionStatus,
        SynchedLocalTransactionFailedException as SynchedLocalTransactionFailedException,
        TransactionSynchronization as TransactionSynchronization,
        is_synchronization_active as is_synchronization_active,
        register_synchronization as register_synchronization,
        ScheduledJob as ScheduledJob, jms_scheduled as jms_scheduled,
        jms_listener as jms_listener, load_settings as load_settings, on_shutdown as on_shutdown,
        on_startup as on_startup, send_to as send_to,
    )
    from pyjms.client.factory import ConnectionFactory as ConnectionFactory
    from pyjms.client.xa import XAConnectionFactory as XAConnectionFactory
    from pyjms.connection.caching import CachingConnectionFactory as CachingConnectionFactory
    from pyjms.connection.credentials import (
        UserCredentialsConnectionFactoryAdapter as UserCredentialsConnectionFactoryAdapter,
    )
    from pyjms.connection.delegating_factory import (
        DelegatingConnectionFactory as DelegatingConnectionFactory,
    )
    from pyjms.connection.managers import (
        ChainedTransactionManager as ChainedTransactionManager,
        ResourceTransactionManager as ResourceTransactionManager,
    )
    from pyjms.connection.pool.factory import (
        JmsPoolConnectionFactory as JmsPoolConnectionFactory,
        PooledConnectionFactory as PooledConnectionFactory,
    )
    from pyjms.connection.server_sessions import (
        SimpleServerSessionPool as SimpleServerSessionPool,
    )
    from pyjms.connection.single import SingleConnectionFactory as SingleConnectionFactory
    from pyjms.connection.transaction import JmsTransactionManager as JmsTransactionManager
    from pyjms.connection.transaction_aware import (
        TransactionAwareConnectionFactoryProxy as TransactionAwareConnectionFactoryProxy,
    )
    from pyjms.core.jms_client import (
        JmsClient as JmsClient, JmsClientOperations as JmsClientOperations,
    )
    from pyjms.core.messaging_template import JmsMessagingTemplate as JmsMessagingTemplate
    from pyjms.core.redrive import redrive as redrive
    from pyjms.core.scheduling.scheduler import JmsScheduler as JmsScheduler
    from pyjms.core.template import JmsTemplate as JmsTemplate
    from pyjms.jms.api import (
        Connection as Connection, ConnectionConsumer as ConnectionConsumer,
        JMSConsumer as JMSConsumer, JMSContext as JMSContext,
        JMSProducer as JMSProducer, MessageConsumer as MessageConsumer,
        MessageProducer as MessageProducer, QueueBrowser as QueueBrowser,
        ServerSession as ServerSession,
        ServerSessionPool as ServerSessionPool, Session as Session,
    )
    from pyjms.jms.domain import (
        QueueConnection as QueueConnection, QueueConnectionFactory as
        QueueConnectionFactory, QueueReceiver as QueueReceiver, QueueRequestor as
        QueueRequestor, QueueSender as QueueSender, QueueSession as QueueSession,
        TopicConnection as TopicConnection, TopicConnectionFactory as
        TopicConnectionFactory, TopicPublisher as TopicPublisher, TopicRequestor as
        TopicRequestor, TopicSession as TopicSession, TopicSubscriber as TopicSubscriber,
    )
    from pyjms.jms.transaction.xa import (
        XAConnection as XAConnection, XAResource as XAResource, XASession as XASession,
    )
    from pyjms.listener.container.default import (
        DefaultMessageListenerContainer as DefaultMessageListenerContainer,
    )
    from pyjms.listener.container.simple import (
        SimpleMessageListenerContainer as SimpleMessageListenerContainer,
    )
# isort: on
# fmt: on

_COROUTINES = {
    "pyjms.client.factory": "ConnectionFactory",
    "pyjms.client.xa": "XAConnectionFactory",
    "pyjms.connection.caching": "CachingConnectionFactory",
    "pyjms.connection.credentials": "UserCredentialsConnectionFactoryAdapter",
    "pyjms.connection.delegating_factory": "DelegatingConnectionFactory",
    "pyjms.connection.managers": "ChainedTransactionManager ResourceTransactionManager",
    "pyjms.connection.pool.factory": "JmsPoolConnectionFactory PooledConnectionFactory",
    "pyjms.connection.server_sessions": "SimpleServerSessionPool",
    "pyjms.connection.single": "SingleConnectionFactory",
    "pyjms.connection.transaction": "JmsTransactionManager",
    "pyjms.connection.transaction_aware": "TransactionAwareConnectionFactoryProxy",
    "pyjms.core.jms_client": "JmsClient JmsClientOperations",
    "pyjms.core.messaging_template": "JmsMessagingTemplate",
    "pyjms.core.redrive": "redrive",
    "pyjms.core.scheduling.scheduler": "JmsScheduler",
    "pyjms.core.template": "JmsTemplate",
    "pyjms.jms.transaction.xa": "XAConnection XAResource XASession",
    "pyjms.jms.api": """
        Connection ConnectionConsumer JMSConsumer JMSContext JMSProducer MessageConsumer
        MessageProducer QueueBrowser ServerSession ServerSessionPool Session
    """,
    "pyjms.jms.domain": """
        QueueConnection QueueConnectionFactory QueueReceiver QueueRequestor QueueSender QueueSession
        TopicConnection TopicConnectionFactory TopicPublisher TopicRequestor TopicSession
        TopicSubscriber
    """,
    "pyjms.listener.container.default": "DefaultMessageListenerContainer",
    "pyjms.listener.container.simple": "SimpleMessageListenerContainer",
}

_HOMES = homes_of(SHARED) | homes_of(_COROUTINES)

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table has them


__getattr__, __dir__ = names_of(globals(), _HOMES)
