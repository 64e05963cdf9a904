"""broker.yaml: keys, defaults, their effects, errors."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pyjms.configuration.section import Section
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, Topic
from pyjms_broker.filters.composite_queues import (
    CompositeQueue,
    CompositeTopic,
    FilteredDestination,
)
from pyjms_broker.filters.virtual_destinations import VirtualTopic
from pyjms_broker.policy.dead_letter import (
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import (
    OldestMessageEvictionStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
    UniquePropertyMessageEvictionStrategy,
)
from pyjms_broker.policy.recovery import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from pyjms_broker.service import BrokerService, IOExceptionHandler
from pyjms_broker.settings import (
    BrokerSettings,
    PolicySettings,
    broker_schema,
    load_broker_settings,
)
from pyjms_broker.settings import policies as policy_models
from pyjms_broker.settings.extensions import RecoveryPolicySettings
from pyjms_broker.settings.plugins import BUILT_IN_PLUGINS
from pyjms_broker.settings.reference import broker_reference
from tests.kit.documents import parsed

ROOT = Path(__file__).parents[3]
STRATEGIES = {
    "dead_letter_strategy",
    "pending_message_limit_strategy",
    "message_eviction_strategy",
    "subscription_recovery_policy",
}
RECOVERY_POLICIES = {
    "{type: none}": NoSubscriptionRecoveryPolicy(),
    "{type: fixed_count}": FixedCountSubscriptionRecoveryPolicy(),
    "{type: fixed_count, maximum_size: 3}": FixedCountSubscriptionRecoveryPolicy(maximum_size=3),
    "{type: fixed_sized}": FixedSizedSubscriptionRecoveryPolicy(),
    "{type: fixed_sized, maximum_size: 2kb}": FixedSizedSubscriptionRecoveryPolicy(
        maximum_size=2048
    ),
    "{type: last_image}": LastImageSubscriptionRecoveryPolicy(),
    "{type: timed}": TimedSubscriptionRecoveryPolicy(),
    "{type: timed, recover_duration: 2m}": TimedSubscriptionRecoveryPolicy(recover_duration=120.0),
}


def load(tmp_path: Path, text: str, **environ: str) -> BrokerSettings:
    path = tmp_path / "broker.yaml"
    path.write_text(text, encoding="utf-8")
    return load_broker_settings(path, environ=environ)


def test_the_defaults_are_the_services_own() -> None:
    keywords = BrokerSettings().keywords()
    parameters = inspect.signature(BrokerService).parameters
    unset = {"store_directory", "persistence", "virtual_destinations", "web"}
    objects = {"persistence_adapter", "startup_hooks", "pre_shutdown_hooks", "shutdown_hooks"}
    assert set(keywords) == set(parameters) - objects - unset
    for name in set(keywords) - {"policies", "io_exception_handler"}:
        assert keywords[name] == parameters[name].default, name
    service = BrokerService(**keywords)
    assert service.broker_name == "localhost"
    assert service.policies is not None
    assert service.policies.entries == []
    assert service.io_exception_handler == IOExceptionHandler()


def test_the_defaults_of_a_policy_are_policy_entrys_own() -> None:
    entry = PolicySettings().build()
    names = {name for name in vars(PolicyEntry()) if name != "is_built_in"}
    assert names == set(PolicySettings.model_fields)
    for name in names - {"dead_letter_strategy"}:
        assert getattr(entry, name) == getattr(PolicyEntry(), name), name
    assert isinstance(entry.dead_letter_strategy, SharedDeadLetterStrategy)
    assert entry.target is None


@pytest.mark.parametrize(
    ("written", "strategy"),
    [({"type": "shared"}, SharedDeadLetterStrategy), ({"type": "individual"}, IndividualDeadLetterStrategy)],
)  # fmt: skip
def test_the_defaults_of_dead_letter_strategies_are_their_own(
    written: dict[str, str], strategy: Any
) -> None:
    settings = PolicySettings.model_validate({"dead_letter_strategy": written})
    built, made = vars(settings.build().dead_letter_strategy), vars(strategy())
    public = {name for name in made if not name.startswith("_")}
    assert {name: built[name] for name in public} == {name: made[name] for name in public}


def test_a_broker_from_a_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        broker_name: ${NAME:mine}
        persistent: false
        system_usage: {memory_limit: 64mb, send_fail_if_no_space_after_timeout: 3s}
        connectors: [{name: openwire, uri: "tcp://127.0.0.1:0"}]
        destinations: [orders, "topic://news"]
        policies:
          - {destination: orders.>, memory_limit: 1kb, expire_messages_period: 5s, queue_prefetch: 1}
          - destination: topic://prices.>
            dead_letter_strategy: {type: discarding}
            message_eviction_strategy: {type: unique_property, property_name: symbol}
            pending_message_limit_strategy: {type: prefetch_rate, multiplier: 2}
          - {temp_queue: true, dead_letter_strategy: {type: shared, dead_letter_queue: dead}}
          - {max_page_size: 5, pending_message_limit_strategy: {type: constant, limit: 7}}
        virtual_destinations:
          - {type: virtual_topic, prefix: "C.*.", selector_aware: true}
          - type: composite_queue
            name: all
            forward_only: false
            forward_to: [{destination: eu, selector: region = 'EU'}, {destination: "topic://log"}]
          - {type: composite_topic, name: t, forward_to: [{destination: q}]}
        """,
    )
    keywords = settings.keywords()
    service = BrokerService(**keywords)
    assert service.broker_name == "mine"
    assert service.persistent is False
    assert service.system_usage.memory.limit == 64 * 2**20
    assert keywords["send_fail_if_no_space_after_timeout"] == 3.0
    assert settings.connectors[0].uri == "tcp://127.0.0.1:0"
    assert keywords["destinations"] == (Queue("orders"), Topic("news"))
    assert service.policies is not None
    orders = service.policies.entry_for(Queue("orders.new"))
    assert (orders.memory_limit, orders.expire_messages_period, orders.queue_prefetch) == (
        1024,
        5.0,
        1,
    )
    prices = service.policies.entry_for(Topic("prices.x"))
    assert isinstance(prices.dead_letter_strategy, DiscardingDeadLetterStrategy)
    assert prices.message_eviction_strategy == UniquePropertyMessageEvictionStrategy(
        property_name="symbol"
    )
    assert prices.pending_message_limit_strategy is not None
    assert prices.pending_message_limit_strategy.maximum_pending_message_limit(10) == 20
    other = service.policies.entry_for(Queue("other"))
    assert other.max_page_size == 5
    assert other.pending_message_limit_strategy is not None
    assert other.pending_message_limit_strategy.maximum_pending_message_limit(10) == 7
    topic, queue, forward = keywords["virtual_destinations"]
    assert topic == VirtualTopic(prefix="C.*.", selector_aware=True)
    assert queue == CompositeQueue(
        "all", (FilteredDestination(Queue("eu"), "region = 'EU'"), Topic("log")), forward_only=False
    )
    assert forward == CompositeTopic("t", (Queue("q"),))


@pytest.mark.parametrize(("written", "policy"), RECOVERY_POLICIES.items())
def test_recovery_policies(tmp_path: Path, written: str, policy: object) -> None:
    settings = load(tmp_path, f"policies: [{{subscription_recovery_policy: {written}}}]")
    service = BrokerService(**settings.keywords())
    assert service.policies is not None
    assert service.policies.entry_for(Topic("t")).subscription_recovery_policy == policy


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{type: fixed_count, maximum_size: 0}", "greater than or equal to 1"),
        ("{type: timed, recover_duration: 0s}", "greater than 0"),
        ("{type: last_image, maximum_size: 1}", "maximum_size"),
        ("{type: query_based}", "query"),
        ("{type: query_based, query: nothing}", "'nothing' is not installed"),
        ("{type: first}", "first"),
    ],
)
def test_wrong_recovery_policies(tmp_path: Path, written: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason) as caught:
        load(tmp_path, f"policies:\n  - subscription_recovery_policy: {written}\n")
    assert "broker.yaml:2" in str(caught.value)


@pytest.mark.parametrize(
    ("written", "strategy"),
    [({"type": "oldest"}, OldestMessageEvictionStrategy),
     ({"type": "oldest_with_lowest_priority"}, OldestMessageWithLowestPriorityEvictionStrategy)],
)  # fmt: skip
def test_eviction_strategies(written: dict[str, str], strategy: Any) -> None:
    policy = PolicySettings.model_validate({"message_eviction_strategy": written})
    assert policy.build().message_eviction_strategy == strategy()


def test_destinations_may_be_objects() -> None:
    policy = PolicySettings.model_validate({"destination": Topic("news")})
    assert policy.build().target == Topic("news")


def test_environment_and_profiles(tmp_path: Path) -> None:
    (tmp_path / "broker-test.yaml").write_text("broker_name: test\nuse_virtual_topics: false")
    environ = {
        "PYJMS_PROFILES": "test,without-a-file",
        "PYJMS_BROKER__PERSISTENT": "false",
        "PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT": "2gb",
        "PYJMS_JMS__CLIENT_ID": "not ours",
    }
    settings = load(tmp_path, "broker_name: base", **environ)
    assert settings.broker_name == "test"
    assert settings.use_virtual_topics is False
    assert settings.persistent is False
    assert settings.system_usage.memory_limit == 2 * 2**30
    assert load_broker_settings(environ=environ).persistent is False
    with pytest.raises(ConfigurationException, match="Profile 'x' has no file"):
        load_broker_settings(tmp_path / "broker.yaml", profiles=["x"], environ={})


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("5", 5), ("1kb", 1024), ("1 MB", 2**20), ("1.5g", 3 * 2**29), ("7b", 7), ("1tb", 2**40)],
)
def test_sizes(tmp_path: Path, text: str, bytes_: int) -> None:
    settings = load(tmp_path, f"system_usage: {{memory_limit: {text}}}")
    assert settings.system_usage.memory_limit == bytes_


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [("a: 1\nbrokerName: x", 2, "brokerName: there is no such setting; did you mean broker_name?"),
     ("persistence: {type: kahadb, kaha: 1}", 1, "there is no such setting"),
     ("persistence: {type: levelDB}", 1, "levelDB stores were removed from ActiveMQ in 5.17"),
     ("persistence: {type: replicated_leveldb}", 1, "use type: kahadb"),
     ("persistence: {type: tape}", 1, "'kahadb', 'multi_kahadb', 'memory', 'jdbc', 'journaled_jdbc'"),
     ("persistence:\n  type: kahadb\n  lock_acquire_sleep_interval: 0", 1, "must be more than 0"),
     ("persistence:\n  type: kahadb\n  journal:\n    disk_sync_strategy: seldom", 4, "'periodic'"),
     ("plugins: [x]", 1, "plugins[0].type: Broker plug-in 'x' is not installed"),
     ("plugins:\n  x: {a: 1}", 2, "plugins[0].type: Broker plug-in 'x' is not installed"),
     ("plugins: [1]", 1, "a plug-in is a name, or a mapping with a type"),
     ("plugins:\n  x: 1", 2, "a plug-in is a name, or a mapping with a type"),
     ("plugins: x", 1, "plugins: Input should be a valid tuple"),
     ("connectors:\n  - url: x", 2, "did you mean connectors[0].uri?"),
     ("connectors:\n  - name: x", 2, "connectors[0].uri: the key is missing"),
     ("policies:\n  - memroy_limit: 1", 2, "did you mean policies[0].memory_limit?"),
     ("policies:\n  - dead_letter_strategy:\n      type: shared\n      queue_prefix: x", 4, "there is no such setting"),
     ("policies:\n  - dead_letter_strategy: {type: lost}", 2, "'shared', 'individual', 'discarding'"),
     ("policies:\n  - dead_letter_strategy: {}", 2, "type"),
     ("policies: [{max_page_size: 1}, {max_page_size: 2}]", 1, "only one may be without a destination"),
     ("policies: [{destination: ''}]", 1, "is empty"),
     ("policies: [{expire_messages_period: 30}]", 1, "30ms to Spring and 30s to Python"),
     ("system_usage: {memory_limit: lots}", 1, "'lots' is not a size"),
     ("virtual_destinations:\n  - type: composite_queue\n    name: a\n    forward_to: [{destination: b, selector: a ==}]", 4, "equality is a single ="),
     ("virtual_destinations: [{type: composite_queue, name: a, forward_to: []}]", 1, "at least 1 item"),
     ("destinations:\n  - orders\n  - topc://a", 3, "topc:// is not a kind of destination")],
)  # fmt: skip
def test_errors(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        load(tmp_path, text)
    lines = str(caught.value).splitlines()
    assert any(reason in found and f"broker.yaml:{line}: " in found for found in lines)


def reference() -> str:
    return (ROOT / "config/broker.yaml").read_text(encoding="utf-8")


def test_the_reference_is_generated_from_the_models() -> None:
    assert reference() == broker_reference(), "config/broker.yaml is outdated: run `make docs`"


def test_the_reference_has_every_key_with_its_default() -> None:
    assert load_broker_settings(ROOT / "config/broker.yaml", environ={}) == BrokerSettings()
    values = parsed(reference(), "x").values
    assert set(values) == set(BrokerSettings.model_fields)
    for section in ("system_usage", "io_exception_handler"):
        fields = getattr(BrokerSettings(), section).__class__.model_fields
        assert set(values[section]) == set(fields)
    assert reference().startswith("# yaml-language-server: $schema=../docs/broker.schema.json")


def models(module: Any) -> list[type[BaseModel]]:
    return [
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, Section) and member is not Section
    ]


def test_the_examples_of_the_reference_have_every_other_key(tmp_path: Path) -> None:
    defaults = (
        "persistence: null",
        "plugins: []",
        "connectors: []",
        "network_connectors: []",
        "logging: {}",
        "web: null",
        "destinations: []",
        "policies: []",
        "virtual_destinations: null",
    )
    lines = [line for line in reference().splitlines() if not line.startswith(defaults)]
    text = "\n".join(line.removeprefix("#|") for line in lines)
    settings = load(tmp_path, text)
    BrokerService(**settings.keywords())
    policies = settings.policies
    assert set().union(*(policy.model_fields_set for policy in policies)) == set(
        PolicySettings.model_fields
    )
    shown: set[str] = set()

    def collect(value: object) -> None:
        if isinstance(value, BaseModel):
            shown.update(f"{type(value).__name__}.{name}" for name in value.model_fields_set)
            for name in type(value).model_fields:
                collect(getattr(value, name))
        elif isinstance(value, tuple):
            for item in value:
                collect(item)

    collect(settings)
    named = {name.partition(".")[2] for name in shown}
    assert {getattr(plugin, "type", None) for plugin in settings.plugins} == set(BUILT_IN_PLUGINS)
    assert all(each.model_fields_set == set(type(each).model_fields) for each in settings.plugins)
    for model in models(policy_models):
        if issubclass(model, RecoveryPolicySettings):
            continue  # one of them is the example
        assert set(model.model_fields) <= named, model


def test_connectors_may_be_texts(tmp_path: Path) -> None:
    text = (
        "connectors: ['tcp://127.0.0.1:0', {uri: 'stomp://127.0.0.1:0'}]\n"
        "network_connectors: ['static:(tcp://b:61616)']\n"
    )
    settings = load(tmp_path, text)
    uris = [each.uri for each in settings.connectors]
    assert uris == ["tcp://127.0.0.1:0", "stomp://127.0.0.1:0"]
    assert [each.uri for each in settings.network_connectors] == ["static:(tcp://b:61616)"]


def test_a_text_that_is_no_connector_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationException, match=r"yaml:2: connectors\[0\].* xmpp://"):
        load(tmp_path, "connectors:\n  - xmpp://h:1\n")


def test_the_schema_for_editors() -> None:
    written = (ROOT / "docs/broker.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == broker_schema(), (
        "docs/broker.schema.json is not what the model says"
    )
    assert broker_schema()["additionalProperties"] is False


def test_problems_of_all_stages_are_reported_at_once(tmp_path: Path) -> None:
    text = (
        "persistent: no\n"
        "transports: []\n"
        "connectors:\n  - uri: xmpp://h:1\n  - uri: smtp://h:1\n"
        "plugins: [nothing, 5]\n"
        "data_directory: ${ABSENT_FOLDER}\n"
        "policies:\n  - subscription_recovery_policy: {type: query_based, query: nothing}\n"
        "system_usage: {memory_limit: much}\n"
    )
    with pytest.raises(ConfigurationException) as raised:
        load(tmp_path, text)
    assert [each.line for each in raised.value.problems] == [1, 2, 4, 5, 6, 6, 7, 9, 10]
