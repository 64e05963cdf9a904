"""Durations, and pydantic's complaints as readable errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pyjms.configuration.document import Document
from pyjms.configuration.section import Deadline, Duration, ReceiveTimeout
from pyjms.configuration.validation import validate
from pyjms.errors import ConfigurationException
from tests.kit.documents import parsed

DURATION = TypeAdapter[float](Duration)
DEADLINE = TypeAdapter[float | None](Deadline)
RECEIVE_TIMEOUT = TypeAdapter[float | None](ReceiveTimeout)


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [("500ms", 0.5, "500ms"), ("30s", 30.0, "30s"), ("5m", 300.0, "300s"), ("1h", 3600.0, "3600s"),
     ("1.5s", 1.5, "1.5s"), ("1 s", 1.0, "1s"), (0, 0.0, "0s"), ("0", 0.0, "0s"), ("1ms", 0.001, "1ms"),
     (timedelta(minutes=1), 60.0, "60s")],
)  # fmt: skip
def test_durations(text: object, seconds: float, written: str) -> None:
    read = DURATION.validate_python(text)
    assert read == seconds
    assert DURATION.dump_python(read, mode="json") == written
    assert DURATION.validate_python(written) == seconds


@pytest.mark.parametrize(
    ("value", "reason"),
    [(30000, "it is 30000ms to Spring and 30000s to Python"), ("30", "30ms to Spring and 30s"),
     (1.5, "1.5 has no unit"), ("soon", "not a duration"), ("5d", "500ms, 30s, 5m or 1h"),
     (-1, "cannot be negative"), (True, "not a duration"), ("-5s", "not a duration"), (None, "not a duration")],
)  # fmt: skip
def test_no_durations(value: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        DURATION.validate_python(value)


def test_zero_and_minus_one_in_timeouts() -> None:
    assert DEADLINE.validate_python(0) is None
    assert DEADLINE.validate_python("2s") == 2.0
    assert DEADLINE.validate_python(None) is None
    assert DEADLINE.dump_python(None, mode="json") == "0"
    assert DEADLINE.dump_python(2.0, mode="json") == "2s"
    with pytest.raises(ValidationError, match="negative"):
        DEADLINE.validate_python(-1)
    assert RECEIVE_TIMEOUT.validate_python(0) is None
    assert RECEIVE_TIMEOUT.validate_python("-1") == 0.0
    assert RECEIVE_TIMEOUT.validate_python(None) is None
    assert [RECEIVE_TIMEOUT.dump_python(v, mode="json") for v in (None, 0.0, 0.25)] == [
        "0",
        "-1",
        "250ms",
    ]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Door(Section):
    uri: str
    port: int = 0


class Red(Section):
    type: Literal["red"]
    shade: int = 0


class Blue(Section):
    type: Literal["blue"]
    depth: int = 0


class Model(Section):
    name: str = ""
    password: int = 0
    doors: list[Door] = []
    by_name: dict[str, Door] = {}
    colour: Annotated[Red | Blue, Field(discriminator="type")] | None = None
    wait: Duration = 0.0
    either: int | list[int] = 0


def problem(text: str) -> ConfigurationException:
    with pytest.raises(ConfigurationException) as caught:
        validate(Model, parsed(text, "m.yaml"))
    return caught.value


@pytest.mark.parametrize(
    ("text", "lines"),
    [("namex: x", ["m.yaml:1: namex: there is no such setting; did you mean name?"]),
     ("zzz: x", ["m.yaml:1: zzz: there is no such setting; the keys are name, password, doors, by_name, colour, wait, either"]),
     ("doors:\n  - uri: a\n    prt: 1", ["m.yaml:3: doors[0].prt: there is no such setting; did you mean doors[0].port?"]),
     ("by_name:\n  uri:\n    uri: a\n    urx: 1", ["m.yaml:4: by_name.uri.urx: there is no such setting; did you mean by_name.uri.uri?"]),
     ("by_name:\n  a:\n    qqq: 1\n    uri: b", ["m.yaml:3: by_name.a.qqq: there is no such setting; by_name.a has uri, port"]),
     ("doors:\n  - port: 1", ["m.yaml:2: doors[0].uri: the key is missing"]),
     ("colour:\n  type: red\n  depht: 1", ["m.yaml:3: colour.depht: there is no such setting; did you mean colour.depth?"]),
     ("doors: [{uri: a, port: many}]", ["m.yaml:1: doors[0].port: Input should be a valid integer, unable to parse string as an integer; the value is 'many'"]),
     ("name: x\nwait: 5", ["m.yaml:2: wait: 5 has no unit: it is 5ms to Spring and 5s to Python; add the unit"]),
     ("doors: 5\nwait: x", ["m.yaml:1: doors: Input should be a valid list; the value is 5", "m.yaml:2: wait: 'x' is not a duration; write for instance 500ms, 30s, 5m or 1h"])],
)  # fmt: skip
def test_problems_are_lines_with_places(text: str, lines: list[str]) -> None:
    error = problem(text)
    assert error.reason.splitlines() == lines
    assert f"{error.source}:{error.line}:" in lines[0]


def test_each_member_of_a_union_may_complain() -> None:
    lines = problem("either: x").reason.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("m.yaml:1: either: Input should be a valid ") for line in lines)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in str(problem("password: hunter2"))


def test_foreign_names_are_translated() -> None:
    def translate(path: tuple[str | int, ...]) -> str | None:
        return "it is name here" if path[-1] == "title" else None

    with pytest.raises(ConfigurationException) as caught:
        validate(Model, parsed("old:\n  deep:\n    title: x\n  other: 1", "m.yaml"), translate)
    assert caught.value.reason.splitlines()[0] == "m.yaml:3: old.deep.title: it is name here"


def test_a_problem_without_a_file() -> None:
    with pytest.raises(ConfigurationException, match=r"^namex: there is no such setting") as caught:
        validate(Model, Document({"namex": 1}))
    assert (caught.value.source, caught.value.line) == (None, None)
