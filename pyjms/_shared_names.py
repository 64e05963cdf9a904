"""The public names that are the same in `pyjms` and in `pyjms.aio`."""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:  # for type checkers; at run time the table is used; a test compares them
    from pyjms.listener.annotation import jms_listener_configurer as jms_listener_configurer
    from pyjms.listener.annotation import jms_listener as jms_listener
    from pyjms.listener.annotation import jms_scheduled as jms_scheduled
    from pyjms.listener.annotation import Header as Header, Headers as Headers, Payload as Payload
    from pyjms.listener.annotation import send_to as send_to
    from pyjms.app.application import JmsApplication as JmsApplication
    from pyjms.client.options import (
        BlobTransferPolicy as BlobTransferPolicy, PrefetchPolicy as PrefetchPolicy,
        RedeliveryPolicy as RedeliveryPolicy,
    )
    from pyjms.connection.managers import ResourceTransactionStatus as ResourceTransactionStatus
    from pyjms.connection.transaction import (
        Propagation as Propagation, TransactionStatus as TransactionStatus,
    )
    from pyjms.app.container import ApplicationContainer as ApplicationContainer
    from pyjms.template.interceptors import (
        Proceed as Proceed, SendInterceptor as SendInterceptor,
        SendInvocation as SendInvocation,
    )
    from pyjms.template.scheduler import ScheduledJob as ScheduledJob
    from pyjms.template.synchronization import (
        is_synchronization_active as is_synchronization_active,
        register_synchronization as register_synchronization,
        TransactionSynchronization as TransactionSynchronization,
    )
    from pyjms.enums import (
        AcknowledgeMode as AcknowledgeMode, CacheLevel as CacheLevel,
        DeliveryMode as DeliveryMode,
    )
    from pyjms.errors import (
        ConfigurationException as ConfigurationException,
        ConnectionClosedException as ConnectionClosedException,
        ConnectionFailedException as ConnectionFailedException,
        DestinationDoesNotExistException as DestinationDoesNotExistException,
        DestinationResolutionException as DestinationResolutionException,
        HeuristicCompletionException as HeuristicCompletionException,
        IllegalStateException as IllegalStateException,
        InvalidClientIDException as InvalidClientIDException,
        InvalidDestinationException as InvalidDestinationException,
        InvalidSelectorException as InvalidSelectorException, JMSException as JMSException,
        JMSSecurityException as JMSSecurityException,
        ListenerExecutionFailedException as ListenerExecutionFailedException,
        LocalProtocolError as LocalProtocolError,
        MessageConversionException as MessageConversionException,
        MessageEOFException as MessageEOFException,
        MessageFormatException as MessageFormatException,
        MessageNotReadableException as MessageNotReadableException,
        MessageNotWriteableException as MessageNotWriteableException,
        PoisonMessageException as PoisonMessageException,
        ProtocolViolation as ProtocolViolation, Reject as Reject,
        RemoteProtocolError as RemoteProtocolError,
        ReplyFailureException as ReplyFailureException,
        RequestTimeoutException as RequestTimeoutException,
        ResourceAllocationException as ResourceAllocationException, Retry as Retry,
        Skip as Skip,
        SynchedLocalTransactionFailedException as SynchedLocalTransactionFailedException,
        TransactionInProgressException as TransactionInProgressException,
        TransactionRolledBackException as TransactionRolledBackException,
        UnreadableMessageException as UnreadableMessageException,
        UnsupportedOperationException as UnsupportedOperationException,
        XAException as XAException,
    )
    from pyjms.jms.api import (
        AsyncCallback as AsyncCallback, CompletionListener as CompletionListener,
        MessageTransformer as MessageTransformer,
    )
    from pyjms.jms.blob import BlobMessage as BlobMessage
    from pyjms.jms.bodies import (
        BytesMessage as BytesMessage, MapMessage as MapMessage, ObjectMessage as ObjectMessage,
        StreamMessage as StreamMessage, TextMessage as TextMessage,
    )
    from pyjms.jms.destination import (
        Destination as Destination, Queue as Queue, TemporaryQueue as TemporaryQueue,
        TemporaryTopic as TemporaryTopic, Topic as Topic,
    )
    from pyjms.jms.message import Message as Message
    from pyjms.jms.synchronization import (
        LocalTransactionEventListener as LocalTransactionEventListener,
        Synchronization as Synchronization,
    )
    from pyjms.jms.xa import Xid as Xid
    from pyjms.app.lifecycle import on_shutdown as on_shutdown, on_startup as on_startup
    from pyjms.runtime.backoff import (
        ExponentialBackOff as ExponentialBackOff, FixedBackOff as FixedBackOff,
    )
    from pyjms.listener.task_executor import (
        SimpleAsyncTaskExecutor as SimpleAsyncTaskExecutor, TaskExecutor as TaskExecutor,
    )
    from pyjms.listener.endpoint import (
        JmsListenerEndpoint as JmsListenerEndpoint,
        MethodJmsListenerEndpoint as MethodJmsListenerEndpoint,
        SimpleJmsListenerEndpoint as SimpleJmsListenerEndpoint,
    )
    from pyjms.listener.endpoint import (
        DefaultJmsListenerContainerFactory as DefaultJmsListenerContainerFactory,
        SimpleJmsListenerContainerFactory as SimpleJmsListenerContainerFactory,
    )
    from pyjms.listener.message_listener import MessageListenerAdapter as MessageListenerAdapter
    from pyjms.listener.registry import (
        ArgumentResolver as ArgumentResolver,
        JmsListenerEndpointRegistrar as JmsListenerEndpointRegistrar,
    )
    from pyjms.listener.registry import JmsListenerEndpointRegistry as JmsListenerEndpointRegistry
    from pyjms.template.interceptors import (
        HandlerInterceptor as HandlerInterceptor, HandlerInvocation as HandlerInvocation,
    )
    from pyjms.listener.reply import JmsResponse as JmsResponse
    from pyjms.listener.batches import Batch as Batch
    from pyjms.support.retry import RetryPolicy as RetryPolicy
    from pyjms.template.redrive import Redriven as Redriven
    from pyjms.listener.annotation import idempotent as idempotent
    from pyjms.listener.idempotency import (
        IdempotencyStore as IdempotencyStore, MemoryIdempotencyStore as MemoryIdempotencyStore,
    )
    from pyjms.management import (
        add_metrics_observer as add_metrics_observer, CountStatistic as CountStatistic,
        MetricsObserver as MetricsObserver, remove_metrics_observer as remove_metrics_observer,
        Statistics as Statistics, TimeStatistic as TimeStatistic,
    )
    from pyjms.settings import load_settings as load_settings, PyjmsSettings as PyjmsSettings
    from pyjms.support.converter import (
        ContentTypeDelegatingMessageConverter as ContentTypeDelegatingMessageConverter,
        DefaultMessageConverter as DefaultMessageConverter,
        JsonMessageConverter as JsonMessageConverter, Marshaller as Marshaller,
        MarshallingMessageConverter as MarshallingMessageConverter,
        MessageConverter as MessageConverter, MessageType as MessageType,
        MsgspecMarshaller as MsgspecMarshaller,
        SimpleMessageConverter as SimpleMessageConverter,
    )
    from pyjms.support.destination import (
        DestinationResolver as DestinationResolver,
        DynamicDestinationResolver as DynamicDestinationResolver,
    )
    from pyjms.support.headers import (
        JmsHeaders as JmsHeaders, SimpleJmsHeaderMapper as SimpleJmsHeaderMapper,
    )
    from pyjms.support.messaging import (
        GenericMessage as GenericMessage,
        MessagingMessageConverter as MessagingMessageConverter,
    )
    from pyjms.support.qos import QosSettings as QosSettings
# isort: on
# fmt: on

SHARED = {
    "pyjms.listener.annotation": """
        jms_listener_configurer jms_listener jms_scheduled Header Headers Payload send_to
        idempotent
    """,
    "pyjms.app.application": "JmsApplication",
    "pyjms.client.options": "BlobTransferPolicy PrefetchPolicy RedeliveryPolicy",
    "pyjms.connection.managers": "ResourceTransactionStatus",
    "pyjms.connection.transaction": "Propagation TransactionStatus",
    "pyjms.management": """
        CountStatistic MetricsObserver Statistics TimeStatistic add_metrics_observer
        remove_metrics_observer
    """,
    "pyjms.app.container": "ApplicationContainer",
    "pyjms.template.interceptors": """
        Proceed SendInterceptor SendInvocation HandlerInterceptor HandlerInvocation
    """,
    "pyjms.template.scheduler": "ScheduledJob",
    "pyjms.template.synchronization": """
        TransactionSynchronization is_synchronization_active register_synchronization
    """,
    "pyjms.enums": "AcknowledgeMode CacheLevel DeliveryMode",
    "pyjms.errors": """
        ConfigurationException ConnectionClosedException ConnectionFailedException
        DestinationDoesNotExistException DestinationResolutionException
        HeuristicCompletionException IllegalStateException InvalidClientIDException
        InvalidDestinationException InvalidSelectorException JMSException JMSSecurityException
        ListenerExecutionFailedException LocalProtocolError MessageConversionException
        MessageEOFException MessageFormatException MessageNotReadableException
        MessageNotWriteableException ProtocolViolation Reject Retry Skip PoisonMessageException
        RemoteProtocolError ReplyFailureException RequestTimeoutException
        ResourceAllocationException SynchedLocalTransactionFailedException
        TransactionInProgressException TransactionRolledBackException UnreadableMessageException
        UnsupportedOperationException XAException
    """,
    "pyjms.jms.api": "AsyncCallback CompletionListener MessageTransformer",
    "pyjms.jms.blob": "BlobMessage",
    "pyjms.jms.bodies": "BytesMessage MapMessage ObjectMessage StreamMessage TextMessage",
    "pyjms.jms.destination": "Destination Queue TemporaryQueue TemporaryTopic Topic",
    "pyjms.jms.message": "Message",
    "pyjms.jms.synchronization": "LocalTransactionEventListener Synchronization",
    "pyjms.jms.xa": "Xid",
    "pyjms.app.lifecycle": "on_shutdown on_startup",
    "pyjms.runtime.backoff": "ExponentialBackOff FixedBackOff",
    "pyjms.listener.task_executor": "SimpleAsyncTaskExecutor TaskExecutor",
    "pyjms.listener.endpoint": """
        JmsListenerEndpoint MethodJmsListenerEndpoint SimpleJmsListenerEndpoint
        DefaultJmsListenerContainerFactory SimpleJmsListenerContainerFactory
    """,
    "pyjms.listener.message_listener": "MessageListenerAdapter",
    "pyjms.listener.registry": """
        ArgumentResolver JmsListenerEndpointRegistrar JmsListenerEndpointRegistry
    """,
    "pyjms.listener.reply": "JmsResponse",
    "pyjms.listener.batches": "Batch",
    "pyjms.support.retry": "RetryPolicy",
    "pyjms.template.redrive": "Redriven",
    "pyjms.listener.idempotency": "IdempotencyStore MemoryIdempotencyStore",
    "pyjms.settings": "PyjmsSettings load_settings",
    "pyjms.support.converter": """
        ContentTypeDelegatingMessageConverter DefaultMessageConverter JsonMessageConverter
        Marshaller MarshallingMessageConverter MessageConverter MessageType MsgspecMarshaller
        SimpleMessageConverter
    """,
    "pyjms.support.destination": "DestinationResolver DynamicDestinationResolver",
    "pyjms.support.headers": "JmsHeaders SimpleJmsHeaderMapper",
    "pyjms.support.messaging": "GenericMessage MessagingMessageConverter",
    "pyjms.support.qos": "QosSettings",
}
"""Names by module; a name is imported on first use."""
