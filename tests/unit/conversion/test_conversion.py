"""Elements and attributes of ActiveMQ's XML, and their conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyjms.errors import ConfigurationException
from pyjms_broker.conversion import Conversion, convert_activemq_xml
from pyjms_broker.settings import load_broker_settings

_HEAD = '<beans xmlns="http://www.springframework.org/schema/beans">'
_BROKER = '<broker xmlns="http://activemq.apache.org/schema/core"'


@pytest.fixture
def convert(tmp_path: Path) -> Callable[..., Conversion]:
    def converted(
        inside: str, attributes: str = "", beside: str = "", **properties: str
    ) -> Conversion:
        file = tmp_path / "activemq.xml"
        text = f"{_HEAD}\n{_BROKER} {attributes}>\n{inside}\n</broker>\n{beside}\n</beans>"
        file.write_text(text, encoding="utf-8")
        given = {name.replace("_", "."): value for name, value in properties.items()}
        return convert_activemq_xml(file, given, environ={})

    return converted


def values(conversion: Conversion) -> dict[str, Any]:
    """Return the values of the YAML text, which the broker must accept, too."""
    conversion.settings()
    read: dict[str, Any] = yaml.safe_load(conversion.yaml())
    if not read["connectors"]:
        del read["connectors"]
    return read


def lost(conversion: Conversion) -> list[tuple[int | None, str]]:
    return [(each.origin.line, each.subject) for each in conversion.unsupported]


def test_broker_attributes_and_limits(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<systemUsage><systemUsage sendFailIfNoSpaceAfterTimeout="3000">
             <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
             <storeUsage><storeUsage limit="100 gb"/></storeUsage>
             <tempUsage><tempUsage percentLimit="50"/></tempUsage>
             <jobSchedulerUsage><jobSchedulerUsage limit="1 gb"/></jobSchedulerUsage>
           </systemUsage></systemUsage>
           <destinations><queue physicalName="a"/><topic physicalName="b.c"/></destinations>
           <ioExceptionHandler><defaultIOExceptionHandler ignoreAllErrors="true"/></ioExceptionHandler>
        """,
        'brokerName="b1" schedulerSupport="true" schedulePeriodForDestinationPurge="10500" '
        'populateJMSXUserID="true" useVirtualDestSubs="true" '
        'useAuthenticatedPrincipalForJMSXUserID="true" '
        'enableMessageExpirationOnActiveDurableSubs="true" '
        'offlineDurableSubscriberTimeout="86400000" offlineDurableSubscriberTaskSchedule="-1" '
        'maxSchedulerRepeatAllowed="5"',
    )
    assert lost(conversion) == []
    assert values(conversion) == {
        "broker_name": "b1",
        "scheduler_support": True,
        "schedule_period_for_destination_purge": "10500ms",
        "populate_jmsx_user_id": True,
        "use_virtual_dest_subs": True,
        "offline_durable_subscriber_timeout": "24h",
        "offline_durable_subscriber_task_schedule": 0,
        "use_authenticated_principal_for_jmsx_user_id": True,
        "enable_message_expiration_on_active_durable_subs": True,
        "max_scheduler_repeat_allowed": 5,
        "system_usage": {
            "send_fail_if_no_space_after_timeout": "3s",
            "memory_limit": "70%",
            "store_limit": "100 gb",
            "temp_limit": "50%",
            "job_scheduler_limit": "1 gb",
        },
        "destinations": ["a", "topic://b.c"],
        "io_exception_handler": {"ignore_all_errors": True},
    }


def test_attributes_without_a_counterpart_are_named_with_reason_and_hint(
    convert: Callable[..., Conversion],
) -> None:
    conversion = convert(
        "<jmsBridgeConnectors/>",
        'useJmx="true" storeOpenWireVersion="9" restartAlowed="true"',
    )
    assert lost(conversion) == [
        (2, "<broker storeOpenWireVersion>"),
        (2, "<broker restartAlowed>"),
        (3, "<jmsBridgeConnectors>"),
    ]
    texts = [str(each) for each in conversion.findings]
    assert texts[0].startswith(str(conversion.findings[0].origin))
    assert "there is no JMX" in texts[0] and ": note: " in texts[0]
    assert "there are no bridges to other JMS providers; write a listener" in texts[-1]


def test_network_connectors(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<networkConnectors>
          <networkConnector name="west" uri="static:(tcp://x:1,tcp://y:2)" networkTTL="3"
              duplex="true" conduitSubscriptions="false" decreaseNetworkConsumerPriority="true"
              userName="u" password="p" useCompression="false" dispatchAsync="true">
            <dynamicallyIncludedDestinations>
              <queue physicalName="in.>"/><topic physicalName="news"/>
            </dynamicallyIncludedDestinations>
            <excludedDestinations><queue physicalName="in.secret"/></excludedDestinations>
          </networkConnector>
          <networkConnector uri="multicast://default"/>
          <networkConnector name="s" uri="static:(tcp://z:1)" syncDurableSubs="true"
              useVirtualDestSubs="true" clientIdToken="+"/>
          <networkConnector uri="zeroconf:x"/>
        </networkConnectors>"""
    )
    assert values(conversion)["network_connectors"] == [
        {
            "uri": "static:(tcp://x:1,tcp://y:2)",
            "name": "west",
            "network_ttl": 3,
            "duplex": True,
            "conduit_subscriptions": False,
            "decrease_network_consumer_priority": True,
            "user_name": "u",
            "password": "p",
            "use_compression": False,
            "dynamically_included_destinations": ["in.>", "topic://news"],
            "excluded_destinations": ["in.secret"],
        },
        {"uri": "multicast://default"},
        {
            "uri": "static:(tcp://z:1)",
            "name": "s",
            "sync_durable_subs": True,
            "use_virtual_dest_subs": True,
            "client_id_token": "+",
        },
    ]
    assert lost(conversion) == [
        (15, "<networkConnector uri>"),
    ]


def test_the_default_of_an_unsupported_attribute_is_a_note(
    convert: Callable[..., Conversion],
) -> None:
    assert lost(convert("", 'keepDurableSubsActive="true" passiveSlave="false"')) == []


@pytest.mark.fact(
    "activemq-broker D14",
    "activemq-broker 2.1/optimizedDispatch",
    "activemq-broker 2.1/reduceMemoryFootprint",
    "activemq-broker 2.1/doOptimzeMessageStorage / optimizeMessageStoreInFlightLimit",
    "activemq-broker 2.1/sendDuplicateFromStoreToDLQ",
    "activemq-broker 2.1/useTopicSubscriptionInflightStats",
)
def test_hints_to_activemqs_implementation_are_notes(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<destinationPolicy><policyMap><policyEntries>
             <policyEntry queue=">" optimizedDispatch="true" reduceMemoryFootprint="true"
               doOptimzeMessageStorage="false" optimizeMessageStoreInFlightLimit="20"
               useTopicSubscriptionInflightStats="false" sendDuplicateFromStoreToDLQ="true"/>
           </policyEntries></policyMap></destinationPolicy>""",
        'cacheTempDestinations="true" timeBeforePurgeTempDestinations="1000"',
    )
    assert [name for _, name in lost(conversion)] == ["<policyEntry sendDuplicateFromStoreToDLQ>"]
    assert {each.subject for each in conversion.findings if not each.is_unsupported} == {
        "<broker>",  # it has no connectors
        "<broker cacheTempDestinations>",
        "<broker timeBeforePurgeTempDestinations>",
        "<policyEntry doOptimzeMessageStorage>",
        "<policyEntry optimizeMessageStoreInFlightLimit>",
        "<policyEntry optimizedDispatch>",
        "<policyEntry reduceMemoryFootprint>",
        "<policyEntry useTopicSubscriptionInflightStats>",
    }
    (reason,) = (
        each.reason
        for each in conversion.findings
        if each.subject == "<broker cacheTempDestinations>"
    )
    assert reason.endswith("temporary destinations are cheap to create")


def test_policies_with_all_strategies(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<destinationPolicy><policyMap>
          <policyEntries>
            <policyEntry queue="orders.>" memoryLimit="10mb" expireMessagesPeriod="1000"
                persistJMSRedelivered="true" inactiveTimoutBeforeGC="30000" optimizedDispatch="true">
              <deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."
                processExpired="false" expiration="60000"/></deadLetterStrategy>
              <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
              <slowConsumerStrategy><abortSlowAckConsumerStrategy maxTimeSinceLastAck="5000"
                abortConnection="true"/></slowConsumerStrategy>
            </policyEntry>
            <policyEntry topic=">" producerFlowControl="false">
              <dispatchPolicy><roundRobinDispatchPolicy/></dispatchPolicy>
              <pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy>
              <pendingDurableSubscriberPolicy><fileDurableSubscriberCursor/></pendingDurableSubscriberPolicy>
              <pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy>
              <messageEvictionStrategy><uniquePropertyMessageEvictionStrategy propertyName="STOCK"/></messageEvictionStrategy>
              <subscriptionRecoveryPolicy><timedSubscriptionRecoveryPolicy recoverDuration="360000"/></subscriptionRecoveryPolicy>
              <deadLetterStrategy><sharedDeadLetterStrategy><deadLetterQueue>
                <queue physicalName="dead"/></deadLetterQueue></sharedDeadLetterStrategy></deadLetterStrategy>
            </policyEntry>
            <policyEntry tempQueue="true" queuePrefetch="1"/>
          </policyEntries>
          <defaultEntry><policyEntry advisoryWhenFull="true"/></defaultEntry>
        </policyMap></destinationPolicy>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["policies"] == [
        {
            "destination": "orders.>",
            "memory_limit": "10mb",
            "expire_messages_period": "1s",
            "persist_jms_redelivered": True,
            "inactive_timeout_before_gc": "30s",
            "dead_letter_strategy": {
                "type": "individual",
                "queue_prefix": "DLQ.",
                "process_expired": False,
                "expiration": "1m",
            },
            "pending_queue_policy": "vmQueueCursor",
            "slow_consumer_strategy": {
                "type": "abort_slow_ack",
                "max_time_since_last_ack": "5s",
                "abort_connection": True,
            },
        },
        {
            "destination": "topic://>",
            "producer_flow_control": False,
            "dispatch_policy": "round_robin",
            "pending_subscriber_policy": "vmCursor",
            "pending_durable_subscriber_policy": "storeDurableSubscriberCursor",
            "pending_message_limit_strategy": {"type": "constant", "limit": 1000},
            "message_eviction_strategy": {"type": "unique_property", "property_name": "STOCK"},
            "subscription_recovery_policy": {"type": "timed", "recover_duration": "6m"},
            "dead_letter_strategy": {"type": "shared", "dead_letter_queue": "dead"},
        },
        {"temp_queue": True, "queue_prefetch": 1},
        {"advisory_when_full": True},
    ]


def test_a_wrong_value_is_left_out_and_named(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        "<destinationPolicy><policyMap><policyEntries>\n"
        '<policyEntry queue="a" memoryLimit="much" maxPageSize="5"/>\n'
        "</policyEntries></policyMap></destinationPolicy>"
    )
    assert lost(conversion) == [(4, "<policyEntry memoryLimit>")]
    assert "'much' is not a size" in str(conversion.unsupported[0])
    assert values(conversion)["policies"] == [{"destination": "a", "max_page_size": 5}]


def test_kahadb_and_its_lock(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<persistenceAdapter><kahaDB directory="d" journalMaxFileLength="1g"
             enableJournalDiskSyncs="false" preallocationStrategy="ZEROS" checkpointInterval="5000"
             purgeRecoveredXATransactionStrategy="COMMIT" indexCacheSize="10"
             compactAcksAfterNoGC="3" ignoreMissingJournalfiles="true" lockKeepAlivePeriod="10000">
             <locker><shared-file-locker lockAcquireSleepInterval="500"/></locker>
           </kahaDB></persistenceAdapter>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["persistence"] == {
        "type": "kahadb",
        "directory": "d",
        "journal": {
            "max_file_length": "1g",
            "disk_sync_strategy": "never",
            "preallocation_strategy": "zeros",
        },
        "checkpoint_interval": "5s",
        "purge_recovered_xa_transaction_strategy": "commit",
        "compact_acks_after_no_gc": 3,
        "ignore_missing_journalfiles": True,
        "lock_keep_alive_period": "10s",
        "lock_acquire_sleep_interval": "500ms",
    }


def test_multi_kahadb(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<persistenceAdapter><mKahaDB directory="m" journalMaxFileLength="2mb">
             <filteredPersistenceAdapters>
               <filteredKahaDB queue="a.>"><usage><storeUsage limit="1gb"/></usage>
                 <persistenceAdapter><kahaDB journalMaxFileLength="32mb"/></persistenceAdapter>
               </filteredKahaDB>
               <filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>
             </filteredPersistenceAdapters></mKahaDB></persistenceAdapter>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["persistence"] == {
        "type": "multi_kahadb",
        "directory": "m",
        "transaction_journal": {"max_file_length": "2mb"},
        "filtered_kahadb": [
            {"queue": "a.>", "store_limit": "1gb", "journal": {"max_file_length": "32mb"}},
            {"per_destination": True},
        ],
    }


_POSTGRESQL = """<bean id="pg" class="org.apache.commons.dbcp2.BasicDataSource">
  <property name="driverClassName" value="org.postgresql.Driver"/>
  <property name="url" value="jdbc:postgresql://db:5433/activemq"/>
  <property name="username" value="u"/><property name="password" value="p@ss"/>
  <property name="maxTotal" value="200"/></bean>"""


def test_jdbc(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<persistenceAdapter><jdbcPersistenceAdapter dataSource="#pg" useDatabaseLock="true"
             cleanupPeriod="0">
             <locker><lease-database-locker lockAcquireSleepInterval="2000"/></locker>
             <statements><statements tablePrefix="X_"/></statements>
           </jdbcPersistenceAdapter></persistenceAdapter>""",
        beside=_POSTGRESQL,
    )
    assert lost(conversion) == []
    assert values(conversion)["persistence"] == {
        "type": "jdbc",
        "data_source": "postgresql+psycopg://u:p%40ss@db:5433/activemq",
        "use_lock": True,
        "cleanup_period": 0,
        "lock_acquire_sleep_interval": "2s",
        "locker": "lease",
        "statements": {"table_prefix": "X_"},
    }


@pytest.mark.parametrize("store", ["levelDB", "replicatedLevelDB", "amqPersistenceAdapter"])
def test_stores_that_activemq_removed_are_named(
    convert: Callable[..., Conversion], store: str
) -> None:
    conversion = convert(f"<persistenceAdapter><{store} directory='d'/></persistenceAdapter>")
    assert lost(conversion) == [(3, f"<{store}>")]
    assert "persistence" not in values(conversion)


def test_a_database_without_a_store_here_is_named(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#x"/></persistenceAdapter>',
        beside="<bean id='x' class='oracle.jdbc.pool.OracleDataSource'/>",
    )
    assert lost(conversion) == [(5, "<bean>")]


STOCK_OPTIONS = "maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600"


@pytest.mark.fact("amqp-connector A4", "mqtt-connector M1")
def test_the_connectors_of_the_stock_file_are_converted(convert: Callable[..., Conversion]) -> None:
    schemes = {"openwire": "tcp", "amqp": "amqp", "stomp": "stomp", "mqtt": "mqtt", "ws": "ws"}
    lines = "".join(
        f'<transportConnector name="{name}" uri="{scheme}://127.0.0.1:0?{STOCK_OPTIONS}"/>'
        for name, scheme in schemes.items()
    )
    conversion = convert(f"<transportConnectors>{lines}</transportConnectors>")
    assert lost(conversion) == []
    assert [each["name"] for each in values(conversion)["connectors"]] == [*schemes]


@pytest.mark.fact("amqp-connector A4", "amqp-connector A8")
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (
            "amqp://127.0.0.1:0?maximumConnections=9&amp;wireFormat.maxFrameSize=1048576",
            "amqp://127.0.0.1:0?maximumConnections=9&wireFormat.maxFrameSize=1048576&transport.transformer=jms",
        ),
        ("amqp+nio://127.0.0.1:0", "amqp+nio://127.0.0.1:0?transport.transformer=jms"),
        ("amqp://127.0.0.1:0?wireFormat.transformer=raw",) * 2,
        ("amqp://127.0.0.1:0?transport.wireFormat.transformer=native",) * 2,
        ("mqtt://127.0.0.1:0",) * 2,
    ],
)
def test_amqp_connectors_get_the_transformer_that_users_expect(
    convert: Callable[..., Conversion], uri: str, expected: str
) -> None:
    connector = f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>'
    conversion = convert(connector)
    assert values(conversion)["connectors"][0]["uri"] == expected
    assert lost(conversion) == []


def test_connectors_keep_what_is_supported(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<transportConnectors>
<transportConnector name="openwire" uri="tcp://127.0.0.1:0?maximumConnections=10&amp;wireFormat.maxFrameSize=1000000&amp;nonsense=1"/>
<transportConnector name="xmpp" uri="xmpp://127.0.0.1:5222"/>
<transportConnector name="ssl" uri="ssl://127.0.0.1:0"/>
<transportConnector uri="stomp://localhost:0" allowLinkStealing="true" updateClusterClients="true"
  updateClusterFilter="east-.*" auditNetworkProducers="true" discoveryUri="multicast://default"/>
<transportConnector uri="tcp://0.0.0.0:0"/>
</transportConnectors>"""
    )
    assert lost(conversion) == [
        (4, "<transportConnector uri>"),
        (5, "<transportConnector uri>"),
        (6, "<transportConnector uri>"),
        (9, "<transportConnector uri>"),
    ]
    reasons = [str(each) for each in conversion.unsupported]
    assert "nonsense" in reasons[0]
    assert "[xmpp]" in reasons[1]
    assert "needs a certificate" in reasons[2]
    assert "allow_anonymous_remote" in reasons[3]
    connectors = values(conversion)["connectors"]
    assert [each.get("name") for each in connectors] == ["openwire", None, None]
    assert "nonsense" not in connectors[0]["uri"]
    assert "maximumConnections=10" in connectors[0]["uri"]
    del connectors[1]["uri"]
    assert connectors[1] == {
        "allow_link_stealing": True,
        "update_cluster_clients": True,
        "update_cluster_filter": "east-.*",
        "audit_network_producers": True,
        "discovery_uri": "multicast://default",
    }


@pytest.mark.fact("mqtt-connector M1")
def test_the_mqtt_connector_of_the_sample_is_kept(convert: Callable[..., Conversion]) -> None:
    uri = "mqtt://127.0.0.1:1883?maximumConnections=1000&wireFormat.maxFrameSize=104857600"
    conversion = convert(
        f"""<transportConnectors>
<transportConnector name="mqtt" uri="{uri.replace("&", "&amp;")}"/>
</transportConnectors>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["connectors"] == [{"name": "mqtt", "uri": uri}]


def test_ssl_context(convert: Callable[..., Conversion], tmp_path: Path) -> None:
    (tmp_path / "broker.p12").write_bytes(b"0\x82\x0a\x00")
    conversion = convert(
        """<transportConnectors><transportConnector uri="tcp://localhost:0"/>
             <transportConnector uri="ssl://0.0.0.0:0?needClientAuth=true"/></transportConnectors>
           <sslContext><sslContext keyStore="file:${activemq.conf}/broker.p12" keyStorePassword="x"
             keyStoreType="PKCS12"/></sslContext>
           <plugins><simpleAuthenticationPlugin anonymousAccessAllowed="true"/></plugins>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["connectors"][1] == {
        "uri": "ssl://0.0.0.0:0?needClientAuth=true",
        "tls": {"key_store": str(tmp_path / "broker.p12"), "key_store_password": "x"},
    }


def test_key_stores_of_java_are_named_with_the_command_that_converts_them(
    convert: Callable[..., Conversion], tmp_path: Path
) -> None:
    (tmp_path / "broker.ks").write_bytes(b"\xfe\xed\xfe\xed\x00")
    conversion = convert(
        """<transportConnectors><transportConnector uri="ssl://localhost:0"/>
<transportConnector name="b" uri="tcp://localhost:0"/></transportConnectors>
<sslContext><sslContext keyStore="broker.ks"/></sslContext>"""
    )
    assert "keytool -importkeystore" in str(conversion.unsupported[0])
    assert values(conversion)["connectors"] == [{"uri": "tcp://localhost:0", "name": "b"}]


def test_virtual_destinations(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<destinationInterceptors>
             <virtualDestinationInterceptor><virtualDestinations>
               <virtualTopic name="V.>" prefix="C.*." selectorAware="true"/>
               <compositeQueue name="all" forwardOnly="false" concurrentSend="true"><forwardTo>
                 <queue physicalName="a"/><topic physicalName="b"/>
                 <filteredDestination selector="x = 1" queue="c"/>
               </forwardTo></compositeQueue>
             </virtualDestinations></virtualDestinationInterceptor>
             <mirroredQueue copyMessage="true"/>
           </destinationInterceptors>"""
    )
    assert lost(conversion) == []
    read = values(conversion)
    assert read["use_mirrored_queues"] is True
    assert read["virtual_destinations"] == [
        {"type": "virtual_topic", "name": "V.>", "prefix": "C.*.", "selector_aware": True},
        {
            "type": "composite_queue",
            "name": "all",
            "forward_only": False,
            "forward_to": [
                {"destination": "a"},
                {"destination": "topic://b"},
                {"destination": "c", "selector": "x = 1"},
            ],
        },
    ]


def test_plugins(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<plugins>
             <timeStampingBrokerPlugin zeroExpirationOverride="86400000" ttlCeiling="172800000"/>
             <statisticsBrokerPlugin/>
             <loggingBrokerPlugin logAll="true"/>
             <discardingDLQBrokerPlugin dropOnly="A B"/>
             <forcePersistencyModeBrokerPlugin persistenceFlag="true"/>
             <destinationPathSeparatorPlugin pathSeparator="|"/>
             <traceBrokerPathPlugin/>
             <destinationsPlugin location="list"/>
             <connectionDotFilePlugin file="a.dot" redrawOnRemove="true"/>
             <destinationDotFilePlugin/>
             <udpTraceBrokerPlugin destination="udp://127.0.0.1:9" maxTraceDatagramSize="512"/>
             <multicastTraceBrokerPlugin timeToLive="2" broadcast="false"/>
             <virtualSelectorCacheBrokerPlugin persistFile="file" persistInterval="60000"/>
             <runtimeConfigurationPlugin checkPeriod="1000"/>
             <bean xmlns="http://www.springframework.org/schema/beans"
               class="org.apache.activemq.broker.util.RedeliveryPlugin">
               <property name="sendToDlqIfMaxRetriesExceeded" value="false"/>
             </bean>
             <redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap>
               <redeliveryPolicyEntries><redeliveryPolicy queue="q" maximumRedeliveries="4"
                 initialRedeliveryDelay="5000"/></redeliveryPolicyEntries>
               <defaultEntry><redeliveryPolicy maximumRedeliveryDelay="-1"/></defaultEntry>
             </redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>
           </plugins>"""
    )
    assert lost(conversion) == []
    assert values(conversion)["plugins"] == [
        {"type": "time_stamping", "zero_expiration_override": "24h", "ttl_ceiling": "48h"},
        {"type": "statistics"},
        {"type": "logging", "log_all": True},
        {"type": "discarding_dlq", "drop_only": "A B"},
        {"type": "force_persistency_mode", "persistence_flag": True},
        {"type": "destination_path_separator", "path_separator": "|"},
        {"type": "trace_broker_path"},
        {"type": "destinations", "location": "list"},
        {"type": "connection_dot_file", "file": "a.dot", "redraw_on_remove": True},
        {"type": "destination_dot_file"},
        {
            "type": "udp_trace",
            "destination": "udp://127.0.0.1:9",
            "max_trace_datagram_size": 512,
        },
        {"type": "multicast_trace", "time_to_live": 2, "broadcast": False},
        {"type": "virtual_selector_cache", "persist_file": "file", "persist_interval": "1m"},
        {"type": "runtime_configuration", "check_period": "1s"},
        {"type": "redelivery", "send_to_dlq_if_max_retries_exceeded": False},
        {
            "type": "redelivery",
            "redelivery_policy_map": [
                {
                    "maximum_redeliveries": 4,
                    "initial_redelivery_delay": "5s",
                    "destination": "q",
                },
                {"maximum_redelivery_delay": 0},
            ],
        },
    ]


def test_users_and_rights(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<plugins>
             <simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>
               <authenticationUser username="a" password="${pw}" groups="g,h"/>
             </users></simpleAuthenticationPlugin>
             <authorizationPlugin><map><authorizationMap>
               <authorizationEntries>
                 <authorizationEntry queue="A.>" read="g" write="g,h" admin="h"/>
               </authorizationEntries>
               <defaultEntry><authorizationEntry read="*"/></defaultEntry>
               <tempDestinationAuthorizationEntry>
                 <tempDestinationAuthorizationEntry read="g" write="g" admin="g"/>
               </tempDestinationAuthorizationEntry>
             </authorizationMap></map></authorizationPlugin>
           </plugins>""",
        pw="se${cret}",
        cret="\u00e9",
    )
    assert lost(conversion) == []
    assert values(conversion)["plugins"] == [
        {
            "type": "simple_authentication",
            "anonymous_access_allowed": True,
            "users": [{"username": "a", "password": "se\u00e9", "groups": "g,h"}],
        },
        {
            "type": "authorization",
            "entries": [{"destination": "A.>", "read": "g", "write": "g,h", "admin": "h"}],
            "default_entry": {"read": "*"},
            "temp_destination_entry": {"read": "g", "write": "g", "admin": "g"},
        },
    ]


@pytest.mark.parametrize(
    ("element", "attributes", "expected"),
    [
        (
            "jaasAuthenticationPlugin",
            'configuration="activemq" discoverLoginConfig="true"',
            {"type": "jaas_authentication", "configuration": "activemq"},
        ),
        ("jaasCertificateAuthenticationPlugin", "", {"type": "jaas_certificate_authentication"}),
        (
            "jaasDualAuthenticationPlugin",
            'sslConfiguration="ssl"',
            {"type": "jaas_dual_authentication", "ssl_configuration": "ssl"},
        ),
    ],
    ids=["password", "certificate", "dual"],
)
def test_jaas_reads_login_config_beside_the_file(
    convert: Callable[..., Conversion],
    tmp_path: Path,
    element: str,
    attributes: str,
    expected: dict[str, str],
) -> None:
    text = f"<plugins><{element} {attributes}/></plugins>"
    file = tmp_path / "login.config"
    assert f"{file} does not exist" in str(convert(text).unsupported[0])
    file.write_text("activemq {};", encoding="utf-8")
    conversion = convert(text)
    assert lost(conversion) == []
    assert values(conversion)["plugins"] == [{**expected, "login_config": str(file)}]


def test_placeholders_and_imports(convert: Callable[..., Conversion], tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("name=n-${tail}\ntail=t\n", encoding="latin-1")
    (tmp_path / "more.xml").write_text(
        '<beans xmlns="http://www.springframework.org/schema/beans">'
        '<bean id="kaha" class="org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter">'
        '<property name="directory" value="${activemq.data}/k"/></bean></beans>',
        encoding="utf-8",
    )
    configurer = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"
    conversion = convert(
        "",
        'brokerName="${name}" persistenceAdapter="#kaha" dataDirectory="${nowhere}" '
        'schedulerDirectory="${other:fallback}"',
        f'<bean class="{configurer}"><property name="location" value="file:a.properties"/></bean>'
        '<import resource="more.xml"/><import resource="missing.xml"/>',
        activemq_data="/data",
    )
    assert values(conversion) == {
        "broker_name": "n-t",
        "scheduler_directory": "fallback",
        "persistence": {"type": "kahadb", "directory": "/data/k"},
    }
    assert lost(conversion) == [(2, "<broker dataDirectory>"), (5, "<import resource>")]
    assert "-D nowhere=VALUE" in str(conversion.unsupported[0])


def test_text_and_wrong_passwords_are_not_shown(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        "<plugins><simpleAuthenticationPlugin><users>"
        "<authenticationUser username='a' password='b' secretWord='hidden'>hidden</authenticationUser>"
        "</users></simpleAuthenticationPlugin></plugins>"
    )
    assert [each.subject for each in conversion.unsupported] == [
        "<authenticationUser secretWord>",
        "<authenticationUser>",
    ]
    assert "hidden" not in "".join(map(str, conversion.findings))
    assert "hidden" not in conversion.yaml()


def test_a_literal_placeholder_stays_one(
    convert: Callable[..., Conversion], tmp_path: Path
) -> None:
    conversion = convert("", 'brokerName="a$"')
    assert values(conversion)["broker_name"] == "a$"
    file = tmp_path / "broker.yaml"
    file.write_text(conversion.yaml(), encoding="utf-8")
    assert load_broker_settings(file, environ={}).broker_name == "a$"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (f"{_HEAD}</beans>", "no <broker>"),
        (f"{_HEAD}{_BROKER}/>{_BROKER}/></beans>", "several brokers"),
    ],
    ids=["none", "two"],
)
def test_a_file_has_one_broker(tmp_path: Path, document: str, reason: str) -> None:
    file = tmp_path / "x.xml"
    file.write_text(document, encoding="utf-8")
    with pytest.raises(ConfigurationException, match=reason):
        convert_activemq_xml(file, environ={})


_EVERYTHING = """<persistenceAdapter>
<kahaDB directory="d">
<locker>
<shared-file-locker failIfLocked="true"/>
</locker>
</kahaDB>
</persistenceAdapter>
<destinationPolicy>
<policyMap>
<policyEntries>
<policyEntry queue=">">
<deadLetterStrategy>
<sharedDeadLetterStrategy>
<deadLetterQueue>
<queue physicalName="x"/>
</deadLetterQueue>
</sharedDeadLetterStrategy>
</deadLetterStrategy>
<pendingQueuePolicy>
<storeCursor/>
</pendingQueuePolicy>
</policyEntry>
</policyEntries>
<defaultEntry>
<policyEntry maxPageSize="1"/>
</defaultEntry>
</policyMap>
</destinationPolicy>
<destinationInterceptors>
<virtualDestinationInterceptor>
<virtualDestinations>
<compositeTopic name="t">
<forwardTo>
<filteredDestination topic="u" selector="a = 1"/>
</forwardTo>
</compositeTopic>
</virtualDestinations>
</virtualDestinationInterceptor>
<mirroredQueue prefix="VirtualTopic.Mirror."/>
</destinationInterceptors>
<systemUsage>
<systemUsage>
<memoryUsage>
<memoryUsage percentOfJvmHeap="50"/>
</memoryUsage>
</systemUsage>
</systemUsage>
<destinations>
<topic physicalName="t"/>
</destinations>
<plugins>
<simpleAuthenticationPlugin>
<users>
<authenticationUser username="a" password="b"/>
</users>
</simpleAuthenticationPlugin>
<authorizationPlugin>
<map>
<authorizationMap>
<authorizationEntries>
<authorizationEntry queue=">" read="a"/>
</authorizationEntries>
<tempDestinationAuthorizationEntry>
<tempDestinationAuthorizationEntry read="a"/>
</tempDestinationAuthorizationEntry>
</authorizationMap>
</map>
</authorizationPlugin>
<redeliveryPlugin>
<redeliveryPolicyMap>
<redeliveryPolicyMap>
<defaultEntry>
<redeliveryPolicy maximumRedeliveries="1"/>
</defaultEntry>
</redeliveryPolicyMap>
</redeliveryPolicyMap>
</redeliveryPlugin>
</plugins>
<transportConnectors>
<transportConnector uri="tcp://localhost:0"/>
</transportConnectors>
<ioExceptionHandler>
<defaultIOExceptionHandler ignoreAllErrors="false"/>
</ioExceptionHandler>
<managementContext>
<managementContext createConnector="false"/>
</managementContext>
<shutdownHooks>
<bean class="org.apache.activemq.hooks.SpringContextHook"/>
</shutdownHooks>"""
_LINES = _EVERYTHING.splitlines()
_STARTS = [index for index, line in enumerate(_LINES) if not line.startswith("</")]


def test_the_sample_of_everything_converts_whole(convert: Callable[..., Conversion]) -> None:
    assert lost(convert(_EVERYTHING)) == []


@pytest.mark.parametrize("index", _STARTS)
def test_no_attribute_is_dropped_in_silence(convert: Callable[..., Conversion], index: int) -> None:
    lines = [*_LINES]
    lines[index] = re.sub(r"^<([\w-]+)", r'<\1 bogus="1"', lines[index])
    found = convert("\n".join(lines)).findings
    named = [each.subject for each in found if each.origin.line == index + 3]
    assert any(" bogus>" in subject or subject == "<springContextHook>" for subject in named)


@pytest.mark.parametrize("index", _STARTS)
def test_no_element_is_dropped_in_silence(convert: Callable[..., Conversion], index: int) -> None:
    lines = [*_LINES]
    if lines[index].endswith("/>"):
        name = re.match(r"<([\w-]+)", lines[index])
        assert name is not None
        lines[index] = f"{lines[index][:-2]}><bogus/></{name[1]}>"
    else:
        lines[index] += "<bogus/>"
    found = convert("\n".join(lines)).findings
    expected = {"<bogus>", "<springContextHook>"}
    named = {each.subject for each in found if each.origin.line == index + 3}
    # or it was taken for the element that stands there, and so the real one is named
    assert named & expected or any(each.is_unsupported for each in found)


def test_attributes_of_durable_subscriptions_connections_and_dispatch(
    convert: Callable[..., Conversion],
) -> None:
    conversion = convert(
        """<destinationPolicy><policyMap><policyEntries>
             <policyEntry topic="a"><dispatchPolicy><priorityNetworkDispatchPolicy/>
             </dispatchPolicy></policyEntry>
             <policyEntry topic="b"><dispatchPolicy><clientIdFilterDispatchPolicy/>
             </dispatchPolicy></policyEntry>
           </policyEntries></policyMap></destinationPolicy>
           <transportConnectors><transportConnector uri="tcp://127.0.0.1:0"
             maximumProducersAllowedPerConnection="7" maximumConsumersAllowedPerConnection="8"
             enableStatusMonitor="true"/>
           </transportConnectors>
        """,
        'keepDurableSubsActive="false" rejectDurableConsumers="true" '
        'monitorConnectionSplits="true" splitSystemUsageForProducersConsumers="true" '
        'producerSystemUsagePortion="55" consumerSystemUsagePortion="45"',
    )
    read = values(conversion)
    assert lost(conversion) == []
    assert [each["dispatch_policy"] for each in read["policies"]] == [
        "priority_network",
        "client_id_filter",
    ]
    (connector,) = read["connectors"]
    assert connector["maximum_producers_allowed_per_connection"] == 7
    assert connector["maximum_consumers_allowed_per_connection"] == 8
    assert connector["enable_status_monitor"] is True
    assert read["keep_durable_subs_active"] is False
    assert read["reject_durable_consumers"] is True
    assert read["monitor_connection_splits"] is True
    assert read["split_system_usage_for_producers_consumers"] is True
    assert read["producer_system_usage_portion"] == 55
    assert read["consumer_system_usage_portion"] == 45


def test_transacted_send_of_virtual_topics(convert: Callable[..., Conversion]) -> None:
    conversion = convert(
        """<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
             <virtualTopic name="a.>" transactedSend="true"/>
           </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"""
    )
    (topic,) = values(conversion)["virtual_destinations"]
    assert topic["transacted_send"] is True
    assert lost(conversion) == []
