"""Spring Boot's keys and their names here.

An unknown key that Spring Boot has gets an error with its name here, or with the reason why there
is none.
"""

from __future__ import annotations

import re
from typing import Final

from pyjms._yaml.document import Path, dotted

__all__ = ["translate_spring_key"]

_OUR_NAMES: Final = frozenset(
    {
        "jms.pub_sub_domain", "jms.subscription_durable", "jms.client_id", "jms.cache.enabled",
        "jms.cache.consumers", "jms.cache.producers", "jms.cache.session_cache_size",
        "jms.listener.auto_startup", "jms.listener.min_concurrency",
        "jms.listener.max_concurrency", "jms.listener.receive_timeout",
        "jms.listener.max_messages_per_task", "jms.listener.session.acknowledge_mode",
        "jms.listener.session.transacted", "jms.template.default_destination",
        "jms.template.delivery_mode", "jms.template.priority", "jms.template.time_to_live",
        "jms.template.qos_enabled", "jms.template.delivery_delay",
        "jms.template.receive_timeout", "jms.template.session.acknowledge_mode",
        "jms.template.session.transacted", "activemq.broker_url", "activemq.user",
        "activemq.password", "activemq.embedded.enabled", "activemq.close_timeout",
        "activemq.send_timeout", "activemq.non_blocking_redelivery", "activemq.pool.enabled",
        "activemq.pool.block_if_full", "activemq.pool.block_if_full_timeout",
        "activemq.pool.idle_timeout", "activemq.pool.max_connections",
        "activemq.pool.max_sessions_per_connection", "activemq.pool.time_between_expiration_check",
        "activemq.pool.use_anonymous_producers", "activemq.pool.expiry_timeout",
        "activemq.pool.create_connection_on_startup", "activemq.pool.reconnect_on_exception",
    }
)  # fmt: skip

_OLD_NAMES: Final = {
    "jms.listener.concurrency": "jms.listener.min_concurrency",
    "jms.listener.acknowledge_mode": "jms.listener.session.acknowledge_mode",
    "activemq.in_memory": "activemq.embedded.enabled",
    "activemq.pool.maximum_active_session_per_connection": (
        "activemq.pool.max_sessions_per_connection"
    ),
}

_ABSENT: Final = (
    ("jms.jndi_name", "there is no JNDI in Python; write activemq.broker_url"),
    ("activemq.packages", "objects are never unpickled, so there are no packages to trust"),
    ("artemis", "Artemis speaks OpenWire: write its URL as activemq.broker_url"),
    ("management", "health checks are at health.port, metrics are in observability"),
    ("logging.level", "write the loggers directly below logging, such as logging: {root: INFO}"),
)


def translate_spring_key(path: Path) -> str | None:
    """Return the explanation for an unknown key that Spring Boot has; None for other keys."""
    name = _ours(dotted(path))
    spring = f"Spring Boot's {dotted(path)}"
    ours = _OLD_NAMES.get(name, name)
    if ours in _OUR_NAMES and ours != dotted(path):
        return f"{spring} is {ours} here"
    for prefix, reason in _ABSENT:
        if name == prefix or name.startswith(f"{prefix}."):
            return f"{spring} does not exist here: {reason}"
    return None


def _ours(name: str) -> str:
    """Return a Spring Boot name in our spelling: no prefix, snake_case."""
    name = name.removeprefix("spring.")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
