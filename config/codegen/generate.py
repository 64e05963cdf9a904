"""Write the field lists of pyjms/wire/openwire from commands.yaml.

Run: python -m config.codegen.generate [--check]

The generated regions of a module are between the lines `# generated: NAME` and `# end generated`;
the rest is written by hand. `--check` writes nothing and exits with 1 if a module differs from the
generated text.
"""

from __future__ import annotations

import argparse
import ast
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

PYTHON_TYPES = {
    "boolean": "bool",
    "byte": "int",
    "short": "int",
    "int": "int",
    "long": "int",
    "string": "str | None",
    "bytes": "bytes | None",
    "magic": "bytes",
    "throwable": "Throwable | None",
}
_DEFAULTS = {"bool": "False", "int": "0"}
SHADOWING = {"type", "exit"}  # field names that shadow builtins
# The struct formats of fixed-size fields; a nullable field is represented by its flag.
_FORMATS = {"boolean": "?", "byte": "b", "short": "h", "int": "i", "long": "q"}


@dataclass(frozen=True)
class Field:
    """One field of a structure."""

    name: str
    kind: str
    of: str
    since: int
    default: str

    @classmethod
    def parse(cls, name: str, text: str) -> Field:
        head, *rest = (part.strip() for part in text.split(","))
        kind, _, of = head.partition(" ")
        options = dict(part.split(" ", 1) for part in rest)
        python = PYTHON_TYPES.get(kind, "")
        default = options.get("default") or _DEFAULTS.get(python, "None")
        ast.literal_eval(default)
        return cls(name, kind, of, int(options.get("since", 1)), default.replace("'", '"'))

    @property
    def annotation(self) -> str:
        if self.kind in PYTHON_TYPES:
            return PYTHON_TYPES[self.kind]
        held = "DataStructure | Destination" if self.of == "any" else self.of
        return f"list[{held} | None] | None" if self.kind == "array" else f"{held} | None"

    @property
    def parameter(self) -> str:
        noqa = "  # noqa: A002 - the wire's name" if self.name in SHADOWING else ""
        return f"{self.name}: {self.annotation} = {self.default},{noqa}"

    @property
    def layout(self) -> str:
        of = f', "{self.of}"' if self.of else ""
        return f'Field("{self.name}", kinds.{self.kind.upper()}, {self.since}{of}),'

    @property
    def nullable(self) -> bool:
        return self.kind not in _FORMATS

    @property
    def format(self) -> str:
        return _FORMATS.get(self.kind, "B")


@dataclass(frozen=True)
class Structure:
    """One data structure of commands.yaml."""

    name: str
    code: int
    base: str
    fields: tuple[Field, ...]
    marshall_aware: bool = False
    identity: tuple[str, ...] = ()
    older: dict[int, list[str]] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)
    constructor: str = ""

    @classmethod
    def parse(cls, name: str, entry: dict[str, Any]) -> Structure:
        fields = tuple(Field.parse(n, text) for n, text in entry.pop("fields", {}).items())
        base = entry.pop("base", "BaseCommand")
        identity = tuple(entry.pop("identity", ()))
        return cls(name, base=base, fields=fields, identity=identity, **entry)


def load() -> dict[str, Structure]:
    """Return the structures of commands.yaml by name."""
    entries = yaml.safe_load(
        (Path(__file__).with_name("commands.yaml")).read_text(encoding="utf-8")
    )
    return {name: Structure.parse(name, entry) for name, entry in entries.items()}


ROOT = Path(__file__).resolve().parents[2]
OPENWIRE = ROOT / "pyjms" / "wire" / "openwire"
_WIDTH = 92  # 100, less the indentation of a method's body
TARGETS = (
    OPENWIRE / "commands.py",
    OPENWIRE / "fast_reader.py",
    OPENWIRE / "fast_writer.py",
    OPENWIRE / "schema.py",
)
_REGION = re.compile(
    r"^(?P<indent> *)# generated: (?P<name>.+)\n(?:.*\n)*?(?P=indent)# end generated\n",
    re.MULTILINE,
)


def render(path: Path, structures: dict[str, Structure]) -> str:
    """Return the text of the module at `path` with its regions regenerated and formatted."""

    def region(match: re.Match[str]) -> str:
        indent, name = match["indent"], match["name"]
        lines = [f"# generated: {name}", *_region(name, structures), "# end generated"]
        return "".join(f"{indent}{line}\n" if line else "\n" for line in lines)

    text = _REGION.sub(region, path.read_text(encoding="utf-8"))
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def _region(name: str, structures: dict[str, Structure]) -> Iterable[str]:
    if name in structures:
        return _class_body(structures[name], structures)
    return _HOT[name](_message(structures))


def _class_body(structure: Structure, structures: dict[str, Structure]) -> Iterable[str]:
    fields = structure.fields
    slots = sorted([*(f.name for f in fields), *structure.local])
    yield from _fill("__slots__ = (", [f'"{slot}",' for slot in slots], ")")
    yield f"TYPE: ClassVar[int] = {structure.code}"
    if structure.marshall_aware:
        yield "MARSHALL_AWARE: ClassVar[bool] = True"
    if fields:
        inherited = structure.base in {"BaseCommand", *structures}
        layout = [f"*{structure.base}.LAYOUT,"] * inherited + [f.layout for f in fields]
        yield from _fill("LAYOUT: ClassVar[tuple[Field, ...]] = (", layout, ")")
    yield from (f"{name}: {kind} | None" for name, kind in structure.local.items())
    for version, names in structure.older.items():
        older = {f.name: replace(f, since=1) for f in fields}
        yield "OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = dict.fromkeys("
        yield f"    range(1, {version + 1}),"
        yield from _fill("    (", [older[n].layout for n in names], "),")
        yield ")"
    if fields:
        yield from _constructor(structure, structures)


def _fill(head: str, items: list[str], tail: str) -> Iterable[str]:
    """Return `head`, the items and `tail` on one line, or the items on separate, filled lines.

    Text after an item's comma is a comment, which ends the line.
    """
    code = " ".join(items)
    if len(f"{head}{code}{tail}") <= _WIDTH and "#" not in code:
        is_tuple_of_one = len(items) == 1 and head.endswith(" = (")
        yield f"{head}{code if is_tuple_of_one else code.removesuffix(',')}{tail}"
        return
    indent = head[: len(head) - len(head.lstrip())]
    yield head
    line = ""
    for item in items:
        if line and ("#" in line or len(f"{indent}    {line} {_code(item)}") > _WIDTH):
            yield f"{indent}    {line}"
            line = ""
        line = f"{line} {item}".strip()
    yield f"{indent}    {line}"
    yield f"{indent}{tail}"


def _code(item: str) -> str:
    return item.partition("  #")[0]


def _constructor(structure: Structure, structures: dict[str, Structure]) -> Iterable[str]:
    inherited: tuple[Field, ...] = ()
    if structure.base in structures and structure.constructor != "own":
        inherited = structures[structure.base].fields
    own = (*inherited, *structure.fields)
    is_command = not structure.identity and structure.base not in {"Command", "DataStructure"}
    parameters = ["self,", *(f.parameter for f in own)]
    if is_command and structure.constructor != "own":
        parameters += ["command_id: int = 0,", "response_required: bool = False,"]
    yield ""
    yield from _fill("def __init__(", parameters, ") -> None:")
    if structure.constructor == "own":
        yield "    super().__init__()"
        own = structure.fields
    elif is_command:
        yield "    self.command_id = command_id"
        yield "    self.response_required = response_required"
    yield from (f"    self.{f.name} = {f.name}" for f in own)
    yield from (f"    self.{name} = None" for name in structure.local)
    if structure.identity:
        parts = [f"{part}," for part in _identity(structure)]
        yield from _fill("    self.identity = (", parts, ")")


def _identity(structure: Structure) -> Iterable[str]:
    """Return the type code and the values of the fields that equality is based on."""
    nested = {f.name for f in structure.fields if f.of}
    if structure.identity[0] not in nested:  # a nested identity begins with another type code
        yield str(structure.code)
    for name in structure.identity:
        yield f"None if {name} is None else {name}.identity" if name in nested else name


@dataclass(frozen=True)
class Message:
    """The fields of a message in wire order, grouped as in the fast codec."""

    all: tuple[Field, ...]
    middle: tuple[Field, ...]
    """The fields from producerSequenceId to type."""
    tail: tuple[Field, ...]
    """The fields from dataStructure to the last one."""

    @property
    def headers(self) -> tuple[Field, ...]:
        """The middle fields without those of the message id."""
        return self.middle[2:]


def _message(structures: dict[str, Structure]) -> Message:
    fields = structures["ActiveMQMessage"].fields
    names = [f.name for f in fields]
    after_id, content, tail = (
        names.index(n) for n in ("original_transaction_id", "content", "data_structure")
    )
    ids = structures["MessageId"].fields[2:]
    return Message(fields, (*ids, *fields[after_id:content]), fields[tail:])


def _layouts(message: Message) -> Iterable[str]:
    middle = "".join(f.format for f in message.middle)
    tail = "".join(f.format for f in message.tail)
    yield "# producerSequenceId to type, nullable fields as their flags"
    yield f'MIDDLE: Final = struct.Struct(">{middle}")'
    yield f"MIDDLE_SIZE: Final = {struct.calcsize('>' + middle)}"
    yield "# dataStructure to the end, likewise"
    yield f'TAIL: Final = struct.Struct(">{tail}")'
    yield f"TAIL_SIZE: Final = {struct.calcsize('>' + tail)}"
    yield "# fields of fixed size between originalTransactionId and type"
    for run in _runs(message.headers):
        if not run[0].nullable:
            form = "".join(f.format for f in run)
            yield f'{_run_name(run)}: Final = struct.Struct(">{form}")'
            yield f"{_run_name(run)}_SIZE: Final = {struct.calcsize('>' + form)}"


def _pack_tail(message: Message) -> Iterable[str]:
    yield "return TAIL.pack("
    yield from ("    0," if f.nullable else f"    message.{f.name}," for f in message.tail)
    yield ")"


def _is_plain(message: Message) -> Iterable[str]:
    conditions = [f"message.{f.name} is None" for f in message.tail if f.nullable]
    yield "message_id = message.message_id"
    yield f"return ({' and '.join([*conditions, _PLAIN])})"


_PLAIN = (
    "not isinstance(message, ActiveMQBlobMessage)"
    " and (message_id is None or message_id.text_view is None)"
)


def _variable(f: Field) -> str:
    return f"{f.name}_" if f.name in SHADOWING else f.name


def _flag(f: Field) -> str:
    return f"has_{f.name}" if f.nullable else _variable(f)


def _any_flag(fields: Iterable[Field]) -> list[str]:
    first, *others = (_flag(f) for f in fields if f.nullable)
    return [first, *(f"or {flag}" for flag in others)]


def _read_fields(message: Message) -> Iterable[str]:
    headers = message.headers
    yield "# fmt: off"
    yield from _fill(
        "(", [f"{_flag(f)}," for f in message.middle], ") = MIDDLE.unpack_from(frame, at)"
    )
    yield from (f"{_variable(f)}: {_local(f)} = None" for f in headers if f.nullable)
    yield from _fill("if not (", _any_flag(headers), "):")
    yield "    at += MIDDLE_SIZE"
    yield "else:"
    names = [*(f"{_variable(f)}," for f in headers), "at,"]
    yield from _fill("    (", names, ") = self._headers(frame, at + 16)")
    for name in ("content", "marshalled_properties"):
        yield f"{name}: bytes | None = None"
        yield "if frame[at]:"
        yield "    (length,) = I32.unpack_from(frame, at + 1)"
        yield "    at += 5"
        yield "    if not 0 <= length <= len(frame) - at:"
        yield "        raise IndexError"
        yield f"    {name} = frame[at : at + length]"
        yield "    at += length"
        yield "else:"
        yield "    at += 1"
    yield "if end - at != TAIL_SIZE or cls is ActiveMQBlobMessage:"
    yield "    return None"
    yield from _fill("(", [f"{_flag(f)}," for f in message.tail], ") = TAIL.unpack_from(frame, at)")
    yield from _fill("if (", _any_flag(message.tail), "):")
    yield "    return None"
    nullable_tail = {f.name for f in message.tail if f.nullable}
    message_id = "MessageId(None, id_producer, producer_sequence_id, broker_sequence_id)"
    values = []
    for f in message.all:
        value = message_id if f.name == "message_id" else _variable(f)
        values.append(f"{'None' if f.name in nullable_tail else value},")
    yield from _fill("message = cls(", [*values, "command_id,", "response_required,"], ")")
    yield "# fmt: on"


def _local(f: Field) -> str:
    return f.annotation if f.kind in PYTHON_TYPES else "Any"


def _runs(fields: Iterable[Field]) -> list[list[Field]]:
    """Return the fields in runs: nullable fields alone, adjacent fixed-size fields together."""
    runs: list[list[Field]] = []
    for f in fields:
        if runs and not f.nullable and not runs[-1][-1].nullable:
            runs[-1].append(f)
        else:
            runs.append([f])
    return runs


def _run_name(run: list[Field]) -> str:
    return "_".join(f.name for f in run).upper()


def _read_headers(message: Message) -> Iterable[str]:
    names = [*(f"{_variable(f)}," for f in message.headers), "at,"]
    yield "def _headers("
    yield "    self, frame: bytes, at: int"
    yield f") -> tuple[{''.join(f'{_local(f)}, ' for f in message.headers)}int]:"
    yield '    """Read the fields from originalTransactionId to type one by one."""'
    for run in _runs(message.headers):
        if not run[0].nullable:
            variables = "".join(f"{_variable(f)}, " for f in run)
            yield f"    ({variables}) = {_run_name(run)}.unpack_from(frame, at)"
            yield f"    at += {_run_name(run)}_SIZE"
        else:
            name = _variable(run[0])
            read = {
                "Destination": "_nullable_destination(frame, at)",
                "TransactionId": "_nullable(frame, at, LOCAL_TRANSACTION_ID)",
            }.get(run[0].of or "", "_string(frame, at)")
            yield f"    {name}: {_local(run[0])} = None"
            yield "    if frame[at]:"
            yield f"        {name}, at = self.{read}"
            yield "    else:"
            yield "        at += 1"
    yield "    # fmt: off"
    yield from _fill("    return (", names, ")")
    yield "    # fmt: on"


def _write_middle(message: Message) -> Iterable[str]:
    conditions = [f"message.{f.name} is None" for f in message.headers if f.nullable]
    yield f"if (message_id is not None and {' and '.join(conditions)}):"
    yield "    out += _MESSAGE_ID"
    yield "    out += self._producer_of(message_id)"
    yield "    out += MIDDLE.pack("
    yield from (f"        message_id.{f.name}," for f in message.middle[:2])
    values = ("0" if f.nullable else f"message.{f.name}" for f in message.headers)
    yield from (f"        {value}," for value in values)
    yield "    )"
    yield "else:"
    yield "    self._headers(out, message)"


def _write_headers(message: Message) -> Iterable[str]:
    for run in _runs(message.headers):
        if not run[0].nullable:
            values = ", ".join(f"message.{f.name}" for f in run)
            yield f"out += {_run_name(run)}.pack({values})"
        elif run[0].kind == "string":
            yield f"out += _string(message.{run[0].name})"
        else:
            yield f"out += self.nullable(message.{run[0].name})"


_HOT: dict[str, Callable[[Message], Iterable[str]]] = {
    "structs of a message": _layouts,
    "pack_tail": _pack_tail,
    "is_plain": _is_plain,
    "read the fields of a message": _read_fields,
    "_headers": _read_headers,
    "write the middle of a message": _write_middle,
    "write the headers of a message": _write_headers,
}


def main() -> int:
    """Write stale modules, or only report them with `--check`; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="report differences without writing")
    arguments = parser.parse_args()
    structures = load()
    stale = []
    for path in TARGETS:
        text = render(path, structures)
        if text != path.read_text(encoding="utf-8"):
            stale.append(path)
            if not arguments.check:
                path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'is stale' if arguments.check else 'written'}")
    return int(bool(stale) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
