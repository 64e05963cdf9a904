"""The names that extensions import: which there are, and that documents use no others."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kit.source_tree import ROOT

SURFACES = {
    "pyjms.client.blobs": "BlobStrategy PolicyTransfer new_blob_message",
    "pyjms.testing.contract.connector": "ConnectorContract",
    "pyjms.testing.contract.converter": "ConverterSamples MessageConverterContract",
    "pyjms.testing.contract.store": """
        AdapterContract AdapterFactory QueueContract StoreContract StoreHarness TopicContract
        TransactionContract""",
    "pyjms.testing.contract.transport": """
        EndListener PeerTransport TransportContract TransportEnds""",
    "pyjms.transport": """
        BackgroundTask TcpOptions TcpTransport Transport TransportFilter TransportListener
        TransportURI create_transport end_tasks known_schemes spawn""",
    "pyjms.transport.discovery": """
        GROUP DiscoveryAgent DiscoveryListener check_agent create_agent known_agents
        register_agent""",
    "pyjms.transport.openwire": """
        InactivityMonitor InterruptionListener InterruptionListeners OpenWireOptions
        OpenWireTransport ReconnectingTransport RequestTransport ResponseCorrelator
        WireFormatNegotiator accepted_transport client_transport from_throwable
        read_client_options read_server_options ssl_transport tcp_transport""",
    "pyjms.wire.format": "SharingWireFormat WireFormat",
    "pyjms_broker.api": """
        COMPLETED BlockedSend Broker BrokerDestination BrokerFilter BrokerPlugin ClientConnection
        Completion ConnectionContext ConsumerExchange DeadLetterStrategy DestinationFilter
        DestinationStatistics MemoryUsage MessageQuery MessageReference PendingWork Position
        ProducerExchange RegionDestination SecurityContext StoredMessage Subscription
        SubscriptionKey SubscriptionRecovery SubscriptionRecoveryPolicy Synchronization Transaction
        TransactionState all_of wait_for""",
    "pyjms_broker.connector": """
        BrokerHost ConnectionRegistry ServedConnection TcpConnector TransportConnector""",
    "pyjms_broker.management": """
        ManagedPlugin Management ObjectName StatisticsBrokerPlugin View""",
    "pyjms_broker.settings": """
        BrokerLoggingSettings BrokerSettings ConnectorSettings PluginSettings PolicySettings RecoveryPolicySettings
        StoreSettings SystemUsageSettings broker_schema load_broker_settings""",
    "pyjms_broker.store.api": """
        MessageStore OperationContext PersistenceAdapter Position Positions RecoveredTransaction
        StorePartition StoreState StoredMessage StoredSubscription SubscriptionKey
        TopicMessageStore TransactionStore""",
    "pyjms_broker.web": "Access WebConfiguration WebContext WebUser",
}
"""The packages and modules that docs/extending.md and its contract suites are about."""

DOCUMENTS = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
)
IMPORT = re.compile(
    r"^ *from ((?:pyjms|pyjms_broker)\b[\w.]*) import (\([^)]*\)|[^\n#]+)", re.MULTILINE
)


@pytest.mark.parametrize("module", SURFACES)
def test_these_names_are_for_extensions(module: str) -> None:
    imported = importlib.import_module(module)
    assert sorted(imported.__all__) == sorted(SURFACES[module].split())
    assert [name for name in imported.__all__ if not hasattr(imported, name)] == []


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    for module, names in IMPORT.findall(path.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(f"from {module} import {names}")):
            if isinstance(node, ast.alias):
                yield module, node.name


def test_documents_and_examples_import_public_names_only() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module, name)
        for path in DOCUMENTS
        for module, name in imports_of(path)
    }
    assert len(found) > 100
    assert [
        each for each in sorted(found) if any(part.startswith("_") for part in each[1].split("."))
    ] == []
    exported = {module: importlib.import_module(module).__all__ for _, module, _ in found}
    assert [
        (path, module, name)
        for path, module, name in sorted(found)
        if name not in exported[module] and find_spec(f"{module}.{name}") is None
    ] == []
