"""Random requests for Jolokia: most are nearly right, and reach the broker's objects."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from tests.kit.web.jolokia import BROKER, ORDERS, OTHERS, QUEUES, SCENARIO, TEXT

Request = tuple[str, str, str, list[tuple[str, str]], bytes]
"""Method, path, query, headers and body."""

_PATH = "/api/jolokia"
WORDS: list[Any] = [
    None, True, 0, -1, 1e300, 2**70, "", "x", "*", "\ud800", "a/b", "!", "!/", "\x00", "é", [], {},
    [None], {"a": [1]}, "x" * 300, BROKER, ORDERS, QUEUES, TEXT, "org.apache.activemq", "QueueSize",
    "Name", "Queues", "MemoryLimit", "browse()", "browse(java.lang.String)", "purge", "pause",
    "resume", "addQueue", "orders", "colour = 'red'", "colour =", "resetStatistics", "ID:none",
    "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "read", "write", "exec", "list",
    "search", "version", "maxDepth", "ignoreErrors", "org.apache.activemq:type=Broker,*", "[null]",
]  # fmt: skip
KEYS = ["type", "mbean", "attribute", "operation", "arguments", "value", "path", "config", "x"]
TYPES = ["read", "write", "exec", "list", "search", "version"]
_TEXTS = [
    "orders", "others", "queue://others", "topic://news", "temp-queue://x", "a,b", "new.1", "new.2",
    "ActiveMQ.Advisory.Queue", "PyJMS.x", "colour = 'red'", "colour LIKE '%'", "colour =", "1=1",
    "JMSPriority > 3", "ID:none", "c1", "nightly", "tcp://127.0.0.1:0", "static:()", "bad://x",
    "body=x", "body=x,JMSPriority=7,colour=red", "JMSPriority=x", "{}", '{"name": "orders"}', ".*",
    "(", "2026-01-01 00:00:00", "", "é", "\ud800", "\x00", "x" * 300, "orders?consumer.x=1", "*", ">",
]  # fmt: skip
_NUMBERS = [0, 1, -1, 3, "5", "x", 2**31, 2**63, 1.5, 1e300, True, None, "", "²", "9" * 30]
_MAPS = [
    {}, {"JMSPriority": "7", "colour": "red"}, {"JMSPriority": "x"}, {"": 1}, {"a": None}, "{", "{}",
    {"JMSReplyTo": "que://x"}, {"JMSXGroupSeq": 2**70}, {"JMSExpiration": 1}, {"timeToLive": -5},
    {"a": {"b": [1]}}, {"JMSDeliveryMode": 1}, {"x": "\ud800"}, {"AMQ_SCHEDULED_DELAY": "60000"},
]  # fmt: skip
_VALUES: dict[str, list[Any]] = {
    "java.lang.String": _TEXTS,
    "java.util.Map": _MAPS,
    "boolean": [True, False, "true", "no", 0, None],
}
ENDING = frozenset({"stop", "restart", "stopGracefully"})
"""Operations after which no further requests are possible."""


class JolokiaRequests:
    """Makes requests of the views of a running broker.

    Args:
        chance: what decides.
        management: of the broker; the views that there are now are asked.
    """

    def __init__(self, chance: random.Random, management: Management) -> None:
        self._chance = chance
        self._views: dict[str, list[View[Any]]] = {}
        for view in management.find("*:*"):
            self._views.setdefault(view.kind.java_class, []).append(view)

    def __call__(self) -> Request:
        chance = self._chance
        make: Callable[[], Any] = chance.choices(
            (self._nearly_right, self._recorded, self._any), (6, 2, 2)
        )[0]
        is_list = chance.random() < 0.1
        content = [make() for _ in range(chance.randrange(4))] if is_list else make()
        if isinstance(content, str):
            return "GET", _PATH + content, "", [], b""
        if isinstance(content, list):
            content = [{} if isinstance(each, str) else each for each in content]
        if isinstance(content, dict) and chance.random() < 0.2:
            path = _as_path(content)
            if path is not None:
                return "GET", path, chance.choice(["", "", "maxDepth=1", "x=%zz"]), [], b""
        body = json.dumps(content).encode()
        if chance.random() < 0.1:
            body = damaged(chance, body)
        return "POST", _PATH, "", [], body

    def _view(self) -> View[Any]:
        return self._chance.choice(self._views[self._chance.choice(list(self._views))])

    def _nearly_right(self) -> dict[str, Any]:
        """A request of a view that there was, in which one part may be wrong."""
        chance, view = self._chance, self._view()
        kind = chance.choices(TYPES, (3, 2, 6, 1, 1, 0.2))[0]
        made: dict[str, Any] = {"type": kind, "mbean": view.name.text}
        attributes = list(view.kind.attributes)
        if kind == "read":
            made["attribute"] = chance.choice([chance.choice(attributes), attributes[:3], None])
        elif kind == "write":
            writable = [name for name in attributes if name in view.kind.writers] or attributes
            name = chance.choice(writable)
            made |= {"attribute": name, "value": self._value(view.kind.attributes[name].type)}
        elif kind == "exec":
            self._operation(view, made)
        elif kind == "list":
            made["path"] = chance.choice(
                [view.name.text.replace(":", "/", 1), "org.apache.activemq"]
            )
            made["config"] = {"maxDepth": chance.choice(_NUMBERS)}
        if chance.random() < 0.15:
            made[chance.choice(KEYS)] = chance.choice(WORDS)
        if chance.random() < 0.1:
            made["config"] = {chance.choice(["maxDepth", "ignoreErrors", "maxCollectionSize"]): 1}
        return made

    def _operation(self, view: View[Any], made: dict[str, Any]) -> None:
        names = [name for name in view.kind.operations if name not in ENDING]
        if not names:
            made["operation"] = self._chance.choice(WORDS)
            return
        operation = self._chance.choice(view.kind.operations[self._chance.choice(names)])
        short = self._chance.random() < 0.2
        made["operation"] = operation.name if short else operation.signature
        made["arguments"] = [self._value(each.type) for each in operation.parameters]

    def _value(self, java_type: str) -> Any:
        return self._chance.choice(_VALUES.get(java_type, _NUMBERS))

    def _recorded(self) -> Any:
        """A request that the real Jolokia has answered, too, in which one part may be wrong."""
        _, request = self._chance.choice(SCENARIO)
        if isinstance(request, dict) and self._chance.random() < 0.5:
            return {**request, self._chance.choice(KEYS): self._chance.choice(WORDS)}
        return request

    def _any(self) -> Any:
        """A request of random words."""
        chance = self._chance
        if chance.random() < 0.3:
            return "/" + "/".join(str(chance.choice(WORDS)) for _ in range(chance.randrange(6)))
        if chance.random() < 0.05:
            return chance.choice([each for each in WORDS if not isinstance(each, str)])
        made = {
            key: chance.choice(WORDS) for key in chance.sample(KEYS, chance.randrange(len(KEYS)))
        }
        if chance.random() < 0.8:
            made |= {"type": chance.choice(TYPES), "mbean": chance.choice([BROKER, ORDERS, OTHERS])}
        return made


def _as_path(content: dict[str, Any]) -> str | None:
    """Return the path of an equivalent GET, if there is one."""
    parts: list[Any] = [content.get("type"), content.get("mbean")]
    attribute = content.get("attribute")
    if isinstance(attribute, list):
        attribute = ",".join(str(each) for each in attribute)
    given = {"read": [attribute], "write": [attribute, content.get("value")]}
    if content.get("type") == "exec":
        arguments = content.get("arguments")
        parts += [content.get("operation"), *(arguments if isinstance(arguments, list) else [])]
    else:
        parts += given.get(str(content.get("type")), [])
    texts = ["[null]" if each is None else str(each) for each in parts]
    return f"{_PATH}/" + "/".join(each.replace("!", "!!").replace("/", "!/") for each in texts)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed, and perhaps cut."""
    made = bytearray(data)
    for _ in range(chance.randrange(4)):
        if made:
            made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made[: chance.randrange(len(made) + 1)]) if chance.random() < 0.3 else bytes(made)
