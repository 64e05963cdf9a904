"""Transaction managers of the blocking API.

A coroutine of the core begins and ends the transaction on the loop. The functions of a resource and
the synchronizations are called in the thread of the block, which waits for the coroutine
(`WaitingThread`): they may block, and may be bound to that thread.

    thread                                   loop
    --------------------------------------   ----------------------------------------------
    call_on_loop, waits for functions    ->  runs the coroutine
    runs a function                      <-  run(function), waits
    continues to wait                    ->  continues
    returns or raises the outcome        <-  ends

When the wait is interrupted (Ctrl-C), the coroutine is cancelled, and the thread continues to run
functions for its cleanup, such as a rollback. After a second interruption it does not, and `run`
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from pyjms.connection.transaction import (
    ChainedStatus,
    Propagation,
    ResourceTransactionStatus,
    TransactionStatus,
)
from pyjms.connection.transaction import ChainedTransactionManager as CoreChain
from pyjms.connection.transaction import JmsTransactionManager as CoreManager
from pyjms.connection.transaction import ResourceTransactionManager as CoreResource
from pyjms.errors import IllegalStateException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.facade import Attribute, Facade, GivenFactory, ReusableFacade, core_of, loop_of
from pyjms.sync.portal import call_on_loop, current_loop
from pyjms.template import resources
from pyjms.template.synchronization import WaitingThread, call_in_thread, waiting_thread

R = TypeVar("R")


def _call_and_serve(
    loop: LoopHandle, function: Callable[..., Coroutine[Any, Any, R]], *args: Any, context: Context
) -> R:
    """Run `function(*args)` on the loop; this thread runs functions for it meanwhile."""
    thread = WaitingThread()
    context.run(waiting_thread.set, thread)
    try:
        return call_on_loop(loop, function, *args, context=context, wait=thread.wait)
    except BaseException:
        thread.serve_cleanup()
        raise
    finally:
        thread.leave()


S = TypeVar("S")
T = TypeVar("T")


@contextmanager
def _block(loop: LoopHandle, scope: AbstractAsyncContextManager[S]) -> Iterator[S]:
    """Enter and leave a block of the core on the loop; bind its resources in this thread too."""
    context = copy_context()  # the scope is entered and left in one context
    status = _call_and_serve(loop, scope.__aenter__, context=context)
    try:
        with resources.bindings_of(context):
            yield status
    except BaseException as error:
        leave = partial(scope.__aexit__, type(error), error, error.__traceback__)
        _call_and_serve(loop, leave, context=context)
        raise
    else:
        _call_and_serve(loop, scope.__aexit__, None, None, None, context=context)


class JmsTransactionManager(ReusableFacade[CoreManager]):
    """Runs blocks in local transactions: `with manager.transaction():`. Spring: same name.

    Threads may share it: a transaction belongs to the thread that entered the block.

    Args:
        connection_factory: templates with the same factory object join its transactions.
        default_timeout: time limit in seconds of transactions without their own timeout; None: no
            limit.
        synchronization: whether `register_synchronization` can be used in its transactions. False
            by default, as in Spring, so that it can be combined with the manager of a database.
    """

    __slots__ = ()

    connection_factory: Attribute[GivenFactory] = Attribute(
        "Templates with the same factory object join its transactions."
    )
    default_timeout: Attribute[float | None] = Attribute(
        "Time limit in seconds of transactions without their own timeout; None: no limit."
    )
    synchronization: Attribute[bool] = Attribute("Whether synchronizations can be registered.")

    def __init__(
        self,
        connection_factory: GivenFactory,
        *,
        default_timeout: float | None = None,
        synchronization: bool = False,
    ) -> None:
        self.core: CoreManager = CoreManager(
            core_of(connection_factory),
            default_timeout=default_timeout,
            synchronization=synchronization,
        )
        self.loop = loop_of(connection_factory)
        self.connection_factory = connection_factory

    @contextmanager
    def transaction(
        self,
        name: str | None = None,
        timeout: float | None = None,
        *,
        propagation: Propagation = Propagation.REQUIRED,
    ) -> Iterator[TransactionStatus]:
        """Commit at the end of the block; roll back when it raises. Blocks at both ends.

        Templates with the same connection factory join, in this thread.

        Args:
            name: the value of `status.name`.
            timeout: time limit in seconds; None: the manager's default.
            propagation: how the block relates to an active transaction.

        Raises:
            IllegalStateException: MANDATORY without a transaction, NEVER with one.
            UnsupportedOperationException: NESTED in a transaction.
            TransactionRolledBackException: an inner block asked for a rollback, the transaction
                timed out, or the broker could not commit.
        """
        with _block(
            self.loop, self.core.transaction(name, timeout, propagation=propagation)
        ) as status:
            yield status


class ResourceTransactionManager(ReusableFacade[CoreResource[T]], Generic[T]):
    """Runs blocks in transactions of any resource: `with manager.transaction():`.

    Spring: AbstractPlatformTransactionManager. A nested block of the same manager joins the
    transaction. Templates take part: those with `session_transacted` commit right after the
    transaction, others send at once. Threads may share it: a transaction belongs to the thread that
    entered the block, and `begin`, `commit` and `rollback` are called in that thread; in a
    container, in the consumer's thread.

    Args:
        begin: begins a transaction and returns it.
        commit: commits the transaction that it is called with.
        rollback: rolls back the transaction that it is called with.
    """

    __slots__ = ()

    def __init__(
        self, begin: Callable[[], T], commit: Callable[[T], object], rollback: Callable[[T], object]
    ) -> None:
        self.core: CoreResource[T] = CoreResource(
            partial(call_in_thread, begin),
            partial(call_in_thread, commit),
            partial(call_in_thread, rollback),
        )
        self.loop = current_loop()

    @contextmanager
    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> Iterator[ResourceTransactionStatus[T]]:
        """Commit at the end of the block, or roll back if it raises or is rollback-only. Blocks.

        Arguments and errors are those of `pyjms.aio.ResourceTransactionManager.transaction`.
        """
        loop = current_loop()  # in a handler the application's loop, as for its templates
        with _block(loop, self.core.transaction(name, timeout)) as status:
            yield status


class ChainedTransactionManager(ReusableFacade[CoreChain]):
    """Combines several blocking managers: begins in their order, commits in reverse order.

    Best-effort one-phase commit: if a commit fails, the transactions committed before stay
    committed, and the others are rolled back. So put the manager whose commit is most likely to
    fail last. Spring: ChainedTransactionManager. Threads may share it.

    Raises:
        ValueError: there is no manager.
        IllegalStateException: their connection factories belong to different event loops.
    """

    __slots__ = ("_managers",)

    def __init__(self, *managers: Facade[object]) -> None:
        self.core: CoreChain = CoreChain(*(core_of(each) for each in managers))
        self._managers = managers
        self.loop = current_loop()
        if len({each.token for each in self._loops()}) > 1:
            raise IllegalStateException(
                "The managers of a chain belong to different event loops",
                hint="create their connection factories in one place: all in a handler's thread, "
                "or all outside of handlers",
            )

    @contextmanager
    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> Iterator[ChainedStatus]:
        """Run the block in one transaction of each manager. Blocks at both ends.

        Raises:
            HeuristicCompletionException: a commit failed (its cause) after others had succeeded.
            Exception: the first commit failed, and all others were rolled back.
        """
        loop = next(iter(self._loops()), None) or current_loop()
        with _block(loop, self.core.transaction(name, timeout)) as status:
            yield status

    def _loops(self) -> list[LoopHandle]:
        """Return the loops of the managers with connection factories."""
        return [each.loop for each in self._managers if isinstance(each, JmsTransactionManager)]
