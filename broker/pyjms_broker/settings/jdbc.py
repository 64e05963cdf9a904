"""Database stores in broker.yaml, with or without a journal.

(activemq-persistence J1, J9)

The descriptions of the keys are in the attribute tables of the stores (`pyjms_broker.attribute`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException
from pyjms_broker.settings.values import Section, arguments_of, check_by
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC, Statements

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["JDBCPersistenceSettings", "JournaledJDBCPersistenceSettings", "StatementsSection"]


class StatementsSection(Section, Statements):
    """The names of the tables."""


class _JDBCSettings(Section, JDBCSettings):
    directory: Path | None = None
    """Directory of the SQLite file and the journal; null: data_directory/broker_name/jdbc."""
    statements: StatementsSection = StatementsSection()
    """The names of the tables."""

    @property
    def directory_name(self) -> str:
        """The name of the store's directory in the broker's directory."""
        return "jdbc"

    def build(self) -> JDBCSettings:
        """Create the store's own settings object."""
        statements = Statements(**arguments_of(Statements, self.statements))
        return JDBCSettings(**{**arguments_of(JDBCSettings, self), "statements": statements})

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class JDBCPersistenceSettings(_JDBCSettings):
    """A database as the store."""

    type: Literal["jdbc"]

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed.

        Raises:
            ConfigurationException: SQLAlchemy or the database's driver is not installed.
        """
        make = _adapter("adapter", "JDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name)


class JournaledJDBCPersistenceSettings(_JDBCSettings, JournalSettingsJDBC):
    """A database with a journal."""

    type: Literal["journaled_jdbc"]

    def build_journal(self) -> JournalSettingsJDBC:
        """Create the journal's own settings object."""
        return JournalSettingsJDBC(**arguments_of(JournalSettingsJDBC, self))

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed.

        Raises:
            ConfigurationException: SQLAlchemy or the database's driver is not installed.
        """
        make = _adapter("journaled", "JournaledJDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name, self.build_journal())


def _adapter(module: str, name: str) -> Callable[..., PersistenceAdapter]:
    try:
        found = import_module(f"pyjms_broker.store.jdbc.{module}")  # heavy, and an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlalchemy":
            raise
        raise ConfigurationException(
            "A store in a database needs SQLAlchemy, which is not installed",
            hint=install_command("sql"),
        ) from error
    adapter: Callable[..., PersistenceAdapter] = getattr(found, name)
    return adapter
