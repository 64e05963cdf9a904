"""The log of a process: formats, files that are rotated, streams, and changes while it runs."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.cli.logs import LogOutput
from pyjms.configuration.logs import LogFileSettings, LoggingSettings
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from tests.kit.processes.forked_python import run_python

logger = logging.getLogger("shop.orders")
audit = logging.getLogger("shop.audit")
LONG = "x" * 1000


@pytest.fixture
def output() -> Iterator[LogOutput]:
    """The log of this process; the standard error belongs to pytest."""
    made = LogOutput()
    yield made
    made.close()


def write(output: LogOutput, *lines: str, settings: LoggingSettings) -> None:
    """Log lines with settings, until they are in the file."""
    output.apply(settings)
    for line in lines:
        logger.warning("%s", line)
    output.close()


def in_file(path: Path, **values: object) -> LoggingSettings:
    """Return settings with a file."""
    return LoggingSettings.model_validate({"file": {"path": path, **values}})


def test_a_file_is_given_by_its_path(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "new" / "shop.log"
    write(output, "one", settings=LoggingSettings.model_validate({"file": str(path)}))
    assert path.read_text("utf-8").endswith("WARNING shop.orders: one\n")


def test_a_file_has_a_format_of_its_own(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    output.apply(in_file(path, format="json"))
    logger.warning("%s is full", Queue("a"))
    output.close()
    entry = json.loads(path.read_text("utf-8"))
    assert (entry["message"], entry["destination"]) == ("queue://a is full", "queue://a")


def test_a_file_is_renamed_at_its_size(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    lines = [f"{i} {'x' * 200}" for i in range(30)]
    write(output, *lines, settings=in_file(path, maximum_size="1kb", keep=2))
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "shop.log",
        "shop.log.1",
        "shop.log.2",
    ]
    assert max(each.stat().st_size for each in tmp_path.iterdir()) <= 1024


def test_a_file_of_another_day_is_renamed(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    path.write_text("old\n", "utf-8")
    then = time.time() - 2 * 86_400
    os.utime(path, (then, then))
    write(output, "new", settings=in_file(path, rotate="daily"))
    (renamed,) = tmp_path.glob("shop.log.*")
    assert (renamed.read_text("utf-8"), "new" in path.read_text("utf-8")) == ("old\n", True)


def test_a_file_that_others_rename_is_opened_again(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    settings = in_file(path, rotate="never")
    output.apply(settings)
    logger.warning("one")
    output.apply(settings)  # writes what waits
    path.rename(tmp_path / "shop.log.old")
    logger.warning("two")
    output.close()
    assert path.read_text("utf-8").endswith("two\n")


def test_a_file_that_cannot_be_opened_again_is_written_when_it_can(
    output: LogOutput, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, moved = tmp_path / "log", tmp_path / "moved"
    output.apply(in_file(folder / "shop.log", rotate="never"))
    folder.rename(moved)
    folder.write_text("in the way", "utf-8")
    logger.warning("lost")
    told = ""
    while "The log cannot be written" not in told:
        told += capsys.readouterr().err
        time.sleep(0.001)
    folder.unlink()
    folder.mkdir()
    logger.warning("found")
    output.close()
    assert (folder / "shop.log").read_text("utf-8").endswith("shop.orders: found\n")


@pytest.mark.parametrize("rotate", ["size", "daily", "never"])
def test_a_file_that_cannot_be_written_holds_no_change_of_the_settings(
    output: LogOutput, tmp_path: Path, rotate: str
) -> None:
    broken = tmp_path / "pipe"
    os.mkfifo(broken)
    pipe = os.open(broken, os.O_RDWR)
    output.apply(in_file(broken, rotate=rotate))
    os.close(pipe)
    logger.warning("lost")
    write(output, "kept", settings=in_file(tmp_path / "shop.log"))
    assert (tmp_path / "shop.log").read_text("utf-8").endswith("kept\n")


@pytest.mark.parametrize("rotate", ["size", "daily", "never"])
def test_others_cannot_read_the_files(output: LogOutput, tmp_path: Path, rotate: str) -> None:
    settings = in_file(tmp_path / "shop.log", rotate=rotate, maximum_size="1kb")
    write(output, LONG, LONG, LONG, settings=settings)
    assert {each.stat().st_mode & 0o007 for each in tmp_path.iterdir()} == {0}


@pytest.mark.parametrize("rotate", ["size", "daily", "never"])
def test_half_of_a_surrogate_pair_loses_no_line(
    output: LogOutput, tmp_path: Path, rotate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # not for pytest's own handler: pytest-xdist cannot send what it captures
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    path = tmp_path / "shop.log"
    write(output, "by eve\ud800", settings=in_file(path, rotate=rotate))
    assert path.read_text("utf-8").endswith("by eve\\ud800\n")


def test_a_file_with_many_lines_waiting_is_closed(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    output.apply(in_file(path, rotate="never"))
    for _ in range(13_000):  # of which the pipe has place for 1,300, and 10,000 may wait
        logger.warning("short")
    closing = threading.Thread(target=output.close)
    closing.start()
    lines = 0
    while closing.is_alive() or lines < 10_000:
        try:
            lines += os.read(pipe, 1 << 16).count(b"\n")
        except BlockingIOError:
            closing.join(0.001)
    os.close(pipe)


def test_a_file_that_cannot_be_opened_is_refused(output: LogOutput, tmp_path: Path) -> None:
    output.apply(in_file(tmp_path / "shop.log"))
    with pytest.raises(ConfigurationException, match=r"logging\.file: .* cannot be written: Is a"):
        output.apply(in_file(tmp_path))
    logger.warning("still here")
    output.close()
    assert "still here" in (tmp_path / "shop.log").read_text("utf-8")


def test_a_slow_file_holds_nobody(output: LogOutput, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    streams = {"shop.audit": LogFileSettings(path=path, rotate="never")}
    output.apply(LoggingSettings(), streams)
    for _ in range(10_500):  # of which the pipe has place for 64, and 10,000 may wait
        audit.warning(LONG)
    found = b""
    while found.count(b"\n") < 10_000:
        found += os.read(pipe, 1 << 16)
    audit.warning("the last")
    while b"the last" not in found:
        found += os.read(pipe, 1 << 16)
    os.close(pipe)
    *_, told, last = found.decode().splitlines()
    assert told.endswith(" lines are left out: the file is written too slowly")
    assert last.endswith("the last")


def test_a_stream_has_a_file_of_its_own(output: LogOutput, tmp_path: Path) -> None:
    streams = {"shop.audit": LogFileSettings(path=tmp_path / "audit.log")}
    output.apply(in_file(tmp_path / "shop.log"), streams)
    audit.info("alice did it")
    logger.warning("other")
    output.close()
    assert "alice did it" in (tmp_path / "audit.log").read_text("utf-8")
    assert "alice" not in (tmp_path / "shop.log").read_text("utf-8")


def test_settings_are_replaced(output: LogOutput, tmp_path: Path) -> None:
    levels = {"shop.orders": "ERROR"}
    output.apply(
        LoggingSettings.model_validate({**levels, "file": str(tmp_path / "a.log")}),
        {"shop.audit": LogFileSettings(path=tmp_path / "audit.log")},
    )
    assert (logger.level, audit.propagate) == (logging.ERROR, False)
    output.apply(in_file(tmp_path / "b.log"))
    assert (logger.level, audit.propagate) == (logging.NOTSET, True)
    audit.warning("now with the others")
    output.close()
    assert (tmp_path / "a.log").read_text("utf-8") == ""
    assert "now with the others" in (tmp_path / "b.log").read_text("utf-8")


def test_workers_have_a_file_each(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    write(LogOutput(worker=2), "by size", settings=in_file(path))
    write(LogOutput(worker=2), "together", settings=in_file(path, rotate="never"))
    line = (tmp_path / "shop-2.log").read_text("utf-8")
    assert line.endswith(f"worker 2 (pid {os.getpid()}) shop.orders: by size\n")
    assert "together" in path.read_text("utf-8")


def test_a_log_without_an_output_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no file"):
        LoggingSettings.model_validate({"stderr": False})


START = """
import logging, os
from pyjms.cli.logs import LogOutput
from pyjms.configuration.logs import LoggingSettings
logging.root.handlers.clear()
log = LogOutput(log_format={format!r}, levels={{"shop.loud": "DEBUG"}})
log.hold()
logging.getLogger("shop").info("early")
log.apply(LoggingSettings.model_validate({settings!r}))
logging.getLogger("shop").info("late")
logging.getLogger("shop.loud").debug("option")
{more}
"""


def run(
    folder: Path, settings: dict[str, object], more: str = "", log_format: str | None = None
) -> str:
    """Run a program that logs; return its standard error."""
    code = START.format(format=log_format, settings=settings, more=more)
    done = run_python("-c", code, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_lines_before_the_settings_are_read_have_their_form(tmp_path: Path) -> None:
    lines = [json.loads(each) for each in run(tmp_path, {"format": "json"}).splitlines()]
    assert [each["message"] for each in lines] == ["early", "late", "option"]


def test_options_come_before_the_settings(tmp_path: Path) -> None:
    settings: dict[str, object] = {"shop": "ERROR", "shop.loud": "ERROR"}
    (line,) = run(tmp_path, settings, log_format="json").splitlines()
    assert json.loads(line)["message"] == "option"


def test_the_standard_error_can_be_left_out(tmp_path: Path) -> None:
    assert run(tmp_path, {"stderr": False, "file": "shop.log"}) == ""
    assert "late" in (tmp_path / "shop.log").read_text("utf-8")


def test_the_defaults_are_those_of_an_empty_section(tmp_path: Path) -> None:
    """`apply_defaults` does without the model that tells them."""

    def lines_after(change: str) -> list[str]:
        more = f'{change}\nlogging.getLogger("shop").info("again")\n'
        written = run(tmp_path, {"format": "json", "shop": "ERROR"}, more)
        return [line[len("2026-01-01 00:00:00,000") :] for line in written.splitlines()[-1:]]

    assert lines_after("log.apply_defaults()") == [" INFO    shop: again"]
    assert lines_after("log.apply(LoggingSettings())") == [" INFO    shop: again"]


def test_a_forked_process_writes_too(tmp_path: Path) -> None:
    more = 'if os.fork() == 0:\n    logging.getLogger("shop").info("child")\nelse:\n    os.wait()\n'
    run(tmp_path, {"file": "shop.log"}, more)
    assert "child" in (tmp_path / "shop.log").read_text("utf-8")
