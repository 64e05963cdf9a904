"""Scripts of STOMP frames with the answers of ActiveMQ 5.17.2, played to any broker.

A file has several scripts. A line of a script is one of

    == NAME                           begins a script
    # TEXT                            a comment
    > CLIENT COMMAND headers | body   a frame that a client sends
    > CLIENT OPEN headers             connects, with a CONNECT frame that succeeds
    > CLIENT RAW b'...'               bytes that a client sends; {x*9} stands for x nine times
    > CLIENT CLOSE                    the client closes its socket
    > jms SEND destination, kind, body[, properties]
    > jms RECEIVE destination         one message, with a JMS client
    > jms REPLY destination, text     receives one and answers it at its JMSReplyTo
    < CLIENT COMMAND headers | body   what ActiveMQ answers to the step above
    = CLIENT COMMAND headers | body   what this broker answers, where it differs on purpose

Headers are `name:value; name:value`, bodies Python literals. `%` in a step is a name that no other
script has, `$1.ack` the header `ack` of the first MESSAGE that the client got, `$b1.ack` of client
b's. Ids and times are left out of answers.

`python -m tests.kit.stomp.scripts STOMP_PORT OPENWIRE_URL FILE...` writes the answers of a broker
into files.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteStream

from pyjms.client.factory import ConnectionFactory
from tests.kit.stomp.jms_client import JmsPeer

QUIET = 0.3
"""Seconds after which a broker that is recorded has answered."""
LIMIT = 5
DAY = 86_400_000
ESCAPES = {"\\c": ":", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
IDENTIFIER = re.compile(r"ID:[^\s,;\"<>?]+")
MESSAGE_ID = re.compile(r"message-id \[.*?\]")
CLIENT_PORT = re.compile(r"(?<=from )\w+://127\.0\.0\.1:\d+")
COUNTS = re.compile(r"((?:commandId|sessionId|lastDeliveredSequenceId)(?:\":|>))-?\d+")
BROKER_URL = re.compile(r"((?:originBrokerURL:|clientIp(?:\":\"|>)))[^;\"<]+")
REPEATED = re.compile(rb"\{(.+?)\*(\d+)\}", re.DOTALL)
REFERENCE = re.compile(r"\$([a-z]*)(\d+)\.([\w-]+)")


@dataclass
class Step:
    """One line to play, and its answers."""

    line: str
    answers: list[str] = field(default_factory=list)
    ours: list[str] | None = None
    comments: list[str] = field(default_factory=list)

    @property
    def expected(self) -> list[str]:
        """What this broker answers."""
        return self.answers if self.ours is None else [x for x in self.ours if x != "nothing"]


@dataclass
class Script:
    """The steps of one script."""

    name: str
    steps: list[Step] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


def read_scripts(path: Path) -> list[Script]:
    """Return the scripts of a file."""
    scripts: list[Script] = []
    comments: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        match mark:
            case "==":
                scripts.append(Script(rest, comments=comments))
                comments = []
            case ">":
                scripts[-1].steps.append(Step(rest, comments=comments))
                comments = []
            case "<":
                scripts[-1].steps[-1].answers.append(rest)
            case "=":
                step = scripts[-1].steps[-1]
                step.ours = [*(step.ours or []), rest]
            case "#":
                comments.append(rest)
            case "":
                pass
            case _:
                raise ValueError(f"{path}: {line}")
    return scripts


def write_scripts(path: Path, scripts: Sequence[Script]) -> None:
    """Write scripts as `read_scripts` reads them."""
    lines: list[str] = []
    for script in scripts:
        lines += ["", *(f"# {c}" for c in script.comments), f"== {script.name}"]
        for step in script.steps:
            lines += [*(f"# {c}" for c in step.comments), f"> {step.line}"]
            lines += [f"< {answer}" for answer in step.answers]
            lines += [f"= {answer}" for answer in step.ours or []]
    path.write_text("\n".join(lines[1:]) + "\n", encoding="utf-8")


class RawStomp:
    """A client of STOMP written for scripts only: it shares no code with the broker."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.buffer = b""
        self.closed = False
        self.connected = False
        self.escapes = False
        self.messages: list[dict[str, str]] = []

    async def send(self, command: str, headers: dict[str, str], body: bytes) -> None:
        escape = command not in {"CONNECT", "STOMP"} and self.escapes
        lines = [command, *(self.header(k, v, escape) for k, v in headers.items())]
        await self.stream.send("\n".join(lines).encode() + b"\n\n" + body + b"\0\n")

    def header(self, name: str, value: str, escape: bool) -> str:
        if not escape:
            return f"{name}:{value}"
        parts = []
        for text in (name, value):
            escaped = text.replace("\\", "\\\\").replace(":", "\\c").replace("\n", "\\n")
            parts.append(escaped.replace("\r", "\\r"))
        return ":".join(parts)

    async def fill(self, limit: float) -> bool:
        """Read once; False: nothing came within `limit` seconds, or the connection has ended."""
        if self.closed:
            return False
        with anyio.move_on_after(limit):
            try:
                self.buffer += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.closed = True
            return True
        return False

    def take(self) -> tuple[str, dict[str, str], bytes] | None:
        """Return a complete frame of the buffer, if there is one."""
        self.buffer = self.buffer.lstrip(b"\n")
        head, found, rest = self.buffer.partition(b"\n\n")
        if not found:
            return None
        command, *lines = head.decode().split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            if self.escapes and command != "CONNECTED":
                name, value = (
                    re.sub(r"\\[cnr\\]", lambda m: ESCAPES[m.group()], text)
                    for text in (name, value)
                )
            headers.setdefault(name, value)
        length = headers.get("content-length")
        end = rest.find(b"\0") if length is None else int(length)
        if end < 0 or len(rest) <= end:
            return None
        assert rest[end : end + 1] == b"\0"
        self.buffer = rest[end + 1 :]
        if command == "MESSAGE":
            self.messages.append(headers)
        elif command == "CONNECTED":
            self.connected = True
            self.escapes = headers["version"] != "1.0"
        return command, headers, rest[:end]


class Player:
    """Plays scripts to one broker: its STOMP port, and its URL for JMS clients."""

    def __init__(self, port: int, url: str, *, quiet: float | None = None) -> None:
        """Create it; with `quiet`, nothing may arrive for this number of seconds after the last answer."""
        self._port = port
        self._url = url
        self._quiet = quiet
        self._clients: dict[str, RawStomp] = {}

    async def play(self, script: Script, unique: str) -> list[list[str]]:
        """Return the answers to each step; a last list has what came in the end beside them."""
        self._clients = {}
        connection = await ConnectionFactory(self._url).create_connection()
        found = []
        awaited = 0  # answers to this step, and to earlier ones if a slow broker has not sent them
        async with connection:
            await connection.start()
            jms = JmsPeer(connection)
            try:
                for step in script.steps:
                    awaited += len(step.expected if self._quiet is None else step.answers)
                    lines = await self._step(step, unique, jms, awaited)
                    awaited = 0 if self._quiet is None else max(0, awaited - len(lines))
                    found.append([normalised(line, unique) for line in lines])
                if self._quiet is None:
                    found.append([normalised(x, unique) for x in await self._rest()])
            finally:
                for client in self._clients.values():
                    await anyio.aclose_forcefully(client.stream)
        return found

    async def _step(self, step: Step, unique: str, jms: JmsPeer, awaited: int) -> list[str]:
        name, command, rest = [*step.line.replace("%", unique).split(" ", 2), ""][:3]
        rest = REFERENCE.sub(lambda match: self._header(name, match), rest)
        if name == "jms":
            answer = await jms.do(command, rest)
            return [f"jms {answer}"] if answer else await self._answers(awaited)
        if name not in self._clients:
            self._clients[name] = RawStomp(await anyio.connect_tcp("127.0.0.1", self._port))
        client = self._clients[name]
        if command == "RAW":
            await client.stream.send(REPEATED.sub(repeated, ast.literal_eval(rest)))
        elif command == "CLOSE":
            del self._clients[name]
            await client.stream.aclose()
        else:
            headers, body = read_frame(rest)
            if "accept-version" in headers and command in {"OPEN", "CONNECT"}:
                client.escapes = headers["accept-version"] != "1.0"
            await client.send("CONNECT" if command == "OPEN" else command, headers, body)
        if command == "OPEN":
            connected = await self._wait(client)
            assert connected is not None, "the broker has closed the connection"
            assert connected[0] == "CONNECTED", connected
            return []
        return await self._answers(awaited)

    def _header(self, name: str, match: re.Match[str]) -> str:
        other, number, header = match.groups()
        return self._clients[other or name].messages[int(number) - 1][header]

    async def _wait(self, client: RawStomp) -> tuple[str, dict[str, str], bytes] | None:
        with anyio.fail_after(LIMIT):
            while (frame := client.take()) is None and not client.closed:
                await client.fill(LIMIT)
        return frame

    async def _answers(self, expected: int) -> list[str]:
        """Return what came to all clients, until there are `expected`, and then it is quiet."""
        lines: list[str] = []
        limit = time.monotonic() + LIMIT
        last = time.monotonic()
        while True:
            before = len(lines)
            for name, client in self._clients.items():
                was_closed = client.closed
                await client.fill(0.01)
                while (frame := client.take()) is not None:
                    lines.append(f"{name} {shown(*frame)}")
                if client.closed and not was_closed:
                    lines.append(f"{name} closed")
            now = time.monotonic()
            if len(lines) > before:
                last = now
            is_complete = len(lines) >= expected or now > limit
            if is_complete and (self._quiet is None or now - last > self._quiet):
                break
        return sorted(lines, key=client_of if self._quiet is None else order)

    async def _rest(self) -> list[str]:
        lines = []
        for name, client in self._clients.items():
            if client.closed or not client.connected:
                continue
            headers = {"destination": "/topic/nobody.listens", "receipt": "the.end"}
            await client.send("SEND", headers, b"")
            while (frame := await self._wait(client)) is not None:
                if frame[1].get("receipt-id") == "the.end":
                    break
                lines.append(f"{name} {shown(*frame)}")
            else:
                lines.append(f"{name} closed")
        return lines


def repeated(match: re.Match[bytes]) -> bytes:
    """Return the expansion of `{x*9}`."""
    return match[1] * int(match[2])


def client_of(line: str) -> str:
    """Return the client that got an answer, to sort by."""
    return line.partition(" ")[0]


def order(line: str) -> tuple[str, bool]:
    """Sort by client, with RECEIPTs first: ActiveMQ's threads nearly always send them so."""
    name, command, *_ = line.split(" ")
    return name, command == "MESSAGE"


def read_frame(text: str) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a step."""
    text, _, body = text.partition(" | ")
    headers = {}
    for part in filter(None, text.split("; ")):
        name, _, value = part.partition(":")
        headers[name] = value.encode().decode("unicode_escape") if "\\" in value else value
    content = ast.literal_eval(body) if body else b""
    return headers, content.encode() if isinstance(content, str) else content


def shown(command: str, headers: dict[str, str], body: bytes) -> str:
    """Return a frame as scripts have it."""
    if command == "ERROR":
        body = b""  # a stack trace
    parts = []
    for name, value in sorted(headers.items()):
        text = value.encode("unicode_escape").decode() if not value.isprintable() else value
        if name == "timestamp" and abs(int(value) - time.time() * 1000) < DAY:
            text = "TIME"
        if name in {"server", "ack", "session"} or (name == "message-id" and value != "0"):
            text = name.upper()
        parts.append(f"{name}:{text}")
    line = f"{command} {'; '.join(parts)}"
    return f"{line} | {body.decode('utf-8', 'backslashreplace')!r}" if body else line


def normalised(line: str, unique: str) -> str:
    """Return a line without what differs each time."""
    line = COUNTS.sub(r"\1N", BROKER_URL.sub(r"\1URL", line))
    line = CLIENT_PORT.sub("PORT", MESSAGE_ID.sub("message-id [ID]", line))
    return IDENTIFIER.sub("ID", line.replace(unique, "%"))


async def record(port: int, url: str, paths: Sequence[Path]) -> None:
    """Write a broker's responses into files of scripts."""
    player = Player(port, url, quiet=QUIET)
    for path in paths:
        scripts = read_scripts(path)
        for number, script in enumerate(scripts):
            unique = f"{path.stem}-{number}-"
            for step, answers in zip(script.steps, await player.play(script, unique), strict=True):
                step.answers = answers
        write_scripts(path, scripts)


def main(arguments: list[Any]) -> None:
    """Record; see the module."""
    port, url, *paths = arguments
    anyio.run(record, int(port), url, [Path(path) for path in paths])


if __name__ == "__main__":
    main(sys.argv[1:])
