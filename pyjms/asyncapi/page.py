"""The HTML page of an AsyncAPI document: a single file, without scripts."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

__all__ = ["html_page"]

Json = dict[str, Any]

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
            f'<h2 id="schemas">Schemas</h2>\n{self._shared()}'
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

    def _shared(self) -> str:
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
