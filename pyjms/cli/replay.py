"""`pyjms replay`: run a handler of this computer with one message, without consuming it.

The message is browsed, so that it stays in its queue. The handler gets its arguments as it would
from its listener, with the application's container; its listener is not started, its result is not
sent, and what it sends with its session is rolled back. What it does elsewhere is done.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyjms.cli.options import PasswordFile, UrlOption, User, factory_for, read_destination
from pyjms.cli.terminal import ExitCode, one_line_errors, safe_text
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Queue

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication
    from pyjms.client.factory import ConnectionFactory
    from pyjms.client.session import ActiveMQSession
    from pyjms.jms.message import Message
    from pyjms.listener.endpoint import MethodJmsListenerEndpoint
    from pyjms.listener.handler import HandlerListener


def replay(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the message.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:HANDLER", help="A handler: a module, or a path to its file, and a name."
        ),
    ],
    queue: Annotated[
        str, typer.Option("--queue", help="The queue that has the message.")
    ] = DEFAULT_DEAD_LETTER_QUEUE,
    config: Annotated[Path | None, typer.Option(help="The application's configuration.")] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Open the debugger where the handler raised.")
    ] = False,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
) -> None:
    """Run a handler with one message of a queue, such as a dead letter, without consuming it.

    The handler's listener is not started, its result is printed instead of sent, and what it sends
    with its session is rolled back; anything else that it does is done. Start-up and shutdown hooks
    run. Interceptors do not, and a batch handler gets a batch of one. Without --url, the broker and
    its user are those of the listener, by the application's settings. The exit code is 1 if the
    handler raises.
    """
    import anyio

    with one_line_errors("replay"):
        from pyjms.cli.loading import load_application

        module, colon, name = target.rpartition(":")
        if not colon:
            raise ConfigurationException(f"{target} names no handler", hint="write MODULE:HANDLER")
        found = read_destination(queue)
        if not isinstance(found, Queue):
            raise ConfigurationException(f"{found} cannot be read", hint="topics keep no messages")
        application = load_application([module], config)
        endpoint = _endpoint_of(application, name)
        factory = _factory_of(application, endpoint, url, user, password_file)
        error = anyio.run(_run, application, endpoint, factory, found, message_id)
    if error is None:
        return
    from pyjms.listener.error_handling import users_traceback

    traceback.print_exception(*(users_traceback(error) or (type(error), error, None)))
    if debug:
        import pdb  # noqa: T100 - it is asked for

        pdb.post_mortem(error.__traceback__)
    sys.exit(ExitCode.FAILED)


def _factory_of(
    application: JmsApplication,
    endpoint: MethodJmsListenerEndpoint,
    url: str | None,
    user: str | None,
    password_file: Path | None,
) -> ConnectionFactory:
    """Return the factory of the options; without a URL, of the listener's broker."""
    native = application.wiring.native_factory(endpoint)
    if url is None and native is not None and native.uri.scheme != "vm":
        if user is None and password_file is None:
            return native
        url = native.uri.with_secrets()
    return factory_for(url, user, password_file)


def _endpoint_of(application: JmsApplication, name: str) -> MethodJmsListenerEndpoint:
    from pyjms.listener.endpoint import MethodJmsListenerEndpoint

    found = {
        each.handler.__qualname__: each
        for each in application.endpoints()
        if isinstance(each, MethodJmsListenerEndpoint)
    }
    if name not in found:
        raise ConfigurationException(
            f"The application has no handler {name}", hint=f"it has {', '.join(found) or 'none'}"
        )
    return found[name]


async def _run(
    application: JmsApplication,
    endpoint: MethodJmsListenerEndpoint,
    factory: ConnectionFactory,
    queue: Queue,
    message_id: str,
) -> Exception | None:
    """Call the handler with the message; return what it raised."""
    from pyjms.app.lifecycle import run_shutdown, run_startup
    from pyjms.listener.handler import HandlerListener

    wiring = application.wiring
    _, hooks = wiring.check()
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session(transacted=True)
        message = await _message(session, queue, message_id)
        if message is None:
            raise InvalidDestinationException(
                f"{queue} has no message {message_id} on {factory.uri}",
                hint=f"`pyjms browse {queue.physical_name} --headers` prints the ids; "
                "name another queue with --queue, another broker with --url",
            )
        await wiring.start_pools()
        try:
            await wiring.open_resources()
            await run_startup(hooks)
            listener = wiring.make_container(endpoint).message_listener
            assert isinstance(listener, HandlerListener), "that of a handler"
            return await _call(listener, message, session)
        finally:
            await session.rollback()
            await run_shutdown(hooks, application.stop_timeout)
            await wiring.close_resources(application.stop_timeout)
            await wiring.close_factories()


async def _message(session: ActiveMQSession, queue: Queue, message_id: str) -> Message | None:
    quoted = message_id.replace("'", "''")
    browser = await session.create_browser(queue, f"JMSMessageID = '{quoted}'")
    try:
        async for message in browser:
            return message
    finally:
        await browser.close()
    return None


async def _call(
    listener: HandlerListener, message: Message, session: ActiveMQSession
) -> Exception | None:
    from pyjms.listener.batches import BatchHandlerListener
    from pyjms.template.workers import own_worker

    call: Callable[[], Any] = partial(listener.call, message, session)
    if isinstance(listener, BatchHandlerListener):
        call = partial(listener.call, [message], session)
    with own_worker("pyjms replay") as worker:

        async def handle() -> Any:
            result = call() if listener.is_coroutine else await worker.run(call)
            return await result if inspect.isawaitable(result) else result

        try:
            result = await listener.with_resources(message, session, handle)
        except Exception as error:
            return error
    typer.echo(f"{listener.name} returned {safe_text(repr(result))}")
    return None
