"""Each key of application.yaml arrives at the object that uses it.

A file with one key is loaded and an application built from it; what the key changes there is
compared with an application without it. Keys of `spark` and `pipelines` have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any, get_origin

import pytest
import yaml
from dependency_injector import providers
from pydantic import BaseModel

from pyjms import (
    ApplicationContainer,
    JmsApplication,
    PyjmsSettings,
    Queue,
    jms_listener,
    jms_scheduled,
    load_settings,
)
from pyjms.errors import ConfigurationException
from pyjms.listener.decorators import Schedule
from pyjms.listener.endpoint import JmsListenerEndpoint, SimpleJmsListenerEndpoint
from pyjms.settings import ActiveMQSettings
from pyjms.settings.listeners import ListenerOverride
from pyjms.transport.failover.brokers import FailoverOptions, read_failover_options
from pyjms.transport.tls import read_client_tls

Probe = Callable[[JmsApplication], object]


@jms_listener("orders", id="orders")
async def handler(text: str) -> None: ...


@jms_scheduled(cron="* * * * *", id="orders")
async def scheduled() -> None: ...


def template(name: str) -> Probe:
    return lambda application: getattr(application.template, name)


def cached(name: str) -> Probe:
    return lambda application: getattr(application.template.connection_factory, name, None)


def _container(application: JmsApplication, endpoint: JmsListenerEndpoint) -> Any:
    factory = application.container.jms_listener_container_factory()
    return factory.create_listener_container(endpoint)


def container(name: str) -> Probe:
    def probe(application: JmsApplication) -> object:
        plain = SimpleJmsListenerEndpoint(id="x", destination="x", message_listener=print)
        return getattr(_container(application, plain), name)

    return probe


def listener(name: str) -> Probe:
    def probe(application: JmsApplication) -> object:
        (endpoint,) = application.endpoints()
        return getattr(_container(application, endpoint), name)

    return probe


def provided(name: str) -> Probe:
    """Return the probe for a property whose object a provider of the container supplies."""

    def probe(application: JmsApplication) -> bool:
        (endpoint,) = application.endpoints()
        return getattr(_container(application, endpoint), name) is application.container.mine()

    return probe


@jms_listener("orders", id="orders", batch_size=3)
async def handler_of_lists(texts: list[str]) -> None: ...


def listener_of_lists(name: str) -> Probe:
    def probe(application: JmsApplication) -> object:
        lists = JmsApplication(handler_of_lists, settings=application.settings)
        (endpoint,) = lists.endpoints()
        return getattr(_container(lists, endpoint), name)

    return probe


@jms_listener("orders", id="orders")
async def handler_with_result(text: str) -> str | None: ...


def listener_with_result(name: str) -> Probe:
    def probe(application: JmsApplication) -> object:
        replying = JmsApplication(handler_with_result, settings=application.settings)
        (endpoint,) = replying.endpoints()
        return getattr(_container(replying, endpoint), name)

    return probe


def factory_of(application: JmsApplication) -> list[str | None]:
    return [endpoint.container_factory for endpoint in application.endpoints()]


def schedule_of(application: JmsApplication) -> list[Schedule | None]:
    return [endpoint.schedule for endpoint in application.endpoints()]


def policy_of(application: JmsApplication) -> list[str]:
    return [str(endpoint.redelivery_policy) for endpoint in application.endpoints()]


def client(path: str) -> Probe:
    def probe(application: JmsApplication) -> str:
        value: Any = application.container.native_connection_factory()
        for name in path.split("."):
            value = getattr(value, name)
        return str(value)

    return probe


def broker(probe: Probe) -> Probe:
    """Return the probe for `brokers.other`, as the one for `activemq`."""

    def other(application: JmsApplication) -> object:
        return probe(JmsApplication(settings=application.settings.model_copy(
            update={"activemq": application.settings.brokers["other"]}
        )))  # fmt: skip

    return other


def converter(name: str) -> Probe:
    return lambda application: getattr(application.container.message_converter(), name)


def tls(application: JmsApplication) -> object:
    """Return what the connections' TLS is made of."""
    return astuple(read_client_tls(application.container.native_connection_factory().uri))


TLS: dict[str, object] = {
    "trust_store": "ca.pem",
    "trust_store_password": "a",
    "key_store": "client.pem",
    "key_store_password": "b",
    "key_store_key_password": "c",
    "key_file": "client.key",
    "minimum_version": "TLSv1.3",
    "enabled_protocols": ["TLSv1.2"],
    "enabled_cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
    "verify_host_name": False,
    "server_name": "broker.example",
}


def pool(name: str) -> Probe:
    def read(application: JmsApplication) -> object:
        pooled: Any = application.template.connection_factory
        return getattr(pooled.options, name)

    return read


def factory_kind(application: JmsApplication) -> object:
    listeners = application.container.jms_listener_container_factory()
    return type(application.template.connection_factory), type(listeners.connection_factory)


FAILOVER: dict[str, object] = {
    "initial_reconnect_delay": "20ms",
    "max_reconnect_delay": "5s",
    "use_exponential_back_off": False,
    "reconnect_delay_exponent": 3,
    "max_reconnect_attempts": 4,
    "startup_max_reconnect_attempts": 5,
    "warn_after_reconnect_attempts": 6,
    "randomize": False,
    "timeout": "7s",
    "backup": True,
    "backup_pool_size": 2,
    "priority_backup": True,
    "priority_uris": ["tcp://a:1", "tcp://b:2"],
    "track_messages": True,
    "track_transaction_producers": False,
    "max_cache_size": 1024,
    "update_uris_supported": False,
    "update_uris_url": "brokers.txt",
    "rebalance_update_uris": False,
    "reconnect_supported": False,
}
POOL: dict[str, object] = {
    "max_connections": 2,
    "max_sessions_per_connection": 3,
    "idle_timeout": "4s",
    "expiry_timeout": "5s",
    "connection_timeout": "6s",
    "block_if_full": False,
    "block_if_full_timeout": "7s",
    "create_connection_on_startup": False,
    "use_anonymous_producers": False,
    "explicit_producer_cache_size": 8,
    "reconnect_on_exception": False,
    "time_between_expiration_check": "9s",
}
BLOBS = {
    "upload_url": "https://blobs/up/",
    "broker_upload_url": "https://blobs/broker/",
    "default_upload_url": "https://blobs/default/",
    "buffer_size": 7,
}
PREFETCH = {
    "queue": 1,
    "queue_browser": 2,
    "topic": 3,
    "durable_topic": 4,
    "optimize_durable_topic": 5,
    "maximum_pending_message_limit": 6,
}


def blobs(application: JmsApplication) -> object:
    policy = application.container.native_connection_factory().blob_transfer_policy
    return (policy.target, policy.buffer_size)


def failover(application: JmsApplication) -> tuple[FailoverOptions, dict[str, str]]:
    """Return the options that the transport has read."""
    return read_failover_options(application.container.native_connection_factory().uri)


def policies(application: JmsApplication) -> str:
    factory = application.container.native_connection_factory()
    return str(factory.redelivery_policy_map.entry_for(Queue("orders.new")))


INTERCEPTOR = "pyjms.testing.app:Recorder"
BROKER: dict[str, tuple[object, Probe]] = {
    **{f"tls.{key}": (value, tls) for key, value in TLS.items()},
    "broker_url": ("tcp://elsewhere:1", client("uri")),
    "user": ("anna", client("user_name")),
    "user_name": ("anna", client("user_name")),
    "password": ("secret", client("password")),
    "embedded.enabled": (False, client("uri")),
    "close_timeout": ("7s", client("options.close_timeout")),
    "send_timeout": ("7s", client("options.send_timeout")),
    "redelivery.maximum": (2, client("redelivery_policy")),
    "redelivery.initial_delay": ("3s", client("redelivery_policy")),
    "redelivery.multiplier": (3, client("redelivery_policy")),
    "redelivery.delay": ("4s", client("redelivery_policy")),
    "redelivery.max_delay": ("9s", client("redelivery_policy")),
    "redelivery.jitter": (0.5, client("redelivery_policy")),
    "redelivery.pre_dispatch_check": (False, client("redelivery_policy")),
    "redelivery_by_destination": ({"orders.>": {"maximum": 2}}, policies),
    **{f"prefetch.{key}": (size, client("prefetch_policy")) for key, size in PREFETCH.items()},
    **{f"blob_transfer_policy.{key}": (value, blobs) for key, value in BLOBS.items()},
    "failover.uris": (["tcp://elsewhere:1"], client("uri")),
    "failover.nested": ({"keepAlive": "true"}, failover),
    **{f"failover.{key}": (value, failover) for key, value in FAILOVER.items()},
    "pool.enabled": (True, factory_kind),
    **{f"pool.{key}": (value, pool(key)) for key, value in POOL.items()},
    "non_blocking_redelivery": (True, client("options.non_blocking_redelivery")),
    "stats_enabled": (True, client("options.stats_enabled")),
}
PROVIDED = (
    "transaction_manager",
    "task_executor",
    "error_handler",
    "exception_listener",
    "message_converter",
    "destination_resolver",
)


def back_off(application: JmsApplication) -> object:
    rule: Any = listener("back_off")(application)
    return type(rule), vars(rule)


class Container(ApplicationContainer):
    mine = providers.Singleton(object)


LISTENER: dict[str, tuple[object, Probe]] = {
    "destination": ("other", listener("destination_name")),
    "concurrency": ("2-4", listener("concurrency")),
    "selector": ("a = 1", listener("message_selector")),
    "subscription": ("audit", listener("subscription_name")),
    "durable": (True, listener("subscription_durable")),
    "prefetch": (7, listener("prefetch")),
    "batch_size": (7, listener_of_lists("batch_size")),
    "batch_timeout": ("2s", listener_of_lists("batch_timeout")),
    "batch_fallback": ("none", listener_of_lists("batch_fallback")),
    "redelivery.maximum": (1, policy_of),
    "redelivery.initial_delay": ("3s", policy_of),
    "redelivery.multiplier": (3, policy_of),
    "redelivery.delay": ("4s", policy_of),
    "redelivery.max_delay": ("9s", policy_of),
    "redelivery.jitter": (0.5, policy_of),
    "redelivery.pre_dispatch_check": (False, policy_of),
    "retry.maximum": (1, listener("retry")),
    "retry.initial_delay": ("3s", listener("retry")),
    "retry.multiplier": (3, listener("retry")),
    "retry.max_delay": ("9s", listener("retry")),
    "retry.jitter": (0.5, listener("retry")),
    "retry.retry_on": (["OSError"], listener("retry")),
    "retry.no_retry_for": (["json.JSONDecodeError"], listener("retry")),
    "retry.dead_letter": ("orders.failed", listener("retry")),
    "unreadable_messages": ("redeliver", listener("unreadable_messages")),
    "errors": ("reply", listener("errors")),
    "reply_none": (True, listener_with_result("reply_none")),
    "timeout": ("3s", listener("timeout")),
    "rate_limit": (0.5, listener("rate_limit")),
    "auto_startup": (False, listener("auto_startup")),
    "container_factory": ("jms_listener_container_factory", factory_of),
    "client_id": ("me", listener("client_id")),
    "pub_sub_domain": (True, listener("pub_sub_domain")),
    "no_local": (True, listener("pub_sub_no_local")),
    "receive_timeout": ("3s", listener("receive_timeout")),
    "max_messages_per_task": (5, listener("max_messages_per_task")),
    "idle_consumer_limit": (2, listener("idle_consumer_limit")),
    "idle_task_execution_limit": (3, listener("idle_task_execution_limit")),
    "recovery_interval": ("7s", listener("recovery_interval")),
    "cache_level": ("session", listener("cache_level")),
    "interceptors": ([INTERCEPTOR], lambda a: [e.interceptors for e in a.endpoints()]),
    "session.acknowledge_mode": ("client", listener("session_acknowledge_mode")),
    "session.transacted": (False, listener("session_transacted")),
    "cron": ("0 6 * * *", schedule_of),
    "fixed_rate": ("7s", schedule_of),
    "phase": (3, listener("phase")),
    "acknowledge_after_listener": (False, listener("acknowledge_after_listener")),
    "expose_listener_session": (False, listener("expose_listener_session")),
    "accept_messages_while_stopping": (True, listener("accept_messages_while_stopping")),
    "idle_receives_per_task_limit": (5, listener("idle_receives_per_task_limit")),
    "back_off.interval": ("7s", back_off),
    "back_off.multiplier": (3, back_off),
    "back_off.max_interval": ("9s", back_off),
    "back_off.max_attempts": (2, back_off),
    "reply_pub_sub_domain": (True, listener("reply_pub_sub_domain")),
    "reply_qos.delivery_mode": ("non_persistent", listener("reply_qos_settings")),
    "reply_qos.priority": (7, listener("reply_qos_settings")),
    "reply_qos.time_to_live": ("7s", listener("reply_qos_settings")),
    "transaction_name": ("tx", listener("transaction_name")),
    "transaction_timeout": ("7s", listener("transaction_timeout")),
    **{name: ("mine", provided(name)) for name in PROVIDED},
}
EFFECTS: dict[str, tuple[object, Probe]] = {
    "jms.pub_sub_domain": (True, template("pub_sub_domain")),
    "jms.subscription_durable": (True, container("subscription_durable")),
    "jms.client_id": ("me", container("client_id")),
    "jms.converter.dict_format": ("map", converter("dict_format")),
    "jms.cache.enabled": (False, lambda a: type(a.template.connection_factory).__name__),
    "jms.cache.consumers": (True, cached("cache_consumers")),
    "jms.cache.producers": (False, cached("cache_producers")),
    "jms.cache.session_cache_size": (7, cached("session_cache_size")),
    "jms.listener.auto_startup": (False, container("auto_startup")),
    "jms.listener.min_concurrency": (3, container("concurrent_consumers")),
    "jms.listener.max_concurrency": (3, container("max_concurrent_consumers")),
    "jms.listener.receive_timeout": ("3s", container("receive_timeout")),
    "jms.listener.max_messages_per_task": (3, container("max_messages_per_task")),
    "jms.listener.recovery_interval": ("7s", container("recovery_interval")),
    "jms.listener.prefetch": (7, container("prefetch")),
    "jms.listener.unreadable_messages": ("redeliver", container("unreadable_messages")),
    "jms.listener.retry.maximum": (1, listener("retry")),
    "jms.listener.retry.initial_delay": ("3s", listener("retry")),
    "jms.listener.retry.multiplier": (3, listener("retry")),
    "jms.listener.retry.max_delay": ("9s", listener("retry")),
    "jms.listener.retry.jitter": (0.5, listener("retry")),
    "jms.listener.retry.retry_on": (["OSError"], listener("retry")),
    "jms.listener.retry.no_retry_for": (["json.JSONDecodeError"], listener("retry")),
    "jms.listener.retry.dead_letter": ("orders.failed", listener("retry")),
    "jms.listener.cache_level": ("session", container("cache_level")),
    "jms.listener.interceptors": ([INTERCEPTOR], container("interceptors")),
    "jms.listener.session.acknowledge_mode": ("client", container("session_acknowledge_mode")),
    "jms.listener.session.transacted": (False, container("session_transacted")),
    "jms.template.default_destination": ("x", template("default_destination_name")),
    "jms.template.delivery_mode": ("non_persistent", template("delivery_mode")),
    "jms.template.priority": (9, template("priority")),
    "jms.template.time_to_live": ("3s", template("time_to_live")),
    "jms.template.qos_enabled": (True, template("explicit_qos_enabled")),
    "jms.template.delivery_delay": ("3s", template("delivery_delay")),
    "jms.template.receive_timeout": ("3s", template("receive_timeout")),
    "jms.template.shared_reply_queue": (False, template("shared_reply_queue")),
    "jms.template.raise_on_timeout": (True, template("raise_on_timeout")),
    "jms.template.require_consumer": (True, template("require_consumer")),
    "jms.template.interceptors": ([INTERCEPTOR], template("send_interceptors")),
    "jms.template.session.acknowledge_mode": ("client", template("session_acknowledge_mode")),
    "jms.template.session.transacted": (True, template("session_transacted")),
    "lifecycle.timeout_per_shutdown_phase": ("7s", lambda a: a.stop_timeout),
    **{f"activemq.{key}": effect for key, effect in BROKER.items()},
    **{f"brokers.other.{key}": (v, broker(probe)) for key, (v, probe) in BROKER.items()},
    **{f"listeners.orders.{key}": effect for key, effect in LISTENER.items()},
}
"""By key: a value, and what shows its effect."""
SECTIONS = ("activemq", "brokers.other")
WITH: dict[str, dict[str, object]] = {
    "listeners.orders.back_off.max_interval": {"listeners.orders.back_off.multiplier": 3},
    "listeners.orders.durable": {"listeners.orders.client_id": "me"},
    "listeners.orders.subscription": {
        "listeners.orders.durable": True,
        "listeners.orders.client_id": "me",
    },
    **{
        f"{section}.tls.{key}": {f"{section}.broker_url": "ssl://h:1"}
        for section in SECTIONS
        for key in TLS
    },
    **{
        f"{section}.failover.{key}": {f"{section}.failover.uris": ["tcp://a:1"]}
        for section in SECTIONS
        for key in [*FAILOVER, "nested"]
    },
    **{
        f"{section}.pool.{key}": {f"{section}.pool.enabled": True}
        for section in SECTIONS
        for key in POOL
    },
}
"""Keys that are only accepted together with another one."""
ELSEWHERE = {
    "lifecycle.startup_timeout": "tests/integration/app/test_failover_start.py",
    "jms.converter.type_id_mappings": "tests/integration/annotation/test_type_ids.py",
    "jms.converter.trusted_packages": "tests/integration/annotation/test_type_ids.py",
    "observability.tracing": "tests/integration/observability/test_tracing.py",
    "observability.metrics": "tests/integration/observability/test_tracing.py",
    "observability.prometheus": "tests/integration/observability/test_prometheus.py",
    "health.port": "tests/integration/observability/test_health.py",
    "health.host": "tests/integration/observability/test_health.py",
    "health.control_token": "tests/integration/observability/test_control.py",
    "health.probe_timeout": "tests/integration/observability/test_health.py",
    "health.stuck_after": "tests/integration/observability/test_health.py",
    "logging.format": "tests/integration/observability/test_logs.py",
    "logging.stderr": "tests/unit/cli/test_log_output.py",
    "logging.file": "tests/unit/cli/test_log_output.py",
    "logging.tracebacks": "tests/integration/observability/test_logs.py",
    "app": "tests/unit/settings/test_application_settings.py",
}
"""Keys whose effect is tested in another file."""
SCHEDULES = {"listeners.orders.cron", "listeners.orders.fixed_rate"}
ROOT = Path(__file__).resolve().parents[3]
_NAMED: dict[str, tuple[str, type[BaseModel]]] = {
    "brokers": ("other", ActiveMQSettings),
    "listeners": ("orders", ListenerOverride),
}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Return all keys of a section, with those of its sections."""
    for name, info in model.model_fields.items():
        inner = _section(info.annotation)
        if not prefix and name in ("spark", "pipelines"):
            continue
        if not prefix and name in _NAMED:
            key, section = _NAMED[name]
            yield from keys(section, f"{name}.{key}.")
        elif inner is None:
            yield prefix + name
        else:
            yield from keys(inner, f"{prefix}{name}.")


def _section(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) is dict:  # of sections with names of their own
        return None
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    found = (c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return next(found, None)


def application_of(given: dict[str, object], folder: Path) -> JmsApplication:
    tree: dict[str, Any] = {"brokers": {"other": {}}}
    for key, value in given.items():
        *sections, name = key.split(".")
        section = tree
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    path = folder / "application.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    target = scheduled if given.keys() & SCHEDULES else handler
    return JmsApplication(target, settings=load_settings(path, environ={}), container=Container)


def test_every_key_has_its_effect_tested() -> None:
    assert {*EFFECTS, *ELSEWHERE} == {*keys(PyjmsSettings)}
    for key, path in ELSEWHERE.items():
        assert key.rpartition(".")[2] in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("url", [None, "tcp://h:1", "nio://h:1"])
def test_certificates_for_a_url_without_encryption_are_refused(
    url: str | None, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationException, match="broker_url is not encrypted"):
        application_of({"activemq.broker_url": url, "activemq.tls.trust_store": "ca.pem"}, tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> JmsApplication:
    """An application without the key."""
    return application_of({}, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("key", sorted(EFFECTS))
async def test_a_key_has_an_effect(key: str, tmp_path: Path, plain: JmsApplication) -> None:
    value, probe = EFFECTS[key]
    others = WITH.get(key, {})
    if key in SCHEDULES:
        assert probe(application_of({key: value}, tmp_path)) != [
            Schedule(cron="* * * * *"),
        ]
        return
    without = probe(application_of(others, tmp_path) if others else plain)
    assert probe(application_of({**others, key: value}, tmp_path)) != without
