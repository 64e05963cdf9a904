"""The AsyncAPI document: its schema, its description of listeners, and its page."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from pydantic import BaseModel

from pyjms import JmsApplication, PyjmsSettings, jms_listener
from pyjms.asyncapi import asyncapi_document, html_page
from tests.integration.asyncapi import shop_of_documents as shop
from tests.kit.processes.forked_python import run_python

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "tests" / "data" / "asyncapi-3.0.0.json").read_text("utf-8"))
SETTINGS: dict[str, Any] = {
    "activemq": {
        "broker_url": "failover:(tcp://a:1,ssl://b)?password=hidden",
        "user": "anna",
        "password": "s3cret",
    },
    "brokers": {"reports": {"broker_url": "tcp://r:5"}},
    "jms": {"client_id": "me"},
}


def document(*targets: Any, **settings: Any) -> dict[str, Any]:
    application = JmsApplication(*targets, settings=PyjmsSettings.model_validate(settings))
    made = asyncapi_document(application, title="Shop", description="Sells.\n\nA lot.")
    jsonschema.Draft7Validator(SCHEMA).validate(made)
    for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(made)):
        found: Any = made
        for key in reference.removeprefix("#/").split("/"):
            found = found[key]
    return made


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(shop, **SETTINGS)


def test_servers_have_addresses_and_no_secrets(described: dict[str, Any]) -> None:
    servers = described["servers"]
    assert {name: each["host"] for name, each in servers.items()} == {
        "activemq-1": "a:1",
        "activemq-2": "b:61616",
        "reports": "r:5",
    }
    assert servers["activemq-1"]["bindings"]["jms"]["clientID"] == "me"
    assert "security" in servers["activemq-1"]
    assert "security" not in servers["reports"]
    for secret in ("anna", "s3cret", "hidden"):
        assert secret not in json.dumps(described) + html_page(described)


def test_channels_are_the_destinations(described: dict[str, Any]) -> None:
    channels = described["channels"]
    assert {name: each["address"] for name, each in channels.items()} == {
        "orders.new": "orders.new",
        "orders.reply": None,
        "orders.priced": "orders.priced",
        "news.topic": "news",
        f"{shop.__name__}.raw.reply": None,
        "raw": "raw",
        "batches": "batches",
    }
    assert channels["news.topic"]["x-jms-topic"] is True
    assert channels["raw"]["bindings"]["jms"]["destinationType"] == "queue"
    assert [each["$ref"] for each in channels["orders.new"]["servers"]] == [
        "#/servers/activemq-1",
        "#/servers/activemq-2",
        "#/servers/reports",
    ]
    assert set(channels["orders.new"]["messages"]) == {"orders.message", "again.message"}


def test_operations_are_the_listeners(described: dict[str, Any]) -> None:
    operations = described["operations"]
    assert {name: each["action"] for name, each in operations.items()} == {
        "orders": "receive",
        "orders.send": "send",
        "news": "receive",
        "again": "receive",
        f"{shop.__name__}.raw": "receive",
        "batches": "receive",
    }
    orders = operations["orders"]
    assert orders["title"] == "Price an order."
    assert orders["description"] == "Orders of unknown customers become dead letters."
    assert orders["x-jms-selector"] == "region = 'EU'"
    assert orders["reply"]["address"] == {"location": "$message.header#/JMSReplyTo"}
    assert operations["orders.send"]["channel"] == {"$ref": "#/channels/orders.priced"}
    assert "reply" not in operations["news"]


def test_messages_are_the_types_of_handlers(described: dict[str, Any]) -> None:
    messages = described["components"]["messages"]
    order = {"$ref": "#/components/schemas/Order"}
    assert messages["orders.message"]["payload"] == order
    assert messages["orders.message"]["headers"] == {
        "type": "object",
        "properties": {"tenant": {"type": "string"}, "jms_priority": {"type": "integer"}},
        "required": ["tenant"],
    }
    assert messages["batches.message"]["payload"] == order
    assert messages["orders.result"]["payload"] == {"$ref": "#/components/schemas/Price"}
    assert messages["news.message"]["payload"] == {"type": "string"}
    assert messages["news.message"]["contentType"] == "text/plain"
    assert messages[f"{shop.__name__}.raw.result"]["contentType"] == "application/octet-stream"
    assert "TextMessage" in messages[f"{shop.__name__}.raw.message"]["payload"]["description"]
    assert set(described["components"]["schemas"]) == {"Order", "Line", "Price"}


def test_types_of_the_same_name_are_kept_apart() -> None:
    def made(field: str) -> type:
        namespace = {"__annotations__": {field: int}, "__module__": f"shop.{field}"}
        return type("Item", (BaseModel,), namespace)

    first, second = made("a"), made("b")

    def one(item: Any) -> None: ...
    def two(item: Any) -> None: ...

    one.__annotations__["item"] = first
    two.__annotations__["item"] = second
    found = document(jms_listener("one", id="one")(one), jms_listener("two", id="two")(two))
    schemas = found["components"]["schemas"]
    assert {name: set(each["properties"]) for name, each in schemas.items()} == {
        "Item": {"a"},
        "shop.b.Item": {"b"},
    }


def test_an_application_without_listeners() -> None:
    made = document()
    assert made["operations"] == {}
    assert made["servers"]["activemq"]["host"] == "localhost"
    assert "There are none" in html_page(made)


def test_the_page_needs_nothing_else(described: dict[str, Any]) -> None:
    page = html_page(described)
    assert "What is &lt;ordered&gt;." in page
    assert "<script" not in page
    shown = page.split("<details>")[0]
    assert not re.findall(r"(?:https?:)?//|url\(|@import|<link|src=", shown)
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    assert "<p>Sells.</p>" in page


def test_the_command_line(tmp_path: Path) -> None:
    source = Path(sys.modules[shop.__name__].__file__ or "").read_text("utf-8")
    (tmp_path / "shop.py").write_text(source)
    (tmp_path / "application.yaml").write_text(yaml.safe_dump(SETTINGS))
    done = run_python("-m", "pyjms", "docs", "shop", "--output", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = ["asyncapi.yaml", "asyncapi.json", "asyncapi.html"]
    assert [Path(line).name for line in done.stdout.split()] == names
    read = yaml.safe_load((tmp_path / "out" / "asyncapi.yaml").read_text("utf-8"))
    assert read == json.loads((tmp_path / "out" / "asyncapi.json").read_text("utf-8"))
    assert read["info"]["title"] == "shop"
    jsonschema.Draft7Validator(SCHEMA).validate(read)
