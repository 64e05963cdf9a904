"""JmsMessagingTemplate, JmsClient, JmsScheduler and the redrive of dead letters, blocking.

Post processors run on the loop: they change messages and must not block.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination
from pyjms.sync.facade import (
    Attribute,
    GivenFactory,
    ReadOnly,
    ReusableFacade,
    core_of,
    derive,
    loop_of,
)
from pyjms.sync.template import JmsTemplate, Variants
from pyjms.template.messaging import JmsClient as CoreClient
from pyjms.template.messaging import JmsClientOperations as CoreOperations
from pyjms.template.messaging import JmsMessagingTemplate as CoreMessagingTemplate
from pyjms.template.redrive import Redriven
from pyjms.template.redrive import redrive as redrive_on_loop
from pyjms.template.scheduler import JmsScheduler as CoreScheduler
from pyjms.template.template import Variants as CoreVariants

if TYPE_CHECKING:
    from pyjms.sync.derived import (
        ClientMembers,
        ClientOperationMembers,
        MessagingMembers,
        SchedulerMembers,
    )
else:
    MessagingMembers = derive(CoreMessagingTemplate, omit="jms_template")
    ClientOperationMembers = derive(CoreOperations, but=CoreVariants)
    ClientMembers = derive(CoreClient)
    SchedulerMembers = derive(CoreScheduler)


class JmsMessagingTemplate(ReusableFacade[CoreMessagingTemplate], MessagingMembers):
    """Sends and receives messages with a payload and headers. Spring: JmsMessagingTemplate.

    Every call blocks. Threads may share it. In a handler's thread it uses the application's loop
    and takes part in the handler's transaction. Takes a blocking JmsTemplate or connection
    factory, and the options of `pyjms.aio.JmsMessagingTemplate`.
    """

    __slots__ = ()

    default_destination: Attribute[Destination | str | None] = Attribute(
        "The destination of calls without one."
    )
    jms_template: Final = ReadOnly[JmsTemplate]("The underlying JmsTemplate.")

    def __init__(self, template: GivenFactory, **options: Any) -> None:
        self.core: CoreMessagingTemplate = CoreMessagingTemplate(core_of(template), **options)
        self.loop = loop_of(template)


class JmsClientOperations(Variants[CoreOperations], ClientOperationMembers):
    """Operations on one destination, with their own settings. All methods but `with_...` block.

    Created by `JmsClient.destination`. Threads may share it. Spring: OperationSpec.
    """

    __slots__ = ()


class JmsClient(ReusableFacade[CoreClient], ClientMembers):
    """The fluent API for sending and receiving. Spring: JmsClient.

    Threads may share it. Takes a blocking JmsTemplate or connection factory, and the options of
    `pyjms.aio.JmsClient`.

    Example:
        native = ConnectionFactory("vm://shop?broker.persistent=false")
        factory = CachingConnectionFactory(native)
        orders = JmsClient(factory).destination("orders.new").with_receive_timeout(5.0)
        orders.with_priority(7).send("order 1")
        assert orders.receive(str) == "order 1"
        factory.destroy()
    """

    __slots__ = ()

    def __init__(self, template: GivenFactory, **options: Any) -> None:
        self.core: CoreClient = CoreClient(core_of(template), **options)
        self.loop = loop_of(template)


class JmsScheduler(ReusableFacade[CoreScheduler], SchedulerMembers):
    """Sends messages through the broker's scheduler, lists its jobs and removes them.

    Every call blocks. Threads may share it. Takes a blocking JmsTemplate or connection factory.
    """

    __slots__ = ()

    def __init__(self, template: GivenFactory) -> None:
        self.core: CoreScheduler = CoreScheduler(core_of(template))
        self.loop = loop_of(template)


def redrive(
    template: JmsTemplate,
    queue: str = DEFAULT_DEAD_LETTER_QUEUE,
    *,
    destination: str | Destination | None = None,
    selector: str | None = None,
    limit: int | None = None,
    timeout: float = 1.0,
) -> Redriven:
    """Send each dead letter in `queue` to its original destination, in its own transaction.

    Blocks until all are sent. For arguments and errors see `pyjms.aio.redrive`.
    """
    return template.call(
        functools.partial(
            redrive_on_loop,
            template.core,
            queue,
            destination=destination,
            selector=selector,
            limit=limit,
            timeout=timeout,
        )
    )
