"""Passwords in a data source do not get into the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms_broker.store.jdbc.database import Database
from pyjms_broker.store.jdbc.settings import JDBCSettings


@pytest.mark.parametrize("parameter", ["password", "sslpassword", "PWD", "secret_token"])
def test_a_password_in_the_query_is_hidden(tmp_path: Path, parameter: str) -> None:
    source = f"sqlite:///file:{tmp_path}/x.db?uri=true&{parameter}=hunter2"
    database = Database(tmp_path, JDBCSettings(data_source=source))
    assert "hunter2" not in database.name
    assert "uri=true" in database.name
    database.close()
