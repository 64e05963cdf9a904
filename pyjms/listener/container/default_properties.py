"""The properties that only DefaultMessageListenerContainer has, and their rules.

(spring-jms 1.1)
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Protocol

from pyjms._clock import FOR_EVER, check_seconds
from pyjms._forwarding import Checked
from pyjms.enums import CacheLevel
from pyjms.jms.api import Connection, ConnectionFactory
from pyjms.listener.backoff import BackOff, FixedBackOff
from pyjms.listener.batches.options import batches_can_be_acknowledged
from pyjms.listener.container.properties import (
    ContainerOptions,
    ContainerProperties,
    one_or_more,
    parse_concurrency,
)
from pyjms.listener.outages import Outages, leave_losses_to_recovery
from pyjms.listener.task_executor import AsyncTaskExecutor, SimpleAsyncTaskExecutor

__all__ = [
    "DefaultContainerProperties",
    "DefaultOptions",
    "TransactionManager",
    "TransactionStatus",
]

_SHORT_TASK = 10
"""Receives per task if the executor prefers short tasks; also idle receives of a surplus task."""


class TransactionStatus(Protocol):
    """The transaction in progress."""

    @property
    def rollback_only(self) -> bool:
        """Whether the transaction will be rolled back at its end."""

    def set_rollback_only(self) -> None:
        """Have the transaction rolled back at its end, without an error."""


class TransactionManager(Protocol):
    """Runs blocks in transactions (Spring: PlatformTransactionManager, PROPAGATION_REQUIRED).

    A manager of JMS sessions, such as `JmsTransactionManager`, also has `connection_factory`, the
    factory whose sessions it binds. With any other manager, the container synchronises its own
    session with the transaction.
    """

    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AbstractAsyncContextManager[TransactionStatus]:
        """Begin a transaction; commit when the block ends, or roll back.

        It is rolled back if the block raised, or if it is rollback-only. An error of the block is
        raised again after the rollback. `timeout`: seconds, None: no limit.
        """


class DefaultOptions(ContainerOptions, total=False):
    """The keyword arguments of DefaultMessageListenerContainer."""

    receive_timeout: float | None
    max_concurrent_consumers: int
    max_messages_per_task: int | None
    idle_consumer_limit: int
    idle_task_execution_limit: int
    idle_receives_per_task_limit: int | None
    cache_level: CacheLevel | int | str
    transaction_manager: TransactionManager | None
    transaction_name: str | None
    transaction_timeout: float | None
    task_executor: AsyncTaskExecutor
    back_off: BackOff
    recovery_interval: float


def _not_zero(name: str, value: int | None) -> int | None:
    if value == 0:
        raise ValueError(f"'{name}' must not be 0: leave it out, or use -1 for no limit")
    return value


class DefaultContainerProperties(ContainerProperties):
    """The properties of a DefaultMessageListenerContainer."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset(DefaultOptions.__optional_keys__)

    receive_timeout: float | None = 1.0
    """Seconds that one receive waits; None: for ever, 0: do not wait."""
    transaction_manager: TransactionManager | None = None
    transaction_name: str | None = None
    transaction_timeout: float | None = None
    back_off: BackOff
    task_executor: AsyncTaskExecutor
    outages: Outages | None = None
    """Where lost connections are reported; None: each container logs them, as in Spring."""

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        super().__init__(connection_factory)
        self.back_off = FixedBackOff()
        self.task_executor = SimpleAsyncTaskExecutor()
        self._cache_level = CacheLevel.AUTO
        self._concurrent_consumers = 1
        self._max_concurrent_consumers = 1
        self._max_messages_per_task: int | None = None
        self._idle_consumer_limit = 1
        self._idle_task_execution_limit = 1
        self._idle_receives_per_task_limit: int | None = None

    @property
    def startup_timeout(self) -> float | None:
        """Seconds that a start waits for a `failover:` transport to connect; None: for ever."""
        return None if self.outages is None else self.outages.startup_timeout

    @property
    def concurrency(self) -> str:
        """The least and the largest number of consumers, "3-5"; "5" means 1 and 5."""
        return f"{self._concurrent_consumers}-{self._max_concurrent_consumers}"

    @concurrency.setter
    def concurrency(self, value: str) -> None:
        lower, upper = parse_concurrency(value)
        self.concurrent_consumers = 1 if lower is None else lower
        self.max_concurrent_consumers = upper

    @property
    def concurrent_consumers(self) -> int:
        """The least number of consumers; raises `max_concurrent_consumers` if need be.

        A higher value takes effect with the next messages, a lower one with the next receive.
        """
        return self._concurrent_consumers

    @concurrent_consumers.setter
    def concurrent_consumers(self, value: int) -> None:
        self._concurrent_consumers = one_or_more("concurrent_consumers", value)
        self._max_concurrent_consumers = max(self._max_concurrent_consumers, value)

    @property
    def max_concurrent_consumers(self) -> int:
        """The largest number of consumers; never less than `concurrent_consumers`."""
        return self._max_concurrent_consumers

    @max_concurrent_consumers.setter
    def max_concurrent_consumers(self, value: int) -> None:
        one_or_more("max_concurrent_consumers", value)
        self._max_concurrent_consumers = max(value, self._concurrent_consumers)

    @property
    def growth_limit(self) -> int | None:
        """The largest number of consumers if it is more than the least; else None."""
        most = self._max_concurrent_consumers
        return most if self._concurrent_consumers < most else None

    max_messages_per_task: Checked[int | None] = Checked(
        _not_zero,
        "Receives after which a task ends and its consumer starts another; negative: no limit.\n\n"
        "None: no limit, or 10 if the executor prefers short tasks (set by `initialize`).",
    )
    idle_receives_per_task_limit: Checked[int | None] = Checked(
        _not_zero,
        "Empty receives in a row after which a task ends; negative: no limit.\n\n"
        "None: 10, unless the executor prefers short tasks (set by `initialize`).",
    )
    idle_consumer_limit: Checked[int] = Checked(
        one_or_more, "Number of idle consumers at which the container adds no further one."
    )
    idle_task_execution_limit: Checked[int] = Checked(
        one_or_more, "Tasks without a message after which a surplus consumer ends."
    )

    @property
    def cache_level(self) -> CacheLevel:
        """Which resources are kept between receives; AUTO is resolved by `initialize`."""
        return self._cache_level

    @cache_level.setter
    def cache_level(self, value: CacheLevel | int | str) -> None:
        if isinstance(value, str):
            by_name = CacheLevel.__members__.get(value.removeprefix("CACHE_"))
            if by_name is None:
                names = ", ".join(CacheLevel.__members__)
                raise ValueError(f"Unknown cache level {value!r}: use one of {names}")
            value = by_name
        self._cache_level = CacheLevel(value)

    @property
    def recovery_interval(self) -> float | None:
        """Seconds between attempts to reconnect; setting it replaces `back_off`, and vice versa.

        None: `back_off` is not a FixedBackOff.
        """
        return self.back_off.interval if isinstance(self.back_off, FixedBackOff) else None

    @recovery_interval.setter
    def recovery_interval(self, value: float) -> None:
        self.back_off = FixedBackOff(value)

    @property
    def shared_connection_enabled(self) -> bool:
        """Whether the consumers share one connection: from cache level CONNECTION on."""
        return self._cache_level >= CacheLevel.CONNECTION

    def validate(self) -> None:
        """Check that the properties are consistent.

        Raises:
            TypeError: a duration is not a number.
            ValueError: a property is missing, or contradicts others.
            JMSException: a value is invalid for every broker.
        """
        super().validate()
        if self.batch_size is not None and not batches_can_be_acknowledged(
            transacted=self.session_transacted or self.transaction_manager is not None,
            mode=self.session_acknowledge_mode,
        ):
            raise ValueError(
                "'batch_size' needs a transacted session or the acknowledge mode CLIENT: otherwise "
                "messages would count as consumed before the listener gets them"
            )
        if self.receive_timeout is not None:
            check_seconds("receive_timeout", self.receive_timeout, least=None, otherwise=FOR_EVER)
        if self.transaction_timeout is not None:
            check_seconds("transaction_timeout", self.transaction_timeout)

    @property
    def message_limit(self) -> int | None:
        """Receives after which a task ends; None: no limit."""
        return _positive(self._max_messages_per_task)

    @property
    def idle_receive_limit(self) -> int | None:
        """Empty receives in a row after which a task ends; None: no limit."""
        return _positive(self._idle_receives_per_task_limit)

    def resolve_defaults(self) -> None:
        """Replace properties that are unset or AUTO by their effective values.

        (spring-jms 1.2.2, 1.4.2, 1.8.4)
        """
        if self._cache_level is CacheLevel.AUTO:
            external = self.transaction_manager is not None
            self._cache_level = CacheLevel.NONE if external else CacheLevel.CONSUMER
        if self.task_executor.prefers_short_lived_tasks and self._max_messages_per_task is None:
            self._max_messages_per_task = _SHORT_TASK
        elif self._idle_receives_per_task_limit is None:
            self._idle_receives_per_task_limit = _SHORT_TASK
        if self._session_transacted is None and self._has_foreign_transaction_manager:
            self._session_transacted = True

    def prepare_connection(self, connection: Connection) -> None:
        """Prepare a connection that has just been opened for this container."""
        if self.outages is not None:
            leave_losses_to_recovery(connection, self.bean_name or self.destination_description)

    @property
    def synchronizes_sessions(self) -> bool:
        """Whether sessions are committed right after the transaction of another resource."""
        return self.session_transacted and self._has_foreign_transaction_manager

    @property
    def _has_foreign_transaction_manager(self) -> bool:
        """Whether the transaction manager manages another resource than this connection factory."""
        manager = self.transaction_manager
        if manager is None:
            return False
        return getattr(manager, "connection_factory", None) is not self.connection_factory


def _positive(limit: int | None) -> int | None:
    return None if limit is None or limit < 0 else limit
