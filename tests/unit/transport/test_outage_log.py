"""Which connection has a say about an outage that several have."""

from __future__ import annotations

import logging

from pyjms.transport.failover.connector import OutageLog


def test_the_first_one_reports_the_outage_and_its_end() -> None:
    first, second, elsewhere = OutageLog("one"), OutageLog("one"), OutageLog("other")
    assert [log.warning() for log in (first, second, elsewhere, first)] == [
        logging.WARNING, logging.DEBUG, logging.WARNING, logging.WARNING,
    ]  # fmt: skip
    assert [log.end() for log in (second, first, second, elsewhere)] == [
        logging.DEBUG, logging.INFO, logging.DEBUG, logging.INFO,
    ]  # fmt: skip


def test_another_one_reports_the_end_for_one_that_has_no_line_about_it() -> None:
    starting, second, third = OutageLog("one"), OutageLog("one"), OutageLog("one")
    assert starting.warning() == logging.WARNING
    third.leave()  # it has reported nothing
    assert second.warning() == logging.DEBUG
    starting.leave()
    assert [third.end(), second.end()] == [logging.DEBUG, logging.INFO]


def test_what_one_left_unreported_is_not_reported_by_a_later_one_without_an_outage() -> None:
    gone, later = OutageLog("one"), OutageLog("one")
    assert gone.warning() == logging.WARNING
    gone.leave()
    assert later.end() == logging.DEBUG  # as after a change of brokers that was asked for
    assert [later.warning(), later.end()] == [logging.WARNING, logging.INFO]


def test_a_new_one_reports_the_end_for_one_that_has_gone() -> None:
    lost, waiting, new, second = (OutageLog("one") for _ in range(4))
    assert [lost.warning(), waiting.warning()] == [logging.WARNING, logging.DEBUG]
    lost.leave()
    assert new.warning() == logging.DEBUG
    assert [new.start(), second.start(), waiting.end()] == [
        logging.INFO, logging.DEBUG, logging.DEBUG,
    ]  # fmt: skip


def test_one_that_starts_leaves_its_outage_to_those_that_wait() -> None:
    starting, waiting, second = (OutageLog("one") for _ in range(3))
    assert [starting.warning(), waiting.warning()] == [logging.WARNING, logging.DEBUG]
    assert [starting.start(), second.start(), waiting.end()] == [
        logging.DEBUG, logging.DEBUG, logging.INFO,
    ]  # fmt: skip
