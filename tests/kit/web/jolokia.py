"""The requests whose answers of the real Jolokia are recorded, and how answers are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import httpx

BROKER: Final = "org.apache.activemq:type=Broker,brokerName=jolokia"
ORDERS: Final = f"{BROKER},destinationType=Queue,destinationName=orders"
OTHERS: Final = f"{BROKER},destinationType=Queue,destinationName=others"
QUEUES: Final = f"{BROKER},destinationType=Queue,destinationName=*"
HEALTH: Final = f"{BROKER},service=Health"
TEXT: Final = "sendTextMessage(java.lang.String)"
MAP_TEXT: Final = "sendTextMessage(java.util.Map,java.lang.String)"


def read(mbean: str = ORDERS, **more: Any) -> dict[str, Any]:
    return {"type": "read", "mbean": mbean, **more}


def execute(operation: str, *arguments: Any, mbean: str = ORDERS, **more: Any) -> dict[str, Any]:
    return {
        "type": "exec",
        "mbean": mbean,
        "operation": operation,
        "arguments": list(arguments),
        **more,
    }


def write(attribute: str, value: Any, mbean: str = ORDERS) -> dict[str, Any]:
    return {"type": "write", "mbean": mbean, "attribute": attribute, "value": value}


SCENARIO: Final[list[tuple[str, Any]]] = [
    ("add a queue", execute("addQueue", "orders", mbean=BROKER)),
    ("add another queue", execute("addQueue", "others", mbean=BROKER)),
    ("add a topic", execute("addTopic", "news", mbean=BROKER)),
    ("search queues", {"type": "search", "mbean": QUEUES}),
    ("search the broker", {"type": "search", "mbean": "*:type=Broker,brokerName=*"}),
    ("search nothing", {"type": "search", "mbean": "org.example:*"}),
    ("search by GET", f"/search/{QUEUES}"),
    ("read by GET", f"/read/{ORDERS}/QueueSize"),
    ("read several by GET", f"/read/{ORDERS}/QueueSize,ConsumerCount"),
    ("read with a path by GET", f"/read/{BROKER}/Queues/0/objectName"),
    ("read a name", read(attribute="Name")),
    ("read several", read(attribute=["QueueSize", "Name", "Paused"])),
    ("read one of a list", read(attribute=["QueueSize"])),
    ("read none of a list", read(attribute=[])),
    ("read object names", read(BROKER, attribute="Queues")),
    ("read a map", read(BROKER, attribute="TransportConnectors")),
    ("read with a path", read(BROKER, attribute="Queues", path="0/objectName")),
    ("read with a path that is missing", read(BROKER, attribute="Queues", path="9")),
    ("read with a path into a number", read(attribute="QueueSize", path="x")),
    ("read of all queues", read(QUEUES, attribute="QueueSize")),
    ("read several of all queues", read(QUEUES, attribute=["QueueSize", "Name"])),
    ("read what some queues lack", read(f"{BROKER},*", attribute="Paused")),
    ("read what no queue has", read(QUEUES, attribute="Weight")),
    ("read with a pattern that nothing matches", read("org.example:*", attribute="X")),
    ("read all attributes", read()),
    ("read all attributes of the broker", read(BROKER)),
    ("send", execute(TEXT, "first")),
    ("send without signature", execute("sendTextMessage", "first")),
    ("send with headers", execute(MAP_TEXT, {"JMSPriority": "7", "colour": "red"}, "second")),
    ("send too few arguments", execute(TEXT)),
    ("send too many arguments", execute(TEXT, "a", "b")),
    ("send with an unknown signature", execute("sendTextMessage(int)", 1)),
    ("send by GET", f"/exec/{ORDERS}/{TEXT}/third%20message"),
    ("send a slash by GET", f"/exec/{ORDERS}/{TEXT}/a!!b!/c"),
    ("count", read(attribute="QueueSize")),
    ("browse", execute("browse()")),
    ("browse with a selector", execute("browse(java.lang.String)", "colour = 'red'")),
    ("browse as a table", execute("browseAsTable()")),
    (
        "copy what matches",
        execute(
            "copyMatchingMessagesTo(java.lang.String,java.lang.String)", "colour = 'red'", "others"
        ),
    ),
    ("count copies", read(OTHERS, attribute="QueueSize")),
    (
        "move what matches",
        execute(
            "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "colour = 'red'", "others"
        ),
    ),
    (
        "remove what matches",
        execute("removeMatchingMessages(java.lang.String)", "JMSPriority = 7", mbean=OTHERS),
    ),
    ("remove no message", execute("removeMessage(java.lang.String)", "ID:none")),
    ("get no message", execute("getMessage", "ID:none")),
    ("purge", execute("purge")),
    ("count after the purge", read(attribute=["QueueSize", "EnqueueCount"])),
    ("pause", execute("pause")),
    ("paused", read(attribute="Paused")),
    ("resume", execute("resume")),
    ("write a number", write("MemoryLimit", 12345678)),
    ("write text", write("MemoryLimit", "23456789")),
    ("write by GET", f"/write/{ORDERS}/MemoryLimit/34567890"),
    ("written", read(attribute="MemoryLimit")),
    ("write a wrong type", write("MemoryLimit", "much")),
    ("write what cannot be written", write("QueueSize", 1)),
    ("write what is missing", write("Weight", 1)),
    ("read what is missing", read(attribute="Weight")),
    (
        "read of a missing bean",
        read(f"{BROKER},destinationType=Queue,destinationName=none", attribute="QueueSize"),
    ),
    ("read with a malformed name", read("orders", attribute="QueueSize")),
    ("execute what is missing", execute("fly")),
    (
        "execute on a missing bean",
        execute("purge", mbean=f"{BROKER},destinationType=Queue,destinationName=none"),
    ),
    ("execute what fails", execute("browse(java.lang.String)", "colour =")),
    ("list a bean", {"type": "list", "path": f"{ORDERS.replace(':', '/', 1)}/attr/QueueSize"}),
    ("list an operation", {"type": "list", "path": f"{ORDERS.replace(':', '/', 1)}/op/pause"}),
    (
        "list overloaded operations",
        {"type": "list", "path": f"{ORDERS.replace(':', '/', 1)}/op/browse"},
    ),
    ("list by GET", f"/list/{ORDERS.replace(':', '/', 1)}/desc"),
    ("list to a depth", {"type": "list", "path": "org.apache.activemq", "config": {"maxDepth": 1}}),
    ("list what is missing", {"type": "list", "path": "org.example"}),
    ("a type that is missing", {"type": "fly", "mbean": ORDERS}),
    ("no type", {"mbean": ORDERS}),
    ("no name", {"type": "read"}),
    ("no operation", {"type": "exec", "mbean": ORDERS}),
    ("several", [read(attribute="QueueSize"), read("org.example:a=b"), {"type": "version"}]),
    ("none of several", []),
    ("a number of several", [1]),
    ("browse nothing as a table", execute("browseAsTable()")),
    ("warnings as a table", execute("health", mbean=HEALTH)),
    ("warnings as a list", execute("healthList", mbean=HEALTH)),
    ("the state of health", read(HEALTH)),
    (
        "read the memory of the process",
        read(
            "java.lang:type=Memory",
            attribute=["HeapMemoryUsage", "NonHeapMemoryUsage", "ObjectPendingFinalizationCount"],
        ),
    ),
    ("read a part of it by GET", "/read/java.lang:type=Memory/HeapMemoryUsage/used"),
    (
        "read the threads",
        read(
            "java.lang:type=Threading",
            attribute=[
                *("ThreadCount", "DaemonThreadCount", "PeakThreadCount"),
                "TotalStartedThreadCount",
            ],
        ),
    ),
    (
        "read the machine",
        read(
            "java.lang:type=OperatingSystem",
            attribute=[
                *("ProcessCpuLoad", "SystemCpuLoad", "SystemLoadAverage", "ProcessCpuTime"),
                *("AvailableProcessors", "TotalPhysicalMemorySize", "FreePhysicalMemorySize"),
                *("OpenFileDescriptorCount", "MaxFileDescriptorCount", "Name", "Version", "Arch"),
            ],
        ),
    ),
    (
        "read the runtime",
        read(
            "java.lang:type=Runtime",
            attribute=["Uptime", "StartTime", "Name", "Pid", "VmName", "VmVersion"],
        ),
    ),
    ("read what one of them has", read("java.lang:type=*", attribute="Uptime")),
    ("list their domain", {"type": "list", "path": "java.lang/type=Memory/attr/HeapMemoryUsage"}),
    ("remove a queue", execute("removeQueue", "orders", mbean=BROKER)),
    ("read of the removed queue", read(attribute="QueueSize")),
]
"""The requests by name, in order: a path for GET, or a body for POST."""


def ask(url: str) -> Iterator[dict[str, Any]]:
    """Send the requests of the scenario; yield name, status and answer of each."""
    with httpx.Client(timeout=30, verify=False) as client:
        for name, request in SCENARIO:
            if isinstance(request, str):
                answer = client.get(url + request)
            else:
                answer = client.post(f"{url}/", content=json.dumps(request))
            content = json.loads(answer.content) if answer.content else None
            yield {"name": name, "status": answer.status_code, "answer": content}


_VARIABLE: Final = re.compile(r"ID:[^\s\"']+|ID_[^\s\"',]+")
_OMITTED: Final = frozenset({"timestamp", "stacktrace"})


def shape(value: Any) -> Any:
    """Return an answer without what differs from run to run: times and ids."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items() if name not in _OMITTED}
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, str):
        return _VARIABLE.sub("ID", value)
    return value


def recordable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as recorded, without parts that differ between runs and machines."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            removed = (
                ("config", "DataDirectory") if "protocol" in value or "BrokerId" in value else ()
            )
            return {
                _VARIABLE.sub("ID", k): cleaned(v) for k, v in value.items() if k not in removed
            }
        return [cleaned(each) for each in value] if isinstance(value, list) else value

    return {**answer, "answer": cleaned(shape(answer["answer"]))}


def structure(value: Any) -> Any:
    """Return the keys and types of an answer, of which null is one."""
    if isinstance(value, dict):
        return {name: structure(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [structure(each) for each in value]
    if isinstance(value, bool):
        return "boolean"
    if value is None or isinstance(value, str):
        return type(value).__name__
    return "number"
