"""Signatures of public names have real types: Any is where only the application knows better."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import pyjms
import pyjms.aio

ANY = re.compile(r"\bAny\b")
CALLED = {"__init__", "__call__", "__enter__", "__aenter__", "__getitem__", "__iter__"}

PAYLOAD = "a payload whose type nobody has named, as of json.loads"
PROVIDER = "a subclass replaces a provider by one of any kind"
PASSED_ON = "checked by the class of pyjms.aio that it is passed to"
ALLOWED = {
    r"(JmsTemplate|JmsMessagingTemplate|JmsClientOperations)\.(receive|request|"
    r"send_and|convert_send_and)\w*": PAYLOAD,
    r"JmsMessagingTemplate\.send": PAYLOAD,
    r"\w*(Converter|Marshaller)\.(from_message|unmarshal|named_type)": PAYLOAD,
    r"GenericMessage\.headers|SimpleJmsHeaderMapper\.to_headers": "values of any kind, read by name",
    r"ApplicationContainer\.\w+|JmsApplication\.container": PROVIDER,
    r"Proceed\.__call__": "awaited in a coroutine function, and not in another one",
    r"PyjmsSettings\.app": "the application's own section of YAML",
    r"PyjmsSettings\.model_post_init": "pydantic's signature",
    r"RetryPolicy\.with_changes": "values of several attributes, checked by the new policy",
    r"_ContainerFactory\.__init__|_Container\.__init__|_SharingFactory\.__init__": PASSED_ON,
    r"(JmsClient|JmsMessagingTemplate)\.__init__": PASSED_ON,
    r"\w+\.(transformer|stats|connection_factory)": "as it was set: blocking or of coroutines",
    r"(Facade|SessionPart)\.call": "what a coroutine yields to its loop",
}
"""What may have Any, `class.member`, and why."""


def members(kind: type) -> Iterator[tuple[str, object]]:
    for base in kind.__mro__:
        if base.__module__.startswith("pyjms"):
            for name, value in vars(base).items():
                if not name.startswith("_") or name in CALLED:
                    yield f"{base.__qualname__}.{name}", value
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if not name.startswith("_") and ANY.search(str(annotation)):
                    yield f"{base.__qualname__}.{name}", annotation


def has_any(value: object) -> bool:
    if isinstance(value, property):
        return any(has_any(part) for part in (value.fget, value.fset) if part is not None)
    if isinstance(value, (staticmethod, classmethod)):
        return has_any(value.__func__)
    if isinstance(value, str):
        return bool(ANY.search(value))
    if not callable(value):
        return False
    try:
        signature = inspect.signature(inspect.unwrap(value))
    except (TypeError, ValueError):  # a builtin
        return False
    annotations = [p.annotation for p in signature.parameters.values()]
    return any(ANY.search(str(each)) for each in (*annotations, signature.return_annotation))


def found(module: ModuleType) -> set[str]:
    names: set[str] = set()
    for name in module.__all__:
        value = getattr(module, name)
        parts = members(value) if inspect.isclass(value) else [(name, value)]
        names |= {part for part, member in parts if has_any(member)}
    return names


@pytest.mark.parametrize("module", [pyjms, pyjms.aio], ids=["pyjms", "pyjms.aio"])
def test_public_signatures_have_types(module: ModuleType) -> None:
    allowed = [re.compile(pattern) for pattern in ALLOWED]
    unknown = {name for name in found(module) if not any(p.fullmatch(name) for p in allowed)}
    assert unknown == set()


def test_each_exception_is_in_use() -> None:
    names = found(pyjms) | found(pyjms.aio)
    assert [p for p in ALLOWED if not any(re.fullmatch(p, name) for name in names)] == []
