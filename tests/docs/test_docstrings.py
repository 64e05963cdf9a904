"""The examples in the docstrings of the most used names run as they stand."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Annotated, Final

import pytest

import pyjms

NAMES: Final = (
    *("jms_listener", "send_to", "Header", "jms_scheduled", "idempotent", "on_startup", "Batch"),
    *("JmsApplication", "PyjmsSettings", "load_settings", "RetryPolicy", "Reject", "Retry", "Skip"),
    *("JmsTemplate", "JmsClient", "ConnectionFactory", "CachingConnectionFactory"),
    *("Queue", "Topic"),
)


@pytest.mark.parametrize("name", NAMES)
def test_its_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(pyjms, name)) or ""
    _, found, example = text.partition("\nExample:\n")
    assert found, text
    scope = {each: getattr(pyjms, each) for each in (*NAMES, "Message")}
    code = compile(textwrap.dedent(example), f"{name}.py", "exec", dont_inherit=True)
    exec(code, {**scope, "Annotated": Annotated, "__name__": "example"})
