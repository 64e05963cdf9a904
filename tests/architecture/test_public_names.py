"""The public names: which there are, that all can be imported, and what `import pyjms` costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyjms
import pyjms.aio
from pyjms import _shared_names

NAMES = """
    jms_listener send_to jms_scheduled idempotent Header Headers Payload Batch on_startup
    on_shutdown Reject Retry Skip RetryPolicy JmsResponse JmsApplication ApplicationContainer
    PyjmsSettings load_settings JmsTemplate JmsClient JmsMessagingTemplate JmsScheduler redrive
    QosSettings GenericMessage ConnectionFactory CachingConnectionFactory
    SingleConnectionFactory PooledConnectionFactory JmsPoolConnectionFactory
    UserCredentialsConnectionFactoryAdapter JmsTransactionManager ResourceTransactionManager
    ChainedTransactionManager Connection Session MessageProducer MessageConsumer QueueBrowser
    JMSContext JMSProducer JMSConsumer Message TextMessage BytesMessage MapMessage
    StreamMessage ObjectMessage BlobMessage Destination Queue Topic TemporaryQueue
    TemporaryTopic AcknowledgeMode DeliveryMode CacheLevel Propagation MessageType
    MessageConverter DefaultMessageConverter SimpleMessageConverter JsonMessageConverter
    HandlerInterceptor HandlerInvocation SendInterceptor SendInvocation Proceed
    RedeliveryPolicy PrefetchPolicy ExponentialBackOff FixedBackOff
    DefaultMessageListenerContainer SimpleMessageListenerContainer
    DefaultJmsListenerContainerFactory SimpleJmsListenerContainerFactory JMSException
    ConfigurationException ConnectionFailedException ConnectionClosedException
    IllegalStateException InvalidDestinationException InvalidSelectorException
    InvalidClientIDException JMSSecurityException MessageConversionException
    MessageFormatException ResourceAllocationException RequestTimeoutException RemoteError
    TransactionRolledBackException ListenerExecutionFailedException
    UnsupportedOperationException
""".split()  # noqa: SIM905 - to be read
HOMES = {
    "pyjms.client": "BlobTransferPolicy XAConnectionFactory",
    "pyjms.connection": """
        DelegatingConnectionFactory SimpleServerSessionPool
        TransactionAwareConnectionFactoryProxy
    """,
    "pyjms.errors": """
        DestinationDoesNotExistException DestinationResolutionException
        HeuristicCompletionException LocalProtocolError MessageEOFException
        MessageNotReadableException MessageNotWriteableException PoisonMessageException
        ProtocolViolation RemoteProtocolError ReplyFailureException
        SynchedLocalTransactionFailedException TransactionInProgressException
        UnreadableMessageException XAException
    """,
    "pyjms.jms": """
        AsyncCallback CompletionListener ConnectionConsumer MessageTransformer QueueConnection
        QueueConnectionFactory QueueReceiver QueueRequestor QueueSender QueueSession
        ServerSession ServerSessionPool TopicConnection TopicConnectionFactory TopicPublisher
        TopicRequestor TopicSession TopicSubscriber XAConnection XAResource XASession
    """,
    "pyjms.listener": """
        ArgumentResolver IdempotencyStore JmsListenerEndpoint JmsListenerEndpointRegistrar
        JmsListenerEndpointRegistry MemoryIdempotencyStore MessageListenerAdapter
        MethodJmsListenerEndpoint SimpleAsyncTaskExecutor SimpleJmsListenerEndpoint
        TaskExecutor jms_listener_configurer
    """,
    "pyjms.management": """
        CountStatistic MetricsObserver Statistics TimeStatistic add_metrics_observer
        remove_metrics_observer
    """,
    "pyjms.support": """
        ContentTypeDelegatingMessageConverter DestinationResolver DynamicDestinationResolver
        JmsHeaders Marshaller MarshallingMessageConverter MessagingMessageConverter
        MsgspecMarshaller SimpleJmsHeaderMapper
    """,
    "pyjms.sync": """
        ConnectionConsumer DelegatingConnectionFactory JmsClientOperations QueueConnection
        QueueConnectionFactory QueueReceiver QueueRequestor QueueSender QueueSession
        ServerSession ServerSessionPool SimpleServerSessionPool TopicConnection
        TopicConnectionFactory TopicPublisher TopicRequestor TopicSession TopicSubscriber
        TransactionAwareConnectionFactoryProxy XAConnection XAConnectionFactory XAResource
        XASession
    """,
    "pyjms.template": "JmsClientOperations Redriven ScheduledJob",
    "pyjms.transactions": """
        LocalTransactionEventListener ResourceTransactionStatus Synchronization
        TransactionStatus TransactionSynchronization Xid is_synchronization_active
        register_synchronization
    """,
}
"""What fewer programs need, by the package or module that documents it."""

BOTH = pytest.mark.parametrize("module", [pyjms, pyjms.aio], ids=["pyjms", "pyjms.aio"])


@BOTH
def test_these_names_are_public(module: ModuleType) -> None:
    assert module.__all__ == sorted(NAMES)
    assert set(NAMES) <= set(dir(module))


@BOTH
def test_all_names_can_be_imported(module: ModuleType) -> None:
    assert all(getattr(module, name).__name__ == name for name in NAMES)


@pytest.mark.parametrize("home", HOMES)
def test_the_other_names_have_a_home(home: str) -> None:
    module = importlib.import_module(home)
    names = HOMES[home].split()
    assert set(names) <= set(module.__all__)
    assert set(names) <= set(dir(module))
    assert all(getattr(module, name).__name__ == name for name in names)
    assert not set(names) & set(NAMES)


@BOTH
def test_type_checkers_see_the_same_names(module: ModuleType) -> None:
    seen = names_for_type_checkers(module)
    assert seen.pop("*") == _shared_names.__name__
    homes = seen | names_for_type_checkers(_shared_names)
    assert sorted(homes) == module.__all__
    assert all(getattr(importlib.import_module(str(home)), name) is getattr(module, name)
               for name, home in homes.items())  # fmt: skip


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
    *("pyjms.client.blobs", "pyjms.connection.server_sessions"),
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


def test_names_are_found_where_pytest_rewrites_the_assertions_of_the_package(
    tmp_path: Path,
) -> None:
    """So it is where the wheel is installed: its plug-in makes pytest import the package."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('pyjms')\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pyjms\n"
        "from pyjms import jms_listener\n"
        "def test_it():\n"
        "    assert 'jms_listener' in pyjms.__all__ and jms_listener\n"
        "    assert not hasattr(pyjms.__spec__.loader, 'get_code')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:pyjms", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
