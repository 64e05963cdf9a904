"""The public names that are the same in `pyjms` and in `pyjms.aio`, which take them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication as JmsApplication
    from pyjms.app.container import ApplicationContainer as ApplicationContainer
    from pyjms.app.lifecycle import on_shutdown as on_shutdown, on_startup as on_startup
    from pyjms.client.policies import (
        PrefetchPolicy as PrefetchPolicy, RedeliveryPolicy as RedeliveryPolicy,
    )
    from pyjms.connection.transaction import Propagation as Propagation
    from pyjms.enums import (
        AcknowledgeMode as AcknowledgeMode, CacheLevel as CacheLevel,
        DeliveryMode as DeliveryMode,
    )
    from pyjms.errors import (
        ConfigurationException as ConfigurationException,
        ConnectionClosedException as ConnectionClosedException,
        ConnectionFailedException as ConnectionFailedException,
        IllegalStateException as IllegalStateException,
        InvalidClientIDException as InvalidClientIDException,
        InvalidDestinationException as InvalidDestinationException,
        InvalidSelectorException as InvalidSelectorException, JMSException as JMSException,
        JMSSecurityException as JMSSecurityException,
        ListenerExecutionFailedException as ListenerExecutionFailedException,
        MessageConversionException as MessageConversionException,
        MessageFormatException as MessageFormatException, Reject as Reject,
        RequestTimeoutException as RequestTimeoutException,
        RemoteError as RemoteError, ResourceAllocationException as ResourceAllocationException,
        Retry as Retry, Skip as Skip,
        TransactionRolledBackException as TransactionRolledBackException,
        UnsupportedOperationException as UnsupportedOperationException,
    )
    from pyjms.jms.blob import BlobMessage as BlobMessage
    from pyjms.jms.destination import (
        Destination as Destination, Queue as Queue, TemporaryQueue as TemporaryQueue,
        TemporaryTopic as TemporaryTopic, Topic as Topic,
    )
    from pyjms.jms.message import (
        BytesMessage as BytesMessage, MapMessage as MapMessage, Message as Message,
        ObjectMessage as ObjectMessage, StreamMessage as StreamMessage,
        TextMessage as TextMessage,
    )
    from pyjms.listener.decorators import (
        Header as Header, Headers as Headers, Payload as Payload, idempotent as idempotent,
        jms_listener as jms_listener, jms_scheduled as jms_scheduled, send_to as send_to,
    )
    from pyjms.listener.batches import Batch as Batch
    from pyjms.listener.endpoint import (
        DefaultJmsListenerContainerFactory as DefaultJmsListenerContainerFactory,
        SimpleJmsListenerContainerFactory as SimpleJmsListenerContainerFactory,
    )
    from pyjms.listener.reply import JmsResponse as JmsResponse
    from pyjms.runtime.backoff import (
        ExponentialBackOff as ExponentialBackOff, FixedBackOff as FixedBackOff,
    )
    from pyjms.settings import PyjmsSettings as PyjmsSettings, load_settings as load_settings
    from pyjms.support.converter import (
        DefaultMessageConverter as DefaultMessageConverter, MessageConverter as MessageConverter,
        SimpleMessageConverter as SimpleMessageConverter,
    )
    from pyjms.support.json_converter import (
        JsonMessageConverter as JsonMessageConverter, MessageType as MessageType,
    )
    from pyjms.support.messaging import GenericMessage as GenericMessage
    from pyjms.support.qos import QosSettings as QosSettings
    from pyjms.support.retry import RetryPolicy as RetryPolicy
    from pyjms.template.interceptors import (
        HandlerInterceptor as HandlerInterceptor, HandlerInvocation as HandlerInvocation,
        Proceed as Proceed, SendInterceptor as SendInterceptor, SendInvocation as SendInvocation,
    )
