"""The public names: which there are, that all can be imported, and what `import pyjms` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyjms
import pyjms.aio
from pyjms import _shared_names

NAMES = """
    AcknowledgeMode ApplicationContainer AsyncCallback BlobMessage BlobTransferPolicy
    BytesMessage CacheLevel CachingConnectionFactory
    CompletionListener ConfigurationException Connection ConnectionClosedException ConnectionFactory
    ConnectionFailedException ContentTypeDelegatingMessageConverter
    DefaultJmsListenerContainerFactory DefaultMessageConverter DefaultMessageListenerContainer
    DeliveryMode Destination DestinationDoesNotExistException DestinationResolutionException
    DestinationResolver DynamicDestinationResolver ExponentialBackOff FixedBackOff
    HandlerInterceptor HandlerInvocation Header Headers IllegalStateException
    InvalidClientIDException InvalidDestinationException InvalidSelectorException JMSException
    JMSConsumer JMSContext JMSProducer JMSSecurityException JmsApplication JmsHeaders JmsListenerEndpoint
    JmsListenerEndpointRegistry JmsResponse JmsTemplate JmsTransactionManager
    JsonMessageConverter ListenerExecutionFailedException LocalProtocolError
    LocalTransactionEventListener MapMessage Message
    MessageConsumer MessageConversionException MessageConverter MessageEOFException
    MessageFormatException MessageNotReadableException MessageNotWriteableException
    MessageProducer MessageTransformer MessageType MethodJmsListenerEndpoint ObjectMessage Payload PrefetchPolicy
    Proceed Propagation ProtocolViolation SendInterceptor SendInvocation PyjmsSettings QosSettings Queue QueueBrowser
    PoisonMessageException RedeliveryPolicy RemoteProtocolError ReplyFailureException
    RequestTimeoutException UnreadableMessageException
    ResourceAllocationException Session SimpleAsyncTaskExecutor SimpleJmsHeaderMapper
    SimpleJmsListenerContainerFactory SimpleJmsListenerEndpoint SimpleMessageConverter
    SimpleMessageListenerContainer SingleConnectionFactory StreamMessage Synchronization TaskExecutor
    TemporaryQueue TemporaryTopic TextMessage Topic TransactionInProgressException
    TransactionRolledBackException TransactionStatus UnsupportedOperationException
    UserCredentialsConnectionFactoryAdapter XAConnection XAConnectionFactory XAException
    XAResource XASession Xid jms_listener load_settings on_shutdown
    on_startup send_to
    CountStatistic DelegatingConnectionFactory JmsPoolConnectionFactory MetricsObserver
    PooledConnectionFactory Statistics TimeStatistic TransactionAwareConnectionFactoryProxy
    add_metrics_observer remove_metrics_observer
    ConnectionConsumer ServerSession ServerSessionPool SimpleServerSessionPool
    GenericMessage JmsClient JmsClientOperations JmsMessagingTemplate MessagingMessageConverter
    QueueConnection QueueConnectionFactory QueueReceiver QueueRequestor QueueSender
    QueueSession TopicConnection TopicConnectionFactory TopicPublisher TopicRequestor
    TopicSession TopicSubscriber
    IdempotencyStore MemoryIdempotencyStore
    idempotent
    RetryPolicy Redriven redrive
    Reject Retry Skip
    Batch
    JmsScheduler ScheduledJob jms_scheduled
    Marshaller MarshallingMessageConverter MsgspecMarshaller
    ChainedTransactionManager HeuristicCompletionException ResourceTransactionManager
    ResourceTransactionStatus SynchedLocalTransactionFailedException TransactionSynchronization
    is_synchronization_active register_synchronization
    ArgumentResolver JmsListenerEndpointRegistrar MessageListenerAdapter jms_listener_configurer
""".split()  # noqa: SIM905 - to be read

BOTH = pytest.mark.parametrize("module", [pyjms, pyjms.aio], ids=["pyjms", "pyjms.aio"])


@BOTH
def test_these_names_are_public(module: ModuleType) -> None:
    assert module.__all__ == sorted(NAMES)
    assert set(NAMES) <= set(dir(module))


@BOTH
def test_all_names_can_be_imported(module: ModuleType) -> None:
    assert all(getattr(module, name).__name__ == name for name in NAMES)


@BOTH
def test_type_checkers_see_the_same_names_from_the_same_modules(module: ModuleType) -> None:
    seen = names_for_type_checkers(module)
    assert seen.pop("*") == _shared_names.__name__
    assert seen | names_for_type_checkers(_shared_names) == module._HOMES


def names_for_type_checkers(module: ModuleType) -> dict[str, str | None]:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in {alias.asname, "*"}
    }


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pyjms' has no attribute 'JmsTemplat'"):
        pyjms.JmsTemplat  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'pyjms.aio' has no attribute"):
        pyjms.aio.JmsTemplat  # noqa: B018


NOTHING = {"pydantic", "anyio", "dependency_injector", "yaml", "lark", "tenacity", "asyncio"}
CLIENT = {
    *NOTHING - {"anyio", "asyncio"},
    *("difflib", "email.message", "importlib.metadata", "pathlib", "platform", "sysconfig"),
    *("pyjms.client.blobs.transfer", "pyjms.connection.server_sessions"),
}


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import pyjms", NOTHING),
        ("import pyjms.aio, pyjms.testing.plugin", NOTHING),
        ("from pyjms import ConnectionFactory", CLIENT),
        ("from pyjms import JmsTemplate", CLIENT - {"platform", "pydantic"}),
    ],
)
def test_importing_imports_nothing_heavy(statement: str, heavy: set[str]) -> None:
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\n"
    if "plugin" in statement:
        code = f"import pytest\n{code}"
    code += f"print(sorted(({heavy} & set(sys.modules)) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
