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
import re
import typing
from collections.abc import Iterable
from typing import Any, Final

from pyjms.annotation.send_to import send_to_destination
from pyjms.app import JmsApplication
from pyjms.asyncapi.schemas import Schemas, content_type_of
from pyjms.jms.destination import Destination, Queue, Topic, parse_destination
from pyjms.listener.endpoint import JmsListenerEndpoint, MethodJmsListenerEndpoint
from pyjms.listener.handler.arguments import CallPlan
from pyjms.settings import ActiveMQSettings
from pyjms.transport.uri import DEFAULT_PORT, TransportURI

__all__ = ["asyncapi_document"]

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
        plan = self._application.call_plan(endpoint)
        default: type[Destination] = Topic if self._is_topic(endpoint) else Queue
        destination = parse_destination(endpoint.destination, default)
        mine = self._servers_of(endpoint, servers)
        name = _key(endpoint.id or f"{handler.__module__}.{handler.__qualname__}")
        message = self._message(f"{name}.message", _payload_type(plan), plan)
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

    def _message(self, name: str, kind: Any, plan: CallPlan | None) -> str:
        message: Json = {"name": getattr(kind, "__name__", None) or name}
        content_type = content_type_of(kind)
        if content_type is not None:
            message["contentType"] = content_type
        message["payload"] = self._schemas.of(kind)
        headers = None if plan is None else self._schemas.of_headers(plan)
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


def _payload_type(plan: CallPlan) -> Any:
    if plan.payload is not None:
        return plan.payload.hint
    kinds = (parameter.hint for parameter in plan.parameters)
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
