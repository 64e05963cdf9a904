"""Notices are shown once, to the user who acted."""

from __future__ import annotations

from pyjms_broker.console.console import Notice, Notices

DONE = Notice("done")


def test_a_notice_is_taken_once() -> None:
    notices = Notices()
    key = notices.add("ann", DONE)
    assert notices.take("ann", key) is DONE
    assert notices.take("ann", key) is None


def test_a_notice_is_its_users() -> None:
    notices = Notices()
    key = notices.add("ann", DONE)
    assert notices.take("bob", key) is None
    assert notices.take("ann", key) is DONE


def test_unknown_ids_have_no_notice() -> None:
    assert Notices().take("", None) is None
    assert Notices().take("", "x") is None


def test_the_oldest_notices_are_dropped() -> None:
    notices = Notices()
    keys = [notices.add("ann", DONE) for _ in range(300)]
    assert notices.take("ann", keys[0]) is None
    assert notices.take("ann", keys[-1]) is DONE
