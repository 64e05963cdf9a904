"""`pyjms broker jobs`: list and remove scheduled messages of a running broker or ActiveMQ.

The commands send requests to ActiveMQ.Scheduler.Management as a client. (activemq-broker S8)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pyjms.cli import terminal
from pyjms.cli.options import DryRun, PasswordFile, UrlOption, User, Yes, factory_for
from pyjms.errors import ConfigurationException
from pyjms.jms import scheduled
from pyjms.jms.destination import Destination, Topic

if TYPE_CHECKING:
    from pyjms.client.factory import ConnectionFactory
    from pyjms.client.session import ActiveMQSession
    from pyjms.jms.message import Message

app = typer.Typer(
    name="jobs",
    help="List and remove scheduled messages of a running broker.",
    no_args_is_help=True,
)


class Job(NamedTuple):
    """A job as a broker lists it."""

    job_id: str
    destination: str
    due: str
    """UTC; `-` with ActiveMQ, which does not report it."""
    schedule: str


@app.command("list")
def list_(url: UrlOption = None, user: User = None, password_file: PasswordFile = None) -> None:
    """List the jobs of a running broker, the next one first."""
    import anyio

    with terminal.one_line_errors("broker jobs list"):
        found = anyio.run(list_jobs, factory_for(url, user, password_file))
    terminal.table(("job", "destination", "due", "schedule"), found)
    typer.echo(terminal.plural(len(found), "job"))


@app.command()
def remove(
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="JOB...")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Remove all jobs.")] = False,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove jobs of a running broker, with their messages; --all after a confirmation.

    Unknown ids are ignored.
    """
    import anyio

    with terminal.one_line_errors("broker jobs remove"):
        if bool(job_ids) == all_:
            raise ConfigurationException("Name either job ids or --all")
        factory = factory_for(url, user, password_file)
        if (all_ or dry_run) and terminal.has_to_tell(yes=yes, dry_run=dry_run):
            found = anyio.run(list_jobs, factory)
            chosen = [job for job in found if all_ or job.job_id in (job_ids or ())]
            details = [f"{job.job_id} to {job.destination}" for job in chosen if dry_run]
            terminal.ask(f"Remove {terminal.plural(len(chosen), 'job')}", details, dry_run=dry_run)
        anyio.run(remove_jobs, factory, None if all_ else job_ids)


async def list_jobs(factory: ConnectionFactory) -> list[Job]:
    """Return the jobs of a broker; the list ends when no reply arrives for a second."""
    async with _session(factory) as session:
        replies = await session.create_temporary_queue()
        consumer = await session.create_consumer(replies)
        await _request(session, scheduled.AMQ_SCHEDULER_ACTION_BROWSE, reply_to=replies)
        found = []
        while (message := await consumer.receive(1)) is not None:
            found.append(_job(message))
        return found


async def remove_jobs(factory: ConnectionFactory, job_ids: list[str] | None) -> None:
    """Remove jobs of a broker; None: all."""
    async with _session(factory) as session:
        if job_ids is None:
            await _request(session, scheduled.AMQ_SCHEDULER_ACTION_REMOVEALL)
        for job_id in job_ids or ():
            await _request(session, scheduled.AMQ_SCHEDULER_ACTION_REMOVE, job_id=job_id)


@asynccontextmanager
async def _session(factory: ConnectionFactory) -> AsyncIterator[ActiveMQSession]:
    async with await factory.create_connection() as connection:
        await connection.start()
        yield await connection.create_session()


async def _request(
    session: ActiveMQSession,
    action: str,
    *,
    reply_to: Destination | None = None,
    job_id: str | None = None,
) -> None:
    producer = await session.create_producer(Topic(scheduled.AMQ_SCHEDULER_MANAGEMENT_DESTINATION))
    request = session.create_message()
    request.reply_to = reply_to
    request.properties[scheduled.AMQ_SCHEDULER_ACTION] = action
    if job_id is not None:
        request.properties[scheduled.AMQ_SCHEDULED_ID] = job_id
    await producer.send(request)
    await producer.close()


def _job(message: Message) -> Job:
    from pyjms.client.messages import command_of

    properties = message.properties
    due = properties.get(scheduled.PYJMS_NEXT_TIME)
    times = {"delay": scheduled.AMQ_SCHEDULED_DELAY, "period": scheduled.AMQ_SCHEDULED_PERIOD}
    others = {"repeat": scheduled.AMQ_SCHEDULED_REPEAT, "cron": scheduled.AMQ_SCHEDULED_CRON}
    values = {
        word: terminal.duration_text(value) if word in times and isinstance(value, int) else value
        for word, name in (times | others).items()
        if (value := properties.get(name)) is not None
    }
    return Job(
        str(properties.get(scheduled.AMQ_SCHEDULED_ID)),
        str(command_of(message).original_destination),
        "-" if not isinstance(due, int) else terminal.time_text(due),
        ", ".join(f"{word} {value}" for word, value in values.items()),
    )
