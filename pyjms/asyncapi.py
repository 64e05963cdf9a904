"""The AsyncAPI 3.0 document of an application: what its listeners receive and send.

It is generated from the settings and the handlers, without connecting anywhere:

    servers      the brokers of the settings, without users and passwords
    channels     the destinations of listeners and @send_to, and a channel for replies
    operations   `receive` for each listener, with its reply; `send` for each @send_to
    messages     the types of a handler's payload and of its result
    bindings     jms 0.0.1; its `destinationType` cannot be a topic, so topics have `x-jms-topic`

What handlers send with a template cannot be seen in their signatures. (AsyncAPI 3.0.0)
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterable
from html import escape
from typing import Any, Final

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from pyjms.app.application import JmsApplication
from pyjms.jms.destination import Destination, Queue, Topic, parse_destination
from pyjms.jms.message import Message
from pyjms.listener.decorators import Header, send_to_destination
from pyjms.listener.endpoint import JmsListenerEndpoint, MethodJmsListenerEndpoint
from pyjms.listener.handler import HandlerListener
from pyjms.settings import ActiveMQSettings
from pyjms.transport.uri import DEFAULT_PORT, TransportURI

__all__ = ["Schemas", "asyncapi_document", "content_type_of", "html_page"]

_REFERENCE: Final = "#/components/schemas/{model}"
_BINARY: Final = (bytes, bytearray, memoryview)


class Schemas:
    """The JSON schemas of one document; those of named types are shared."""

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}
        """The contents of `#/components/schemas`."""

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type; {} (anything) if there is none."""
        if kind is None or kind in {Any, object}:
            return {}
        if isinstance(kind, type) and issubclass(kind, Message):
            return {"description": f"A {kind.__name__}, as it comes."}
        module = f"{getattr(kind, '__module__', 'other')}."
        try:
            adapter = TypeAdapter(kind)
            return self._add(adapter, kind, "") or self._add(adapter, kind, module) or {}
        except (PydanticUserError, PydanticInvalidForJsonSchema):
            return {"description": f"A {kind!r}."}

    def _add(self, adapter: TypeAdapter[Any], kind: Any, prefix: str) -> dict[str, Any] | None:
        """Return a type's schema; None: another type has the same name and there is no prefix."""
        schema = adapter.json_schema(ref_template=_REFERENCE.format(model=f"{prefix}{{model}}"))
        named = {f"{prefix}{name}": each for name, each in schema.pop("$defs", {}).items()}
        name = f"{prefix}{kind.__name__}" if isinstance(kind, type) else ""
        if name and schema.get("type") == "object" and "properties" in schema:
            named[name] = schema
            schema = {"$ref": _REFERENCE.format(model=name)}
        if not prefix and any(self.shared.get(key, each) != each for key, each in named.items()):
            return None
        self.shared |= named
        return schema

    def of_headers(self, listener: HandlerListener) -> dict[str, Any] | None:
        """Return the schema of the properties that a handler reads; None: it reads none."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in listener.parameters:
            header = parameter.marker(Header)
            if header is None:
                continue
            name = header.name or parameter.name
            properties[name] = self.of(parameter.hint)
            if header.required and not parameter.keeps_default:
                required.append(name)
        if not properties:
            return None
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return schema


def content_type_of(kind: Any) -> str | None:
    """Return the content type of a payload of this type; None: unknown."""
    if kind is None or kind in {Any, object}:
        return None
    if kind is str:
        return "text/plain"
    if kind in _BINARY:
        return "application/octet-stream"
    if isinstance(kind, type) and issubclass(kind, Message):
        return None
    return "application/json"


_BINDING: Final = "0.0.1"
_FACTORY: Final = "org.apache.activemq.ActiveMQConnectionFactory"
_MAIN: Final = "activemq"
_NOT_IN_A_KEY: Final = re.compile(r"[^A-Za-z0-9._-]+")

Json = dict[str, Any]


def asyncapi_document(
    application: JmsApplication, *, title: str, version: str = "1.0.0", description: str = ""
) -> Json:
    """Return the document of an application, which need not be running.

    Args:
        application: the application whose settings and handlers are described.
        title: the application's name.
        version: the application's version.
        description: a description of the application, in CommonMark.

    Raises:
        ConfigurationException: as for `JmsApplication.check`.
    """
    return _Document(application).build(title, version, description)


class _Document:
    def __init__(self, application: JmsApplication) -> None:
        self._application = application
        self._settings = application.settings
        self._schemas = Schemas()
        self._channels: Json = {}
        self._operations: Json = {}
        self._messages: Json = {}

    def build(self, title: str, version: str, description: str) -> Json:
        servers = self._servers()
        for endpoint in self._application.endpoints():
            self._add(endpoint, servers)
        info: Json = {"title": title, "version": version}
        if description:
            info["description"] = description
        document: Json = {
            "asyncapi": "3.0.0",
            "info": info,
            "defaultContentType": "application/json",
            "servers": servers,
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas.shared},
        }
        if any(_has_login(each) for each in self._brokers().values()):
            document["components"]["securitySchemes"] = {"user": {"type": "userPassword"}}
        return document

    def _brokers(self) -> dict[str, ActiveMQSettings]:
        return {_MAIN: self._settings.activemq, **self._settings.brokers}

    def _servers(self) -> Json:
        servers: Json = {}
        for name, broker in self._brokers().items():
            uri = TransportURI.parse(broker.effective_broker_url())
            places = list(_places(uri)) or [uri]
            for number, place in enumerate(places, 1):
                key = _key(name) if len(places) == 1 else f"{_key(name)}-{number}"
                servers[key] = self._server(place, broker, is_main=name == _MAIN)
        return servers

    def _server(self, uri: TransportURI, broker: ActiveMQSettings, *, is_main: bool) -> Json:
        is_embedded = uri.scheme == "vm"
        binding: Json = {"jmsConnectionFactory": _FACTORY, "bindingVersion": _BINDING}
        if is_main and self._settings.jms.client_id:
            binding["clientID"] = self._settings.jms.client_id
        server: Json = {
            "host": "localhost"
            if is_embedded or not uri.host
            else f"{uri.host}:{uri.port or DEFAULT_PORT}",
            "protocol": "jms",
            "description": "A broker inside the application."
            if is_embedded
            else f"OpenWire over {uri.scheme}",
            "bindings": {"jms": binding},
        }
        if _has_login(broker):
            server["security"] = [{"$ref": "#/components/securitySchemes/user"}]
        return server

    def _add(self, endpoint: JmsListenerEndpoint, servers: Json) -> None:
        if not isinstance(endpoint, MethodJmsListenerEndpoint):
            return
        handler = endpoint.handler
        listener = self._application.wiring.handler_listener(endpoint)
        default: type[Destination] = Topic if self._is_topic(endpoint) else Queue
        destination = parse_destination(endpoint.destination, default)
        mine = self._servers_of(endpoint, servers)
        name = _key(endpoint.id or f"{handler.__module__}.{handler.__qualname__}")
        message = self._message(f"{name}.message", _payload_type(listener), listener)
        channel = self._channel(destination, mine, [message])
        operation: Json = {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }
        title, text = _texts(handler)
        operation |= {k: v for k, v in (("title", title), ("description", text)) if v}
        operation |= _extensions(endpoint)
        self._operations[self._new_operation(name)] = operation
        result = _result_type(handler)
        if result is not None:
            self._add_result(name, operation, result, send_to_destination(handler), mine, default)

    def _add_result(
        self,
        name: str,
        operation: Json,
        result: Any,
        send_to: str | None,
        servers: list[str],
        default: type[Destination],
    ) -> None:
        message = self._message(f"{name}.result", result, None)
        replies = f"{name}.reply"
        self._channels[replies] = {
            "address": None,
            "description": "The destination that a request names for its reply.",
            "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        }
        operation["reply"] = {
            "address": {"location": "$message.header#/JMSReplyTo"},
            "channel": {"$ref": f"#/channels/{replies}"},
            "messages": [{"$ref": f"#/channels/{replies}/messages/{message}"}],
        }
        if send_to is None:
            return
        destination = parse_destination(self._settings.resolve_placeholders(send_to), default)
        channel = self._channel(destination, servers, [message])
        self._operations[self._new_operation(f"{name}.send")] = {
            "action": "send",
            "description": f"The result of {name}, for a message without a reply destination.",
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }

    def _channel(
        self, destination: Destination, servers: list[str], messages: Iterable[str]
    ) -> str:
        is_topic = destination.is_topic
        key = _key(destination.physical_name) + (".topic" if is_topic else "")
        binding: Json = {"destination": destination.physical_name, "bindingVersion": _BINDING}
        if not is_topic:
            binding["destinationType"] = "queue"
        channel = self._channels.setdefault(
            key,
            {
                "address": destination.physical_name,
                "title": f"{'Topic' if is_topic else 'Queue'} {destination.physical_name}",
                "servers": [],
                "messages": {},
                "bindings": {"jms": binding},
            },
        )
        if is_topic:
            channel["x-jms-topic"] = True
        for server in servers:
            reference = {"$ref": f"#/servers/{server}"}
            if reference not in channel["servers"]:
                channel["servers"].append(reference)
        for message in messages:
            channel["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        return key

    def _message(self, name: str, kind: Any, listener: HandlerListener | None) -> str:
        message: Json = {"name": getattr(kind, "__name__", None) or name}
        content_type = content_type_of(kind)
        if content_type is not None:
            message["contentType"] = content_type
        message["payload"] = self._schemas.of(kind)
        headers = None if listener is None else self._schemas.of_headers(listener)
        if headers is not None:
            message["headers"] = headers
        message["bindings"] = {"jms": {"bindingVersion": _BINDING}}
        message["correlationId"] = {
            "location": "$message.header#/JMSCorrelationID",
            "description": "That of the request, in a reply.",
        }
        self._messages[name] = message
        return name

    def _new_operation(self, name: str) -> str:
        found, number = name, 2
        while found in self._operations:
            found, number = f"{name}-{number}", number + 1
        return found

    def _is_topic(self, endpoint: JmsListenerEndpoint) -> bool:
        own = endpoint.properties.get("pub_sub_domain")
        default = self._settings.jms.pub_sub_domain or self._settings.jms.subscription_durable
        return bool(endpoint.durable or (default if own is None else own))

    def _servers_of(self, endpoint: JmsListenerEndpoint, servers: Json) -> list[str]:
        own = endpoint.container_factory
        name = _key(own if own in self._settings.brokers else _MAIN)
        return [key for key in servers if key == name or re.fullmatch(rf"{name}-\d+", key)]


def _places(uri: TransportURI) -> Iterable[TransportURI]:
    """Yield the URLs of the individual brokers in a composite URL."""
    for component in uri.components:
        if component.components:
            yield from _places(component)
        else:
            yield component


def _has_login(broker: ActiveMQSettings) -> bool:
    return broker.effective_user() is not None


def _key(text: str) -> str:
    """Return text as a key that references can name without escapes."""
    return _NOT_IN_A_KEY.sub("_", text) or "_"


def _payload_type(listener: HandlerListener) -> Any:
    if listener.payload is not None:
        return listener.payload.hint
    kinds = (parameter.hint for parameter in listener.parameters)
    return next((k for k in kinds if "Message" in getattr(k, "__name__", "")), None)


def _result_type(handler: Any) -> Any:
    """Return the type that a handler returns; None: nothing is sent."""
    function = inspect.unwrap(handler)
    result = typing.get_type_hints(getattr(function, "__func__", function)).get("return")
    if result is None or result is type(None) or getattr(result, "__name__", "") == "JmsResponse":
        return None
    members = [each for each in typing.get_args(result) if each is not type(None)]
    is_optional = len(members) == 1 and type(None) in typing.get_args(result)
    return members[0] if is_optional else result


def _texts(handler: Any) -> tuple[str, str]:
    """Return the first line of a handler's docstring, and the rest."""
    title, _, text = (inspect.getdoc(handler) or "").partition("\n")
    return title.strip(), text.strip()


def _extensions(endpoint: JmsListenerEndpoint) -> Json:
    """Return the properties of a listener for which AsyncAPI has no field."""
    found = {
        "x-jms-selector": endpoint.selector,
        "x-jms-subscription": endpoint.subscription,
        "x-jms-durable": endpoint.durable,
        "x-concurrency": endpoint.concurrency,
    }
    return {name: value for name, value in found.items() if value is not None}


_DEEPEST: Final = 8
"""Levels of nested schemas that are shown; recursive types end there."""

_STYLE: Final = """
:root { --ink: #1c2430; --quiet: #5b6675; --line: #d9dfe7; --ground: #fff; --raised: #f5f7fa;
  --receive: #14653b; --send: #1d4f91; --code: #8a2d0f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --quiet: #9aa5b4; --line: #343d4a;
  --ground: #14181e; --raised: #1c222b; --receive: #6fd49a; --send: #86b8ff; --code: #ffb08a; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--ground);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
.page { display: grid; grid-template-columns: 16rem minmax(0, 1fr); max-width: 78rem;
  margin: 0 auto; }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto;
  padding: 2rem 1rem; font-size: .9rem; }
nav a { display: block; padding: .15rem .5rem; border-radius: 4px; overflow-wrap: anywhere; }
nav a:hover { background: var(--raised); }
nav b { display: block; margin: 1rem .5rem .25rem; color: var(--quiet); font-weight: 600; }
main { padding: 2rem 1.5rem 5rem; border-left: 1px solid var(--line); min-width: 0; }
a { color: inherit; text-decoration: none; }
main a { text-decoration: underline; text-decoration-color: var(--line); }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.25rem; }
h3 { margin: 0; font-size: 1.05rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; }
.quiet { color: var(--quiet); }
code { font: .9em ui-monospace, "Cascadia Mono", Menlo, monospace; overflow-wrap: anywhere; }
article { margin: 1rem 0; padding: 1rem 1.25rem; border: 1px solid var(--line);
  border-radius: 8px; }
article > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .6rem; }
.action { font-size: .75rem; font-weight: 700; letter-spacing: .04em; text-transform: uppercase;
  color: var(--receive); }
.action.send { color: var(--send); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th { color: var(--quiet); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem 1rem;
  margin: .6rem 0; font-size: .92rem; }
dt { color: var(--quiet); }
dd { margin: 0; }
ul.schema { margin: .25rem 0 .25rem .35rem; padding: 0 0 0 1rem; list-style: none;
  border-left: 1px solid var(--line); font-size: .92rem; }
ul.schema li { padding: .12rem 0; }
.type { color: var(--code); }
.required { font-size: .78rem; color: var(--quiet); border: 1px solid var(--line);
  border-radius: 4px; padding: 0 .3rem; }
td code { white-space: nowrap; }
pre { margin: .5rem 0; padding: .75rem 1rem; background: var(--raised); border-radius: 6px;
  overflow-x: auto; font: .85rem/1.45 ui-monospace, Menlo, monospace; }
summary { cursor: pointer; color: var(--quiet); font-size: .9rem; }
@media (max-width: 48rem) { .page { display: block; } nav { position: static; max-height: none;
  border-bottom: 1px solid var(--line); } main { border: 0; } }
@media print { nav { display: none; } .page { display: block; } main { border: 0; } }
"""


def html_page(document: Json) -> str:
    """Return the page of a document from `asyncapi_document`."""
    return _Page(document).text()


class _Page:
    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas: Json = document["components"]["schemas"]
        self._messages: Json = document["components"]["messages"]

    def text(self) -> str:
        info = self._document["info"]
        title = escape(info["title"])
        description = info.get("description", "")
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            f'<div class="page">\n{self._navigation()}<main>\n'
            f'<h1>{title}</h1>\n<p class="quiet">Version {escape(info["version"])}</p>\n'
            f"{_paragraphs(description)}"
            f'<h2 id="servers">Servers</h2>\n{self._servers()}'
            f'<h2 id="operations">Operations</h2>\n{self._operations()}'
            f'<h2 id="schemas">Schemas</h2>\n{self._schemas_section()}'
            f"<details><summary>AsyncAPI {escape(self._document['asyncapi'])} document"
            f"</summary><pre>{escape(json.dumps(self._document, indent=2, ensure_ascii=False))}"
            "</pre></details>\n</main>\n</div>\n</body>\n</html>\n"
        )

    def _navigation(self) -> str:
        operations = "".join(
            f'<a href="#operation-{escape(name)}">{escape(name)}</a>'
            for name in self._document["operations"]
        )
        schemas = "".join(
            f'<a href="#schema-{escape(name)}">{escape(name)}</a>' for name in self._schemas
        )
        return (
            '<nav aria-label="Contents"><a href="#servers">Servers</a><b>Operations</b>'
            f"{operations}<b>Schemas</b>{schemas}</nav>\n"
        )

    def _servers(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td><code>{escape(server['host'])}</code></td>"
            f"<td>{escape(server['description'])}</td>"
            f"<td>{'user and password' if 'security' in server else ''}</td></tr>"
            for name, server in self._document["servers"].items()
        )
        return (
            '<div class="scroll"><table><thead><tr><th>Name</th><th>Host</th><th>Protocol</th>'
            f"<th>Login</th></tr></thead><tbody>{rows}</tbody></table></div>\n"
        )

    def _operations(self) -> str:
        found = self._document["operations"]
        if not found:
            return '<p class="quiet">There are none.</p>\n'
        return "".join(self._operation(name, each) for name, each in found.items())

    def _operation(self, name: str, operation: Json) -> str:
        channel = self._channel(operation["channel"])
        action = operation["action"]
        facts = {"Destination": f"<code>{escape(channel.get('title') or '')}</code>"}
        for key, label in (
            ("x-jms-selector", "Selector"),
            ("x-jms-subscription", "Subscription"),
            ("x-jms-durable", "Durable"),
            ("x-concurrency", "Consumers"),
        ):
            if key in operation:
                facts[label] = f"<code>{escape(str(operation[key]))}</code>"
        listed = "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in facts.items())
        reply = operation.get("reply")
        replies = ""
        if reply is not None:
            inner = self._messages_of(reply["messages"])
            replies = f"<p><b>Reply</b>, to the destination that the message names</p>{inner}"
        return (
            f'<article id="operation-{escape(name)}"><header>'
            f'<span class="action {escape(action)}">{escape(action)}</span>'
            f"<h3>{escape(name)}</h3></header>\n"
            f"{_paragraphs(operation.get('title', ''))}"
            f"{_paragraphs(operation.get('description', ''))}<dl>{listed}</dl>\n"
            f"{self._messages_of(operation['messages'])}{replies}</article>\n"
        )

    def _channel(self, reference: Json) -> Json:
        channel: Json = self._document["channels"][reference["$ref"].rpartition("/")[2]]
        return channel

    def _messages_of(self, references: list[Json]) -> str:
        found = [self._messages[each["$ref"].rpartition("/")[2]] for each in references]
        return "".join(self._message(message) for message in found)

    def _message(self, message: Json) -> str:
        kind = message.get("contentType")
        label = f' <span class="quiet">{escape(kind)}</span>' if kind else ""
        headers = ""
        if "headers" in message:
            headers = f"<p>Properties</p>{self._members(message['headers'], 0)}"
        payload = self._schema(message["payload"], 0)
        return f"<p><b>{escape(message['name'])}</b>{label}</p>{payload}{headers}\n"

    def _schemas_section(self) -> str:
        if not self._schemas:
            return '<p class="quiet">There are none.</p>\n'
        return "".join(
            f'<article id="schema-{escape(name)}"><header><h3>{escape(name)}</h3></header>'
            f"{_paragraphs(schema.get('description', ''))}{self._schema(schema, 0)}</article>\n"
            for name, schema in self._schemas.items()
        )

    def _schema(self, schema: Json, depth: int) -> str:
        """Return a schema as a list of its members, or as one line."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            members = self._members(self._schemas.get(name, {}), depth)
            link = f'<a href="#schema-{escape(name)}">{escape(name)}</a>'
            return members or f'<ul class="schema"><li>{link}</li></ul>'
        if schema.get("properties"):
            return self._members(schema, depth)
        return f'<ul class="schema"><li>{_type_of(schema)}{_notes(schema)}</li></ul>'

    def _members(self, schema: Json, depth: int) -> str:
        if depth >= _DEEPEST or not schema.get("properties"):
            return ""
        required = set(schema.get("required", ()))
        items = "".join(
            f"<li><code>{escape(name)}</code> {_type_of(each)}"
            f"{' <span class=required>required</span>' if name in required else ''}"
            f"{_notes(each)}"
            f"{self._inner(each, depth)}</li>"
            for name, each in schema["properties"].items()
        )
        return f'<ul class="schema">{items}</ul>'

    def _inner(self, schema: Json, depth: int) -> str:
        """Return the members of a schema's items, only alternative, or referenced schema."""
        inner = schema.get("items", schema)
        alternatives = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(alternatives) == 1:
            inner = alternatives[0].get("items", alternatives[0])
        if not isinstance(inner, dict) or (inner is schema and "$ref" not in inner):
            return ""
        if "$ref" in inner:
            inner = self._schemas.get(inner["$ref"].rpartition("/")[2], {})
        return self._members(inner, depth + 1)


def _paragraphs(text: str) -> str:
    return "".join(
        f"<p>{escape(part.strip())}</p>\n" for part in text.split("\n\n") if part.strip()
    )


def _type_of(schema: Json) -> str:
    return f'<span class="type">{_type_text(schema)}</span>'


def _type_text(schema: Json) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return escape(" | ".join(json.dumps(value, ensure_ascii=False) for value in values))
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " | ".join(_type_text(each) for each in schema[key])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    form = schema.get("format")
    return escape(f"{kind} ({form})" if form else str(kind))


_LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "default": "default {}",
}


def _notes(schema: Json) -> str:
    """Return a schema's description and limits."""
    limits = "; ".join(
        text.format(json.dumps(schema[key], ensure_ascii=False))
        for key, text in _LIMITS.items()
        if key in schema
    )
    description = schema.get("description", "")
    text = f"{description} ({limits})" if description and limits else description or limits
    return f' <span class="quiet">{escape(text)}</span>' if text else ""
